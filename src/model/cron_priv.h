/* cron_priv.h - between reading a schedule and finding its moments */
#pragma once
#include "model/cron.h"

bool cron_possible(const struct cron *c); /* is there any day on which it happens? */

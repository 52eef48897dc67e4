/* cron_priv.h - between reading a schedule and finding its moments */
#pragma once
#include "model/cron.h"

/* Is there any day on which the schedule happens?  False for 30 February. */
bool cron_possible(const struct cron *c);

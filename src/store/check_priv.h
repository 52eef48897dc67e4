/* check_priv.h - the checks of store_check on an open database */
#pragma once
#include "base/buf.h"
#include "store/db_priv.h"

int check_db(struct db *d, struct buf *findings, struct err *e);

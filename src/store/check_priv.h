/* check_priv.h - the checks of store_check on an open database */
#pragma once
#include "base/buf.h"
#include "store/db_priv.h"

/* Appends one line per finding, at most 20 per rule; -1 only when a rule could not be evaluated.
 * When SQLite finds the file damaged, our own rules are left out. */
int check_db(struct db *d, struct buf *findings, struct err *e);

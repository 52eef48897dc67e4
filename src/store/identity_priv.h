/* identity_priv.h - the steps of store_open that concern the home; home NULL = no step does
 * anything */
#pragma once
#include "store/db_priv.h"
#include "store/store.h"

/* Before the file is opened, which would create it: may it be missing? */
int identity_look(const char *path, const struct store_home *home, struct err *e);
/* Before the schema is touched: reads the id of the database and compares it. */
int identity_check(struct db *d, struct store_home *home, struct err *e);
/* After the schema is there: a database without an id gets one. */
int identity_record(struct db *d, struct store_home *home, struct err *e);

/* reseal_priv.h - a step of store_open: secrets of older programs are sealed */
#pragma once
#include "store/db_priv.h"
#include "store/store.h"

/* Once per database, after the schema is there; later calls return at once.  A failure (a full
 * disk) stays in how->trouble and the next call tries again: answers hide the values in any case.
 */
void reseal_once(struct db *d, struct store_seal *how);

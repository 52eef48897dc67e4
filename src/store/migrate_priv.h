/* migrate_priv.h - from the schema a file has to the one this program knows */
#pragma once
#include "store/db_priv.h"

enum { SCHEMA_APPLICATION = 0x42525448 }; /* "BRTH", PRAGMA application_id */
/* One step of the schema.  A released step is never changed: files in use have taken it. */
struct migration {
    const char *sql;                         /* from version i to i + 1, in one transaction */
    int (*run)(struct db *d, struct err *e); /* after the SQL, in the same; NULL = nothing more */
};
extern const struct migration migrations[];
extern const size_t n_migrations; /* = the version this program writes */

/* Brings the file to version n, one transaction per step; a step that fails leaves the version
 * before it.  A newer file, or one of another program, is ERR_CONFLICT. */
int migrate(struct db *d, const struct migration *steps, size_t n, struct err *e);

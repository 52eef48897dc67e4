/* db_priv.h - one SQLite connection with its prepared statements; inside the store room only */
#pragma once
#include "base/err.h"
#include "base/id.h"
#include "base/str.h"
#include "model/gpu_set.h"
#include "model/job.h"
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

enum db_mode {
    DB_WRITER, /* creates the file; the one connection that changes it */
    DB_READER, /* query_only */
};
enum { DB_STATEMENTS = 64 };
/* The columns of batch that count its jobs by state, in the order of job_states. */
#define BATCH_COUNT(up, low, number, kind) ", n" #number
#define BATCH_COUNTS JOB_STATE_LIST(BATCH_COUNT)
struct db_statement {
    const char *literal; /* key of db_prepare */
    char *text;          /* key of db_prepare_text */
    sqlite3_stmt *st;
    uint64_t used;
};
struct db {
    sqlite3 *h;
    char *path;
    struct db_statement cache[DB_STATEMENTS];
    uint64_t clock; /* of the cache */
};

/* A file that is not there is made with mode 0600 by a writer, and is NOT_FOUND for a reader.
 * ":memory:" is a private database that ends with the connection, for tests. */
int db_open(struct db *d, const char *path, enum db_mode mode, struct err *e);
void db_done(struct db *d); /* accepts a zeroed struct */

/* A statement of this text, reset and with no bindings, from the cache or fresh; owned by the
 * cache.  It must have been stepped to its end or reset before it is asked for again.  db_prepare
 * takes string literals only: they are recognised by their address. */
sqlite3_stmt *db_prepare(struct db *d, const char *literal, struct err *e);
sqlite3_stmt *db_prepare_text(struct db *d, const char *sql, struct err *e);
void db_forget_text(struct db *d, const char *sql);        /* drops it from the cache */
int db_exec(struct db *d, const char *sql, struct err *e); /* one or more statements, no rows */
int db_int(struct db *d, const char *literal, int64_t *out, struct err *e); /* first column */
/* What SQLite said last, as an error of ours: full disk → FULL, locked → UNAVAILABLE, … */
int db_fail(struct db *d, struct err *e);
/* Steps a statement that returns no rows and resets it. */
int db_run(struct db *d, sqlite3_stmt *st, struct err *e);
/* 1 = a row, 0 = the end (the statement is then reset), -1 = error. */
int db_step(struct db *d, sqlite3_stmt *st, struct err *e);

static inline void bind_str(sqlite3_stmt *st, int i, struct str s)
{
    sqlite3_bind_text(st, i, s.p ? s.p : "", (int)s.n, SQLITE_STATIC);
}
/* Empty text becomes NULL. */
static inline void bind_str_or_null(sqlite3_stmt *st, int i, struct str s)
{
    if (s.n)
        sqlite3_bind_text(st, i, s.p, (int)s.n, SQLITE_STATIC);
    else
        sqlite3_bind_null(st, i);
}
static inline void bind_id(sqlite3_stmt *st, int i, struct id id)
{
    uint8_t b[16];
    id_to_bytes(id, b);
    sqlite3_bind_blob(st, i, b, sizeof(b), SQLITE_TRANSIENT);
}
static inline uint64_t column_u64(sqlite3_stmt *st, int i)
{
    return (uint64_t)sqlite3_column_int64(st, i);
}
/* The devices of a run: as text, or in older rows as a bit mask. */
struct gpu_set column_gpus(sqlite3_stmt *st, int mask, int text);
static inline struct str column_str(sqlite3_stmt *st, int i)
{
    const char *p = (const char *)sqlite3_column_text(st, i);
    return (struct str){p ? p : "", (size_t)sqlite3_column_bytes(st, i)};
}
static inline struct id column_id(sqlite3_stmt *st, int i)
{
    const void *p = sqlite3_column_blob(st, i);
    if (!p || sqlite3_column_bytes(st, i) != 16)
        return (struct id){0, 0};
    return id_from_bytes(p);
}

/* db_priv.h - one SQLite connection with its prepared statements; inside the store room only */
#pragma once
#include "base/err.h"
#include "base/id.h"
#include "base/str.h"
#include "model/gpu_set.h"
#include "model/job.h"
#include "model/series.h"
#include "model/spec.h"
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
/* One entry of the cache; `used` is the clock at its last use, and the entry with the smallest is
 * replaced. */
struct db_statement {
    const char *literal; /* key of db_query */
    char *text;          /* key of db_query_text */
    sqlite3_stmt *st;
    uint64_t used;
};
/* A connection belongs to one thread at a time: SQLite is opened without its own mutex. */
struct db {
    sqlite3 *h;
    char *path;
    struct db_statement cache[DB_STATEMENTS];
    uint64_t clock; /* of the cache */
    size_t last;    /* the statement used last */
};

/* A file that is not there is made with mode 0600 by a writer, and is NOT_FOUND for a reader.
 * ":memory:" is a private database that ends with the connection, for tests. */
int db_open(struct db *d, const char *path, enum db_mode mode, struct err *e);
void db_done(struct db *d); /* accepts a zeroed struct */

/* ---- values for the parameters ?1, ?2 … of a statement, in this order ---- */
struct db_arg {
    enum { ARG_NONE, ARG_NULL, ARG_INT, ARG_REAL, ARG_TEXT, ARG_BLOB, ARG_ID } type;
    union {
        int64_t i;
        double d;
        struct str s; /* borrowed until the statement is done */
        struct id id;
    };
};
#define INT(v) ((struct db_arg){.type = ARG_INT, .i = (int64_t)(v)})
#define REAL(v) ((struct db_arg){.type = ARG_REAL, .d = (v)})
#define TEXT(v) ((struct db_arg){.type = ARG_TEXT, .s = (v)})
#define BLOB(v) ((struct db_arg){.type = ARG_BLOB, .s = (v)})
#define ID(v) ((struct db_arg){.type = ARG_ID, .id = (v)})
#define NONE ((struct db_arg){.type = ARG_NULL})       /* SQL's NULL */
static inline struct db_arg TEXT_OR_NULL(struct str s) /* NULL when empty */
{
    return s.n ? TEXT(s) : NONE;
}
/* A list of values; the first one is a placeholder, because C has no empty lists. */
#define DB_ARGS(...)                                                                               \
    (const struct db_arg[])                                                                        \
    {                                                                                              \
        {.type = ARG_NONE}, ##__VA_ARGS__                                                          \
    }
#define DB_COUNT(...) (sizeof(DB_ARGS(__VA_ARGS__)) / sizeof(struct db_arg) - 1)

/* ---- statements ----
 * `sql` is a string literal: it is compiled once per connection and found again by its address.
 * The number of values must be that of its parameters. */
/* db_run(d, e, sql, values…): a statement without rows, from begin to end. */
#define db_run(d, e, sql, ...)                                                                     \
    db_run_args(d, e, sql, DB_ARGS(__VA_ARGS__) + 1, DB_COUNT(__VA_ARGS__))
/* db_query(d, e, sql, values…): a statement to be stepped with db_step.  It belongs to the
 * connection and must have been stepped to its end, or reset, before the same sql is used again.
 * NULL = error, also when d is NULL; db_step then fails, so one check behind the loop is enough. */
#define db_query(d, e, sql, ...)                                                                   \
    db_query_args(d, e, sql, DB_ARGS(__VA_ARGS__) + 1, DB_COUNT(__VA_ARGS__))
/* The functions behind the two macros. */
int db_run_args(struct db *d, struct err *e, const char *sql, const struct db_arg *args, size_t n);
sqlite3_stmt *db_query_args(struct db *d, struct err *e, const char *sql, const struct db_arg *args,
                            size_t n);
/* The same for text made at run time, found again by its contents. */
sqlite3_stmt *db_query_text(struct db *d, struct err *e, const char *sql, const struct db_arg *args,
                            size_t n);
void db_forget_text(struct db *d, const char *sql); /* drops it from the cache */
/* 1 = a row, 0 = the end (the statement is then reset), -1 = error. */
int db_step(struct db *d, sqlite3_stmt *st, struct err *e);
/* The text is compiled with each call and not kept. */
int db_exec(struct db *d, const char *sql, struct err *e); /* one or more statements, no rows */
int db_int(struct db *d, const char *literal, int64_t *out, struct err *e); /* first column */
/* What SQLite said last, as an error of ours: full disk → FULL, locked → UNAVAILABLE, … */
int db_fail(struct db *d, struct err *e);

/* ---- columns of the row on which a statement stands ----
 * db_row(st, COL(&a), COL(&b), …) reads them in the order of the SELECT into variables, whose types
 * say how; texts are borrowed until the next step.  Three structs take several columns:
 * resources (mcpu, mem_bytes, gpus, slots), gpu_set (gpus, devices) and series_stats (numbers,
 * step_min, step_max, at_min, at_max, min, max, low_step, high_step, first, sum, counted: that is
 * SERIES_STATS). */
#define SERIES_STATS                                                                               \
    "numbers, step_min, step_max, at_min, at_max, min, max, low_step, high_step, first, sum,"      \
    " counted"
struct db_column {
    enum {
        COL_BOOL,
        COL_I32,
        COL_U32,
        COL_I64,
        COL_U64,
        COL_REAL,
        COL_STR,
        COL_ID,
        COL_NEED,
        COL_GPUS,
        COL_STATS
    } type;
    void *to;
};
#define COL(p)                                                                                     \
    ((struct db_column){_Generic(*(p), bool                                                        \
                                 : COL_BOOL, int32_t                                               \
                                 : COL_I32, uint32_t                                               \
                                 : COL_U32, int64_t                                                \
                                 : COL_I64, uint64_t                                               \
                                 : COL_U64, double                                                 \
                                 : COL_REAL, struct str                                            \
                                 : COL_STR, struct id                                              \
                                 : COL_ID, struct resources                                        \
                                 : COL_NEED, struct gpu_set                                        \
                                 : COL_GPUS, struct series_stats                                   \
                                 : COL_STATS),                                                     \
                        (p)})
#define db_row(st, ...)                                                                            \
    db_row_read(st, (const struct db_column[]){__VA_ARGS__},                                       \
                sizeof((const struct db_column[]){__VA_ARGS__}) / sizeof(struct db_column))
void db_row_read(sqlite3_stmt *st, const struct db_column *c, size_t n);
/* Single columns, counted from 0. */
static inline uint64_t column_u64(sqlite3_stmt *st, int i)
{
    return (uint64_t)sqlite3_column_int64(st, i);
}
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

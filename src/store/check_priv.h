/* check_priv.h - the checks of store_check and of store_open on an open database */
#pragma once
#include "base/buf.h"
#include "store/db_priv.h"

/* Appends one line per finding, at most 20 per rule; -1 only when a rule could not be evaluated.
 * When SQLite finds the file damaged, our own rules are left out. */
int check_db(struct db *d, struct buf *findings, struct err *e);
/* SQLite 3.40 says this of every row of `notify`: it misreads a column without NULL that is
 * declared between the columns of the key, in a table without row ids. */
#define FALSE_FINDING "NULL value in notify.last"
/* Of a statement PRAGMA integrity_check or quick_check: 1 = *out is the next finding, 0 = there is
 * none, -1 = the file cannot be read.  Ask SQLite for many findings: false ones are passed over. */
#define FINDINGS_MANY "1000000"
int check_next(struct db *d, sqlite3_stmt *st, struct str *out, struct err *e);
/* The rules one by one: 0 is SQLite's own check of the whole file. */
size_t check_rule_count(void);
int check_rule(struct db *d, size_t rule, struct buf *findings, struct err *e);
/* The error of a damaged file: what is wrong, and what to do. */
int damage_say(const char *path, struct str what, struct err *e);

/* ---- start_check.c ---- */
struct check_budget {
    int64_t until_us; /* of the current part, by check_clock_us */
    bool over;        /* a statement of it was given up */
    bool partly;      /* something was not looked at, for lack of time */
};
int64_t check_clock_us(void);
/* Before the schema is touched.  A file that is not there or empty is sound. */
int start_check_pages(const char *path, struct check_budget *b, struct err *e);
/* With the schema of this program. */
int start_check_rows(const char *path, struct check_budget *b, struct err *e);

/* ---- warm.c ---- */
/* Is the file in memory, as far as samples tell? */
bool file_is_warm(int fd, int64_t bytes);
/* Reads it into memory, until a time of check_clock_us; true: all of it is there. */
bool file_warm(int fd, int64_t bytes, int64_t until_us);

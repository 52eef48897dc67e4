/* query_priv.h - parts that the files of the queries share */
#pragma once
#include "store/query.h"
#include "store/sql_priv.h"
#include "store/store_priv.h"

/* The number an id has or had, 0 when it was never given. */
int query_seq_of_id(struct db *d, struct id id, uint64_t *out, struct err *e);
/* The stretch of numbers and ids `seq` belongs to. */
int query_range(struct db *d, uint64_t seq, uint64_t *first, uint64_t *last, struct id *id,
                struct err *e);
/* How many runs of the job were lost (run_end_is_lost). */
int query_lost_runs(struct db *d, uint64_t job, uint32_t *out, struct err *e);
/* How many of its runs, since the last one that exited on a disk with space, met a full one. */
int query_full_runs(struct db *d, uint64_t job, uint32_t *out, struct err *e);
/* Functions that queries use: job_id(base, offset), state_name(state), param_number(params, key).
 */
int query_functions(struct db *d, struct err *e);
/* The function param_number of SQL, see param_number.c. */
void sql_param_number(sqlite3_context *ctx, int n, sqlite3_value **v);

/* The JSON text of a parameter: of that name, else of that path (opt.name).  1 = it is there. */
int param_raw(struct str params, struct str name, struct str *out);
/* Calls fn with the names at the top level of an object of parameters; false = one of them is
 * written with escapes, and was not told. */
bool param_keys(struct str params, void (*fn)(void *arg, struct str name), void *arg);

/* ---- param_names.c ---- */
struct param_names *param_names_new(void);
void param_names_free(struct param_names *n);
/* Was any job submitted with a parameter of this name, or with one that this path begins with?
 * Any thread. */
int param_names_has(struct param_names *n, struct db *d, const char *name, bool *out,
                    struct err *e);

struct series_view;
/* track.c: one metric of a job.  1 = it is there, and *out borrows from the statement. */
int series_find(struct db *d, uint64_t job, const char *name, struct series_view *out,
                struct err *e);

/* ---- view.c: one job as people see it ---- */
/* Reads many jobs one after the other; zeroed but for `db` at first. */
struct view_reader {
    struct db *db;
    sqlite3_stmt *spec_st; /* stands on the row of `spec`: its text is borrowed by the view */
    sqlite3_stmt *batch_st;
    uint64_t spec, batch;
    uint64_t first, last; /* the id range at hand */
    struct id id;
};
/* 1 = *out is filled and valid until the next call; 0 = no such job. */
int view_read(struct view_reader *r, uint64_t seq, struct job_view *out, struct err *e);
/* Resets the statements that still stand on a row, so that the connection can be lent again. */
void view_done(struct view_reader *r);

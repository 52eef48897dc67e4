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

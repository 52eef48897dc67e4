/* record.c - one job as the controller keeps it, also when it has finished: for retries and
 * dependencies */
#include "base/util.h"
#include "store/query.h"
#include "store/store_priv.h"
#include <stdio.h>

static void take_record(struct store *s, sqlite3_stmt *st, struct job_record *out)
{
    struct str queue = column_str(st, 19);

    snprintf(s->record_queue, sizeof(s->record_queue), STR_FMT, STR_ARG(queue));
    *out = (struct job_record){
        .seq = column_u64(st, 0),
        .state = (enum job_state)sqlite3_column_int(st, 1),
        .spec = column_u64(st, 2),
        .batch = column_u64(st, 3),
        .index = sqlite3_column_int64(st, 4),
        .priority = sqlite3_column_int(st, 5),
        .attempt = (uint32_t)sqlite3_column_int64(st, 6),
        .tries = (uint32_t)sqlite3_column_int64(st, 7),
        .cancel_requested = sqlite3_column_int(st, 8) != 0,
        .created_ms = sqlite3_column_int64(st, 9),
        .next_try_ms = sqlite3_column_int64(st, 10),
        .need = {.mcpu = sqlite3_column_int64(st, 11),
                 .mem_bytes = sqlite3_column_int64(st, 12),
                 .gpus = sqlite3_column_int(st, 13),
                 .slots = sqlite3_column_int(st, 14)},
        .timeout_ms = sqlite3_column_int64(st, 15),
        .backoff_ms = sqlite3_column_int64(st, 16),
        .retries = sqlite3_column_int(st, 17),
        .uid = (uint32_t)sqlite3_column_int64(st, 18),
        .queue = str_of(s->record_queue),
        .batch_slots = sqlite3_column_int(st, 20),
        .id = id_add(column_id(st, 21), column_u64(st, 0) - column_u64(st, 22)),
    };
}

int store_record(struct store *s, uint64_t job, struct job_record *out, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    sqlite3_stmt *st =
        d ? db_prepare(d,
                       "SELECT job.seq, job.state, job.spec, job.batch, job.idx, job.priority,"
                       " job.attempt, job.tries, job.cancel, job.created_ms, job.next_try_ms,"
                       " spec.mcpu, spec.mem_bytes, spec.gpus, spec.slots, spec.timeout_ms,"
                       " spec.backoff_ms, spec.retries, party.uid, party.queue,"
                       " ifnull(batch.slots, 0), intake.id, intake.first FROM job"
                       " JOIN spec ON spec.seq = job.spec JOIN party ON party.seq = job.party"
                       " LEFT JOIN batch ON batch.seq = job.batch"
                       " JOIN intake ON intake.first = (SELECT max(first) FROM intake"
                       " WHERE first <= ?1) WHERE job.seq = ?1",
                       e)
          : NULL;
    int rc = -1;

    if (st) {
        sqlite3_bind_int64(st, 1, (int64_t)job);
        rc = db_step(d, st, e);
        if (rc == 1) {
            take_record(s, st, out);
            sqlite3_reset(st);
        }
    }
    pool_return(&s->pool, d);
    if (rc == 0)
        return err_set(e, ERR_NOT_FOUND, "there is no job %llu", (unsigned long long)job);
    return rc < 0 ? -1 : 0;
}

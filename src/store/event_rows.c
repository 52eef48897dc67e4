/* event_rows.c - the append-only log: one row per change, numbered without gaps per commit
 *
 * Owns: the table event and the names of its kinds.  Data is one JSON object, or NULL when there is
 * nothing to add to kind, time and jobs.
 */
#include "base/json_out.h"
#include "store/apply_priv.h"

/* State names with their prefix, built once by the compiler. */
static const char *const state_kinds[JOB_STATE_MAX] = {
#define X(up, low, number, kind) [number] = "job." #low,
    JOB_STATE_LIST(X)
#undef X
};

const char *event_kind_name(int kind)
{
    if (kind >= 0 && kind < JOB_STATE_MAX)
        return state_kinds[kind];
    switch (kind) {
#define X(up, n, text)                                                                             \
    case n:                                                                                        \
        return text;
        EVENT_KIND_LIST(X)
#undef X
    default:
        return "unknown";
    }
}

void data_begin(struct applier *a, struct str user)
{
    buf_reset(&a->data);
    jw_object(&a->data, NULL);
    data_str(a, "user", user);
}

void data_int(struct applier *a, const char *key, int64_t v)
{
    jw_int(&a->data, key, v);
}

void data_str(struct applier *a, const char *key, struct str v)
{
    if (v.n)
        jw_str(&a->data, key, v);
}

int event_append(struct applier *a, enum event_kind kind, int64_t at_ms, uint64_t first,
                 uint64_t last, struct err *e)
{
    jw_end_object(&a->data);
    bool data = a->data.n > 2 && !a->data.overflow;

    if (db_run(a->db, e,
               "INSERT INTO event(seq, at_ms, kind, first, last, data)"
               " VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
               INT(a->last_event + 1), INT(at_ms), INT(kind), INT(first), INT(last),
               data ? TEXT(buf_str(&a->data)) : NONE) < 0)
        return -1;
    a->last_event++;
    if (kind < EVENT_JOB_STATE + JOB_STATE_MAX)
        hook_note(a, (enum job_state)kind, at_ms, first, last);
    else if (kind == EVENT_BATCH_SUBMITTED)
        hook_note(a, JOB_QUEUED, at_ms, first, last);
    return 0;
}

/* job_live.c - what only the controller knows of a job right now, put into an answer about it
 *
 * Answers are written from the store on a worker thread; where a job stands with the GPU planner is
 * known on the loop thread alone.  The worker leaves `"gpu":null` and notes the place; before the
 * answer goes out the loop thread fills it in.
 */
#include "api/api_priv.h"
#include "api/job_json.h"

enum { LIVE_MAX = 256 }; /* a prediction each: more would hold up others */

void job_live_note(struct call *c, const struct job_view *v, size_t at)
{
    struct job_live *live = c->data;
    struct live_spot *s;

    /* The planner knows only active jobs that train; all others keep the null. */
    if (!v->training.n || job_state_final(v->state) || live->n >= LIVE_MAX)
        return;
    s = call_alloc(c, sizeof(*s));
    *s = (struct live_spot){at, v->seq, NULL};
    if (live->last)
        live->last->next = s;
    else
        live->first = s;
    live->last = s;
    live->n++;
}

/* A predicted time with its bounds; null when there is no prediction. */
static void put_span(struct buf *b, const char *key, int64_t at, int64_t lo, int64_t hi)
{
    if (!at) {
        jw_null(b, key);
        return;
    }
    jw_object(b, key);
    jw_time(b, "at", at);
    jw_time(b, "from", lo);
    jw_time(b, "to", hi);
    jw_end_object(b);
}

/* What the GPU planner knows of a job at this moment. */
static void put_live(struct buf *b, const struct gpu_view *v)
{
    jw_object(b, NULL);
    jw_gpus(b, "devices", &v->devices);
    jw_array(b, "shares_with");
    for (int32_t i = 0; i < v->n_with; i++)
        jw_int(b, NULL, (int64_t)v->with[i]);
    jw_end_array(b);
    jw_bool(b, "stopping", v->stopping);
    jw_int(b, "reserved_bytes", v->reserved_bytes);
    jw_double(b, "speed", v->speed);
    jw_double(b, "left_s", v->left_s);
    jw_double(b, "estimate_s", v->estimate_s);
    if (v->running)
        jw_null(b, "wait");
    else
        jw_text(b, "wait", core_wait_name(v->wait));
    jw_int_or_null(b, "wait_for", (int64_t)v->wait_for, v->wait_for && !v->running);
    put_span(b, "start", v->start.at, v->start.lo, v->start.hi);
    put_span(b, "finish", v->finish.at, v->finish.lo, v->finish.hi);
    jw_end_object(b);
}

void job_live_reply(struct call *c)
{
    const struct job_live *live = c->data;
    struct buf full;
    size_t from = 0;

    if (!live->n || c->out.overflow) {
        call_reply(c);
        return;
    }
    buf_init(&full, c->out.max);
    for (const struct live_spot *s = live->first; s; s = s->next) {
        struct gpu_view v;
        if (!core_training(call_api(c)->conf.core, s->seq, &v))
            continue;
        buf_add(&full, c->out.p + from, s->at - from);
        put_live(&full, &v);
        from = s->at + strlen("null");
    }
    /* The ETag covers the first etag.n bytes of the answer, and those have become longer. */
    if (c->etag.n)
        c->etag.n += full.n - from;
    buf_add(&full, c->out.p + from, c->out.n - from);
    full.overflow |= c->out.overflow;
    buf_done(&c->out);
    c->out = full;
    c->etag.text[0] = 0; /* of what is sent */
    call_reply(c);
}

/* feed.c - the thread that speaks to the scheduler: submits a batch, hears of its jobs
 *
 * All jobs of a batch wait in a queue of their own, so that whatever an earlier owner left behind
 * can be found by that name after a crash: what still runs the same script is kept, what would run
 * another one is ended first, what succeeded meanwhile counts.
 */
#include "base/clock.h"
#include "base/map.h"
#include "base/rand.h"
#include "base/util.h"
#include "cli/follow.h"
#include "cli/list.h"
#include "cli/sse.h"
#include "cli/view.h"
#include "dialect/hyperctl/run.h"
#include <poll.h>
#include <pthread.h>
#include <stdio.h>

enum { NAP_MS = 20, PATH_TEXT_MAX = 4096, KEY_HEX = 32 };

struct hyper_feed {
    struct hyper_feed_conf conf;
    pthread_t thread;
    /* Set by the loop thread; everything else belongs to the feed's thread until `over`. */
    atomic_bool stop;
    uint64_t *numbers;        /* per job; 0 = not with the scheduler */
    bool *ended;              /* per job */
    struct map_u64 by_number; /* → index + 1 */
    size_t left;              /* with the scheduler and not ended */
    uint64_t last_event;
    char **nodes;   /* per job, where it starts; NULL = not told */
    uint32_t *runs; /* per job, the number of its run; 0 = not told */
    bool submitted;
    struct err err;
    bool failed;
};

/* ---- telling the loop ---- */

/* A note on its way from the feed's thread to the loop. */
struct posted {
    struct hyper_feed *f;
    struct hyper_note note;
};

/* Loop thread.  The note is part of `posted`, so the receiver must not keep it. */
static void note_deliver(void *arg)
{
    struct posted *p = arg;

    p->f->conf.note(p->f->conf.arg, &p->note);
    free(p);
}

/* Made on the thread of the feed; note_post hands it to the loop. */
static struct posted *note_new(struct hyper_feed *f, size_t job, enum hyper_note_kind kind,
                               int64_t at_ms)
{
    struct posted *p = xcalloc(1, sizeof(*p));

    p->f = f;
    p->note = (struct hyper_note){
        .job = job, .kind = kind, .number = f->numbers[job], .at_ms = at_ms, .exit_code = -1};
    p->note.run = f->runs[job];
    if (f->nodes[job])
        snprintf(p->note.node, sizeof(p->note.node), "%s", f->nodes[job]);
    return p;
}

static void note_post(struct posted *p)
{
    loop_post(p->f->conf.loop, note_deliver, p);
}

struct line {
    struct hyper_feed *f;
    char *text;
    bool bad;
};

static void deliver_line(void *arg)
{
    struct line *l = arg;

    l->f->conf.say(l->f->conf.arg, l->bad, l->text);
    free(l->text);
    free(l);
}

static void feed_say(void *arg, bool bad, const char *text)
{
    struct line *l = xmalloc(sizeof(*l));

    *l = (struct line){arg, xstrdup(text), bad};
    loop_post(l->f->conf.loop, deliver_line, l);
}

static void copy_text(char *out, size_t n, struct str s)
{
    snprintf(out, n, STR_FMT, (int)MIN(s.n, n - 1), s.p ? s.p : "");
}

/* "killed by signal 9 (KILL)": the status alone could also be an exit of 137. */
static int signal_of(struct str reason, int exit_code)
{
    return str_starts(reason, STR("killed by signal")) && exit_code > 128 ? exit_code - 128 : 0;
}

static void set_outcome(struct hyper_note *n, const struct json *data)
{
    const struct json *code = json_get(data, "exit_code");

    n->exit_code = code ? (int)json_int(code) : -1;
    n->signo = signal_of(text_of(data, "reason"), n->exit_code);
    copy_text(n->why, sizeof(n->why), text_of(data, "reason"));
}

/* False for states that the batch does not show, such as held or stopping. */
static bool kind_of(struct str state, enum hyper_note_kind *out)
{
    static const struct {
        const char *name;
        enum hyper_note_kind kind;
    } kinds[] = {
        {"running", NOTE_RUNNING}, {"queued", NOTE_QUEUED}, {"succeeded", NOTE_SUCCEEDED},
        {"failed", NOTE_FAILED},   {"lost", NOTE_FAILED},   {"cancelled", NOTE_CANCELLED},
    };

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (str_eq_c(state, kinds[i].name)) {
            *out = kinds[i].kind;
            return true;
        }
    return false;
}

/* ---- events ---- */

static void feed_set_place(struct hyper_feed *f, size_t job, const struct json *run)
{
    free(f->nodes[job]);
    f->nodes[job] = xstrndup(text_of(run, "node").p, text_of(run, "node").n);
    f->runs[job] = (uint32_t)int_of(run, "run");
}

/* An event that changes what the batch shows becomes a note for the loop. */
static void job_event(struct hyper_feed *f, size_t job, struct str state, const struct json *ev)
{
    const struct json *data = json_get(ev, "data");
    enum hyper_note_kind kind;

    /* A final status never changes; a late or repeated event is ignored. */
    if (f->ended[job])
        return;
    if (str_eq_c(state, "starting")) {
        feed_set_place(f, job, data);
        return;
    }
    if (!kind_of(state, &kind))
        return;
    struct posted *p = note_new(f, job, kind, time_of(ev, "at"));
    if (kind != NOTE_RUNNING)
        set_outcome(&p->note, data);
    if (kind >= NOTE_SUCCEEDED) {
        f->ended[job] = true;
        f->left--;
    }
    note_post(p);
}

/* False ends the stream: all jobs have ended. */
static bool feed_on_event(void *arg, const struct sse_event *sse)
{
    struct hyper_feed *f = arg;
    AUTO(json) struct json *ev = NULL;
    struct err e;

    if (json_parse(sse->data, "event", &ev, &e) < 0)
        return true;
    struct str kind = text_of(ev, "kind");
    uint64_t first = (uint64_t)int_of(ev, "job"), last = (uint64_t)int_of(ev, "last");
    f->last_event = sse->id;
    if (str_starts(kind, STR("job."))) {
        struct str state = {kind.p + 4, kind.n - 4};
        /* An event may cover a range of jobs; most cover one. */
        if (first == last) {
            uintptr_t at = (uintptr_t)map_u64_get(&f->by_number, first);
            if (at)
                job_event(f, at - 1, state, ev);
        } else {
            for (size_t i = 0; i < f->conf.batch->jobs.n; i++)
                if (f->numbers[i] >= first && f->numbers[i] <= last)
                    job_event(f, i, state, ev);
        }
    }
    return f->left > 0;
}

/* Until all jobs have ended.  A stream that breaks is resumed after the last event. */
static int listen_to_events(struct hyper_feed *f, struct err *e)
{
    int rc = 0;

    while (f->left && rc == 0) {
        char path[80];
        int status = 0;
        AUTO(json) struct json *meta = NULL;
        struct sse s; /* anew each time: what was cut off in the middle is sent again */
        sse_init(&s, feed_on_event, f);
        snprintf(path, sizeof(path), "/v1/events?after=%llu", (unsigned long long)f->last_event);
        if (http_call_stream(f->conf.c->http, "GET", path, NULL, STR(""), &status, sse_feed, &s,
                             e) == 0 &&
            status >= 400 && status < 500)
            rc = err_set(e, ERR_INTERNAL,
                         "the scheduler answers the request for events with status %d", status);
        sse_done(&s);
        if (!f->left || rc < 0)
            break;
        poll(NULL, 0, NAP_MS);
        rc = cli_get(f->conf.c, "/v1", &meta, e); /* brings a host up when there is none */
        if (rc == 0)
            rc = hyper_far_lend(f->conf.c, f->conf.lent, false, e);
    }
    return rc;
}

/* From now on events of this number are events of the job. */
static void track(struct hyper_feed *f, size_t job, uint64_t number)
{
    f->numbers[job] = number;
    map_u64_put(&f->by_number, number, (void *)(uintptr_t)(job + 1));
    f->left++;
}

/* ---- what an earlier owner left behind ---- */

/* Jobs found in the queue of the batch after a crash of its owner. */
struct leftover {
    struct hyper_feed *f;
    struct json **last;    /* per job: its newest record */
    VEC(int64_t) unwanted; /* numbers of jobs to be ended */
};

static bool is_active(const struct json *row)
{
    return row && !job_final(row);
}

/* Keeps the newest record of each job; older active ones are unwanted. */
static void on_page(void *arg, const struct json *items)
{
    struct leftover *l = arg;

    for (size_t i = 0; i < json_len(items); i++) {
        const struct json *row = json_at(items, i);
        const struct hyper_job *j = hyper_batch_find(l->f->conf.batch, text_of(row, "name"));
        if (!j) {
            if (is_active(row))
                vec_push(&l->unwanted, int_of(row, "number"));
            continue;
        }
        size_t at = (size_t)(j - l->f->conf.batch->jobs.p);
        if (is_active(l->last[at]))
            vec_push(&l->unwanted, int_of(l->last[at], "number"));
        json_free(l->last[at]);
        l->last[at] = json_copy(row);
    }
}

/* On which machine its last run is, and which one that is: a list does not tell. */
static void look_up_place(struct hyper_feed *f, size_t job, uint64_t number)
{
    AUTO(json) struct json *one = NULL;
    char path[48];
    struct err e;

    if (!f->conf.batch->remote)
        return;
    snprintf(path, sizeof(path), "/v1/jobs/%llu", (unsigned long long)number);
    if (cli_get(f->conf.c, path, &one, &e) < 0)
        return;
    const struct json *runs = json_get(one, "runs");
    if (json_len(runs))
        feed_set_place(f, job, json_at(runs, json_len(runs) - 1));
}

/* True when the job need not be submitted: it still runs, or it succeeded since the last run. */
static bool feed_adopt(struct hyper_feed *f, size_t job, const struct json *row)
{
    const struct hyper_job *j = &f->conf.batch->jobs.p[job];
    struct str state = text_of(row, "state");
    bool begun = !str_eq_c(state, "queued");

    if (is_active(row)) {
        /* A job that ends already, or that runs an older script, does not count as this job. */
        if (str_eq_c(state, "stopping") || (begun && f->conf.changed[job]))
            return false;
        track(f, job, (uint64_t)int_of(row, "number"));
        look_up_place(f, job, f->numbers[job]);
        if (str_eq_c(state, "running"))
            note_post(note_new(f, job, NOTE_RUNNING, time_of(row, "started")));
        return true;
    }
    if (!str_eq_c(state, "succeeded") || hyper_marker_removed(f->conf.layout, j))
        return false;
    f->numbers[job] = (uint64_t)int_of(row, "number");
    look_up_place(f, job, f->numbers[job]);
    struct posted *p = note_new(f, job, NOTE_SUCCEEDED, time_of(row, "ended"));
    p->note.started_ms = time_of(row, "started");
    set_outcome(&p->note, row);
    note_post(p);
    f->ended[job] = true;
    return true;
}

/* Waits for their end: a second copy of a job would write the same files. */
static int end_unwanted(struct hyper_feed *f, const int64_t *numbers, size_t n, struct err *e)
{
    AUTO(json) struct json *body = json_new_object();
    struct json *list = json_new_array();

    for (size_t i = 0; i < n; i++)
        json_push_take(list, json_new_int(numbers[i]));
    json_set_take(body, "jobs", list);
    int rc = n ? cli_post(f->conf.c, "/v1/jobs/cancel", body, NULL, e) : 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        AUTO(json) struct json *job = NULL;
        char ref[24];
        snprintf(ref, sizeof(ref), "%lld", (long long)numbers[i]);
        rc = follow_end(f->conf.c, ref, &job, e);
    }
    return rc;
}

/* Settles every leftover job: kept, counted as succeeded, or ended. */
static int feed_adopt_all(struct hyper_feed *f, struct err *e)
{
    const struct hyper_batch *b = f->conf.batch;
    const struct list_query q = {NULL, NULL, "id", -1};
    struct leftover l = {.f = f, .last = xcalloc(b->jobs.n + 1, sizeof(*l.last))};

    /* list_pages takes the queue from the options of the session. */
    f->conf.c->opt.queue = f->conf.queue;
    int rc = list_pages(f->conf.c, &q, on_page, &l, NULL, e);
    f->conf.c->opt.queue = NULL;
    for (size_t i = 0; i < b->jobs.n; i++) {
        bool settled = rc == 0 && f->conf.pending[i] && l.last[i] && feed_adopt(f, i, l.last[i]);
        if (!settled && is_active(l.last[i]))
            vec_push(&l.unwanted, int_of(l.last[i], "number"));
        json_free(l.last[i]);
    }
    if (rc == 0)
        rc = end_unwanted(f, l.unwanted.p, l.unwanted.n, e);
    vec_done(&l.unwanted);
    free(l.last);
    return rc;
}

/* ---- submitting ---- */

/* The random key lets the client repeat the request without submitting the batch twice. */
static int post_batch(struct hyper_feed *f, const struct json *body, struct json **reply,
                      struct err *e)
{
    AUTO(buf) struct buf path = {0};
    char key[KEY_HEX + 1], key_line[80];
    uint8_t raw[KEY_HEX / 2];
    const char *headers[] = {"Content-Type: application/json", key_line, NULL};

    random_bytes(raw, sizeof(raw));
    for (size_t i = 0; i < sizeof(raw); i++)
        snprintf(key + 2 * i, 3, "%02x", raw[i]);
    snprintf(key_line, sizeof(key_line), "Idempotency-Key: hyperctl-%s", key);
    buf_init(&path, PATH_TEXT_MAX);
    buf_adds(&path, "/v1/jobs");
    query_add(&path, "batch", f->conf.batch->name);
    return cli_call(f->conf.c, "POST", path.p, headers, body, reply, e);
}

/* The scheduler numbers the jobs of one submission in a row. */
static int feed_submit(struct hyper_feed *f, struct err *e)
{
    AUTO_FREE size_t *order = xcalloc(f->conf.batch->jobs.n + 1, sizeof(*order));
    AUTO(json) struct json *reply = NULL;
    size_t n = 0;
    AUTO(json) struct json *body = hyper_submission(&f->conf, f->numbers, f->ended, order, &n);
    bool wanted = n && !atomic_load(&f->stop);

    f->submitted = f->submitted || wanted;
    int rc = wanted ? post_batch(f, body, &reply, e) : 0;
    if (rc == 0 && reply) {
        uint64_t first = (uint64_t)int_of(reply, json_has(reply, "first") ? "first" : "number");
        for (size_t i = 0; i < n; i++)
            track(f, order[i], first + i);
    }
    return rc;
}

/* Pauses or resumes the queue of this batch only. */
static int set_queue(struct hyper_feed *f, bool paused, struct err *e)
{
    AUTO(buf) struct buf path = {0};

    buf_init(&path, PATH_TEXT_MAX);
    buf_adds(&path, "/v1/queues/");
    url_encode(&path, str_of(f->conf.queue));
    buf_adds(&path, paused ? "/pause" : "/resume");
    return cli_post(f->conf.c, path.p, NULL, NULL, e);
}

/* The caller's own request to cancel may have come before the jobs were submitted. */
static int cancel_if_stopped(struct hyper_feed *f, struct err *e)
{
    AUTO(json) struct json *body = json_new_object();

    json_set_str(body, "queue", f->conf.queue);
    return atomic_load(&f->stop) ? cli_post(f->conf.c, "/v1/jobs/cancel", body, NULL, e) : 0;
}

/* The whole life of the feed, in order; the first error ends it. */
static int feed_work(struct hyper_feed *f, struct err *e)
{
    AUTO(json) struct json *meta = NULL;

    if (cli_get(f->conf.c, "/v1", &meta, e) < 0)
        return -1;
    /* Read before anything is submitted, so that no event of our jobs is missed. */
    f->last_event = (uint64_t)int_of(meta, "last_event");
    if (hyper_far_lend(f->conf.c, f->conf.lent, true, e) < 0)
        return -1;
    if (f->conf.batch->remote &&
        hyper_far_test(f->conf.c, f->conf.batch, &f->stop, feed_say, f, e) < 0)
        return -1;
    if ((f->conf.leftover || f->conf.suspended) && set_queue(f, f->conf.suspended, e) < 0)
        return -1;
    if (f->conf.leftover &&
        (hyper_far_forget(f->conf.c, f->conf.batch, e) < 0 || feed_adopt_all(f, e) < 0))
        return -1;
    if (feed_submit(f, e) < 0 || cancel_if_stopped(f, e) < 0)
        return -1;
    return listen_to_events(f, e);
}

/* ---- the thread ---- */

static void tell_over(void *arg)
{
    struct hyper_feed *f = arg;

    f->conf.over(f->conf.arg, f->failed ? &f->err : NULL);
}

static void *feed_thread(void *arg)
{
    struct hyper_feed *f = arg;

    f->failed = feed_work(f, &f->err) < 0;
    hyper_far_take_back(f->conf.c, f->conf.lent);
    loop_post(f->conf.loop, tell_over, f);
    return NULL;
}

/* After the thread has ended. */
static void feed_free(struct hyper_feed *f)
{
    for (size_t i = 0; i < f->conf.batch->jobs.n; i++)
        free(f->nodes[i]);
    map_u64_done(&f->by_number);
    free(f->nodes);
    free(f->runs);
    free(f->numbers);
    free(f->ended);
    free(f);
}

struct hyper_feed *hyper_feed_start(const struct hyper_feed_conf *c, struct err *e)
{
    struct hyper_feed *f = xcalloc(1, sizeof(*f));
    size_t n = c->batch->jobs.n + 1;

    f->conf = *c;
    f->numbers = xcalloc(n, sizeof(*f->numbers));
    f->ended = xcalloc(n, sizeof(*f->ended));
    f->nodes = xcalloc(n, sizeof(*f->nodes));
    f->runs = xcalloc(n, sizeof(*f->runs));
    /* What an earlier owner submitted counts as ours. */
    f->submitted = c->leftover;
    if (pthread_create(&f->thread, NULL, feed_thread, f) != 0) {
        feed_free(f);
        err_set(e, ERR_INTERNAL, "cannot start a thread for the batch");
        return NULL;
    }
    return f;
}

void hyper_feed_stop(struct hyper_feed *f)
{
    atomic_store(&f->stop, true);
}

bool hyper_feed_idle(const struct hyper_feed *f)
{
    return !f->submitted;
}

void hyper_feed_join(struct hyper_feed *f)
{
    if (!f)
        return;
    pthread_join(f->thread, NULL);
    feed_free(f);
}

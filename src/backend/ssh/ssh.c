/* ssh.c - runs on another host under one login, by way of our far program there
 *
 * Owns: what we know of every run handed to us and not yet settled, and what core is told of it.
 * Does not own: the connection (connect.c), what is heard over it (facts.c), files sent (assets.c)
 * and received (copies.c).
 *
 * Orders go to the far program, which hands them to an ordinary local backend; facts come back.
 * After each new connection every run without an outcome that was ever sent is adopted first: the
 * journal there knows whether it ran, and only a run of which it has no trace is sent again.  So a
 * key never runs twice, whatever was lost on the way.  An end is given on when the copies of its
 * output are complete here.
 *
 * A run that was never sent has happened nowhere: it is cancelled here at once, and given back
 * (refused) when the host cannot be reached in time.
 */
#include "backend/ssh/ssh_priv.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/user_rights.h"
#include "base/util.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>

/* How often runs that could not be sent are checked against start_timeout_ms. */
enum { REFUSE_LOOK_MS = 1000 };

/* ---- the table ---- */

struct ssh_run *ssh_find(struct backend *b, struct run_key key)
{
    uint64_t id;
    struct ssh_run *r = run_key_pack(key, &id) ? map_u64_get(&b->runs, id) : NULL;

    return r && run_key_eq(r->key, key) ? r : NULL;
}

/* Made in state SSH_WAITING.  The key must have passed run_key_pack. */
static struct ssh_run *ssh_run_add(struct backend *b, struct run_key key, uint32_t journal)
{
    struct ssh_run *r = xcalloc(1, sizeof(*r));

    ASSERT(run_key_pack(key, &r->id));
    r->key = key;
    r->journal = journal;
    r->order = ++b->order;
    r->since_ms = loop_mono_ms(b->loop);
    map_u64_put(&b->runs, r->id, r);
    return r;
}

void ssh_drop_start(struct ssh_run *r)
{
    free(TAKE(r->frame));
    r->frame_n = 0;
    texts_free(TAKE(r->assets));
    free(TAKE(r->stage_dir));
}

static void ssh_run_free(struct backend *b, struct ssh_run *r)
{
    map_u64_del(&b->runs, r->id);
    ssh_drop_start(r);
    copies_done(r);
    free(r);
}

static int ssh_run_by_order(const void *x, const void *y)
{
    const struct ssh_run *a = *(struct ssh_run *const *)x, *b = *(struct ssh_run *const *)y;

    return a->order < b->order ? -1 : a->order > b->order;
}

typedef VEC(struct ssh_run *) run_vec;

/* All runs in the order they came. */
static run_vec runs_sorted(struct backend *b)
{
    run_vec out = {0};
    void *val;

    for (size_t it = 0; (val = map_u64_each(&b->runs, &it));)
        vec_push(&out, val);
    if (out.n)
        qsort(out.p, out.n, sizeof(*out.p), ssh_run_by_order);
    return out;
}

/* ---- what must not be said from within a call ---- */

void ssh_end_here(struct backend *b, struct run_key key, enum run_end why, const char *detail)
{
    struct ssh_run *r = ssh_find(b, key);
    struct run_outcome o = {.why = why, .sys = why == RUN_END_START_FAILED ? EIO : 0};

    if (!r || r->state >= SSH_ENDED)
        return;
    o.ended_ms = clock_wall(&clock_system);
    r->state = SSH_ENDED;
    ssh_drop_start(r);
    b->ev->ended(b->owner, key, &o, str_of(detail));
}

/* The lists are taken before anything is reported: core may call us from within an event and add
 * to them. */
static void on_post(void *arg)
{
    struct backend *b = arg;
    __typeof__(b->cancelled) cancelled = b->cancelled;
    __typeof__(b->failed) failed = b->failed;
    __typeof__(b->failed_why) why = b->failed_why;

    b->cancelled = (__typeof__(b->cancelled)){0};
    b->failed = (__typeof__(b->failed)){0};
    b->failed_why = (__typeof__(b->failed_why)){0};
    for (size_t i = 0; i < cancelled.n; i++)
        ssh_end_here(b, cancelled.p[i], RUN_END_CANCELLED, "");
    for (size_t i = 0; i < failed.n; i++) {
        ssh_end_here(b, failed.p[i], RUN_END_START_FAILED, why.p[i]);
        free(why.p[i]);
    }
    vec_done(&cancelled);
    vec_done(&failed);
    vec_done(&why);
}

void ssh_fail_start(struct backend *b, struct run_key key, const char *why)
{
    vec_push(&b->failed, key);
    vec_push(&b->failed_why, xstrdup(why));
    timer_start(b->post_timer, 0, 0);
}

void ssh_refuse(struct backend *b, struct ssh_run *r, int sys, struct str why)
{
    struct run_key key = r->key;

    ssh_run_free(b, r);
    if (b->ev->refused) {
        b->ev->refused(b->owner, key, sys, why);
    } else {
        struct run_outcome o = {.why = RUN_END_NEVER_RAN, .ended_ms = clock_wall(&clock_system)};
        b->ev->ended(b->owner, key, &o, why);
    }
}

/* Gives waiting runs back to core, so that core can place them on another node.  A run that was
 * ever sent stays: it may be running there. */
static void refuse_late(struct backend *b)
{
    run_vec runs = {0};
    int64_t now = loop_mono_ms(b->loop);
    char why[sizeof(b->link.trouble.text)];

    if (b->link.state == SSH_UP)
        return;
    snprintf(why, sizeof(why), "%s",
             b->link.trouble.text[0] ? b->link.trouble.text : b->node.trouble);
    runs = runs_sorted(b);
    for (size_t i = 0; i < runs.n; i++) {
        struct ssh_run *r = runs.p[i];
        bool late = now - r->since_ms > b->conf.start_timeout_ms;
        if (r->state != SSH_WAITING)
            continue;
        if (r->stopping)
            ssh_end_here(b, r->key, RUN_END_CANCELLED, "");
        else if (b->link.state == SSH_IDLE && (late || b->link.trouble.lasting))
            ssh_refuse(b, r, 0,
                       str_of(why)); /* not while an attempt is under way: it has its own time */
    }
    vec_done(&runs);
}

static void on_refuse_timer(void *arg)
{
    refuse_late(arg);
}

/* ---- away ---- */

/* Core is told only when something it shows has changed. */
void ssh_on_away(struct backend *b)
{
    bool away = b->link.state != SSH_UP;
    char was[sizeof(b->node.trouble)];
    bool was_away = b->node.away;

    memcpy(was, b->node.trouble, sizeof(was));
    b->node.away = away;
    snprintf(b->node.trouble, sizeof(b->node.trouble), "%s", away ? b->link.trouble.text : "");
    b->node.again_ms = away ? b->link.again_ms : 0;
    if (b->ev->node && (away != was_away || strcmp(was, b->node.trouble) != 0))
        b->ev->node(b->owner, &b->node);
    if (away)
        refuse_late(b);
}

/* ---- orders ---- */

/* Appends only; the caller sends with connect_send. */
static void wire_put_run_op(struct backend *b, enum wire_type type, const struct ssh_run *r,
                            int64_t value)
{
    struct wire_op op = {.key = r->key,
                         .journal = r->journal,
                         .value = value,
                         .pid = r->pid,
                         .pid_start = r->pid_start};

    wire_put_op(&b->link.out, type, &op);
}

static void put_adopt(struct backend *b, struct ssh_run *r)
{
    struct wire_op op = {
        .key = r->key, .journal = r->journal, .pid = r->pid, .pid_start = r->pid_start};

    copies_sizes(r, op.offset);
    wire_put_op(&b->link.out, WIRE_ADOPT, &op);
}

/* What was sent before is asked about, in its order.  It is adopted when all of it was named, so
 * what is to be stopped is told after that. */
static void put_adopts(struct backend *b, struct ssh_run *const *runs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_adopt(b, runs[i]);
    wire_put_op(&b->link.out, WIRE_ADOPTED, &(struct wire_op){0});
    for (size_t i = 0; i < n; i++)
        if (runs[i]->stopping)
            wire_put_run_op(b, WIRE_STOP, runs[i], runs[i]->grace_ms);
}

void ssh_put_signals(struct backend *b, struct ssh_run *r)
{
    for (int s = 1; r->signals && s < 64; s++)
        if (r->signals & 1ull << s)
            wire_put_run_op(b, WIRE_SIGNAL, r, s);
    r->signals = 0;
}

void ssh_sent(struct backend *b, struct ssh_run *r)
{
    if (!r->frame || r->state > SSH_SENT || !buf_add(&b->link.out, r->frame, r->frame_n))
        return;
    r->state = SSH_SENT;
    if (r->stopping)
        wire_put_run_op(b, WIRE_STOP, r, r->grace_ms);
}

void ssh_start_next(struct backend *b)
{
    while (b->link.state == SSH_UP && !b->upload && b->to_start.n > 0) {
        struct run_key key = b->to_start.p[0];
        vec_remove(&b->to_start, 0);
        struct ssh_run *r = ssh_find(b, key);
        if (!r || !r->frame || r->state > SSH_SENT)
            continue;
        if (r->assets)
            assets_begin(b, r);
        else
            ssh_sent(b, r);
    }
    connect_send(b);
}

/* The far program answers: what was not sent before is sent now. */
void ssh_on_up(struct backend *b)
{
    run_vec runs = runs_sorted(b), sent = {0};

    vec_clear(&b->to_start);
    for (size_t i = 0; i < b->unsettled.n; i++)
        wire_put_op(&b->link.out, WIRE_SETTLED, &(struct wire_op){.key = b->unsettled.p[i]});
    vec_clear(&b->unsettled);
    for (size_t i = 0; i < runs.n; i++) {
        struct ssh_run *r = runs.p[i];
        if (r->state == SSH_WAITING) {
            vec_push(&b->to_start, r->key);
        } else if (r->state <= SSH_RUNNING) {
            /* The end is reported again after the adoption, behind the output that is missing
             * here. */
            r->ending = false;
            vec_push(&sent, r);
        }
    }
    if (b->recalled)
        put_adopts(b, sent.p, sent.n);
    vec_done(&sent);
    vec_done(&runs);
    ssh_start_next(b);
}

/* ---- the class ---- */

static void ssh_close(struct backend *b)
{
    if (!b)
        return;
    if (b->link.timer)
        connect_close(b);
    run_vec runs = runs_sorted(b);
    for (size_t i = 0; i < runs.n; i++)
        ssh_run_free(b, runs.p[i]);
    vec_done(&runs);
    map_u64_done(&b->runs);
    timer_free(b->post_timer);
    timer_free(b->refuse_timer);
    timer_free(b->rewind_timer);
    for (size_t i = 0; i < b->failed_why.n; i++)
        free(b->failed_why.p[i]);
    ssh_conf_done(&b->conf);
    FREE_EACH(b->failed_why.p, b->failed.p, b->cancelled.p, b->unsettled.p, b->rewinds.p,
              b->to_start.p, b->node.devices, b->home, b);
}

/* Until the node answers, its capacity is what the configuration says. */
static int ssh_open(struct backend **out, const char *home, const struct json *conf, struct loop *l,
                    const struct backend_events *ev, void *owner, struct err *e)
{
    struct backend *b = xcalloc(1, sizeof(*b));

    b->loop = l;
    b->ev = ev;
    b->owner = owner;
    b->home = xstrdup(home);
    b->journal = 1;
    b->link.child = (struct ssh_child){.in = -1, .out = -1, .errs = -1, .pidfd = -1, .secrets = -1};
    b->post_timer = timer_new(l, on_post, b);
    b->refuse_timer = timer_new(l, on_refuse_timer, b);
    b->rewind_timer = timer_new(l, facts_rewind, b);
    if (ssh_conf_read(&b->conf, conf, e) < 0 || connect_open(b, e) < 0) {
        ssh_close(b);
        return -1;
    }
    timer_start(b->refuse_timer, REFUSE_LOOK_MS, REFUSE_LOOK_MS);
    snprintf(b->node.name, sizeof(b->node.name), "%.63s", b->conf.name);
    b->node.slots = (int32_t)json_int(json_get(b->conf.node, "slots"));
    b->node.mcpu = json_int(json_get(b->conf.node, "mcpu"));
    b->node.mem_bytes = json_int(json_get(b->conf.node, "mem_bytes"));
    b->node.devices = xcalloc(NODE_MAX_GPUS, sizeof(*b->node.devices));
    b->node.away = true;
    snprintf(b->node.trouble, sizeof(b->node.trouble), NODE_UNTRIED);
    *out = b;
    return 0;
}

static const struct node *ssh_node(struct backend *b)
{
    return &b->node;
}

static uint32_t ssh_journal(struct backend *b)
{
    return b->journal;
}

/* Where the directory of the run shall be there; yours.  "" = its choice. */
static char *stage_dir_of(const struct backend *b, const struct run_start *s)
{
    if (!s->stage_dir || !s->stage_dir[0])
        return xstrdup("");
    return path_join(b->conf.stage_root ? b->conf.stage_root : "", s->stage_dir);
}

/* The START frame of a run: all of it, except that assets travel in frames of their own and user
 * and groups are those of the login there. */
static int ssh_start_encode(const struct run_start *s, struct ssh_run *r, struct err *e)
{
    struct wire_start w = {.run = *s};
    struct buf frame;

    w.run.stage_dir = r->stage_dir;
    w.run.assets = NULL;
    w.run.change_user = false;
    buf_init(&frame, WIRE_FRAME_MAX + 1);
    bool fits = wire_put_start(&frame, &w) && frame.n <= PROTO_FRAME_MAX;
    if (!fits) {
        buf_done(&frame);
        return err_set(e, ERR_LIMIT, "command, environment and parameters are larger than %d MiB",
                       PROTO_FRAME_MAX >> 20);
    }
    r->frame = buf_take(&frame, &r->frame_n);
    copies_set(r, s->log_path, s->err_path, s->run_dir);
    return 0;
}

/* Copies the list, which belongs to core and is valid only during the call of start. */
static void keep_assets(struct ssh_run *r, const struct run_start *s)
{
    size_t n = 0;

    while (s->assets && s->assets[n])
        n++;
    if (n == 0)
        return;
    r->assets = xcalloc(n + 1, sizeof(*r->assets));
    for (size_t i = 0; i < n; i++)
        r->assets[i] = xstrdup(s->assets[i]);
}

static int ssh_start(struct backend *b, const struct run_start *s, struct err *e)
{
    struct ssh_run *r = ssh_find(b, s->key);
    uint64_t id;

    if (!run_key_pack(s->key, &id))
        return err_set(e, ERR_LIMIT, "job %llu has had too many runs to start another",
                       (unsigned long long)s->key.job);
    if (r && r->state != SSH_ABSENT)
        return 0; /* it is on its way, or over */
    if (!s->argv[0])
        return err_set(e, ERR_INVALID, "run %llu.%u has no command", (unsigned long long)s->key.job,
                       s->key.run);
    if (assets_check(s->assets, e) < 0)
        return -1;
    if (!r)
        r = ssh_run_add(b, s->key, s->journal);
    free(r->stage_dir);
    r->stage_dir = stage_dir_of(b, s);
    if (ssh_start_encode(s, r, e) < 0) {
        ssh_run_free(b, r);
        return -1;
    }
    r->state = SSH_WAITING;
    r->journal = s->journal;
    r->uid = s->uid;
    r->gid = s->gid;
    r->stopping = false;
    r->pid = r->pid_start = 0;
    r->order = ++b->order;
    r->since_ms = loop_mono_ms(b->loop);
    keep_assets(r, s);
    copies_reset(r);
    vec_push(&b->to_start, s->key);
    if (b->link.state == SSH_UP)
        ssh_start_next(b);
    else
        connect_now(b);
    return 0;
}

/* A run whose START was never sent is cancelled here.  One whose files are on the way gets its
 * STOP behind its START (ssh_sent). */
static void ssh_stop(struct backend *b, struct run_key key, int64_t grace_ms)
{
    struct ssh_run *r = ssh_find(b, key);

    if (!r || r->state > SSH_RUNNING)
        return;
    r->stopping = true;
    r->grace_ms = grace_ms;
    if (r->state == SSH_WAITING && !assets_on_the_way(b, key)) {
        vec_push(&b->cancelled, key);
        timer_start(b->post_timer, 0, 0);
    } else if (r->state != SSH_WAITING && b->link.state == SSH_UP) {
        wire_put_run_op(b, WIRE_STOP, r, grace_ms);
        connect_send(b);
    }
}

/* Signals while the node is away are kept as a set: one signal sent twice arrives once. */
static void ssh_signal(struct backend *b, struct run_key key, int signo)
{
    struct ssh_run *r = ssh_find(b, key);

    if (!r || r->state != SSH_RUNNING || signo <= 0 || signo >= 64)
        return;
    r->signals |= 1ull << signo;
    if (b->link.state == SSH_UP) {
        ssh_put_signals(b, r);
        connect_send(b);
    }
}

static void ssh_adopt(struct backend *b, const struct run_belief *runs, size_t n)
{
    run_vec sent = {0};
    uint64_t id;

    b->recalled = true;
    for (size_t i = 0; i < n; i++) {
        if (!run_key_pack(runs[i].key, &id) || map_u64_get(&b->runs, id))
            continue;
        struct ssh_run *r = ssh_run_add(b, runs[i].key, runs[i].journal);
        r->state = SSH_SENT;
        r->uid = runs[i].uid;
        r->gid = USER_NO_GROUP;
        r->pid = runs[i].pid;
        r->pid_start = runs[i].pid_start;
        copies_set(r, runs[i].log_path, runs[i].err_path, runs[i].run_dir);
        vec_push(&sent, r);
    }
    if (b->link.state == SSH_UP)
        put_adopts(b, sent.p, sent.n);
    vec_done(&sent);
    connect_send(b);
}

/* A node that is away is told later; until then its copy of the files stays there. */
static void ssh_settled(struct backend *b, struct run_key key)
{
    struct ssh_run *r = ssh_find(b, key);
    struct wire_op op = {.key = key};

    if (!r || r->state < SSH_ENDED)
        return;
    ssh_run_free(b, r);
    if (b->link.state != SSH_UP || !wire_put_op(&b->link.out, WIRE_SETTLED, &op))
        vec_push(&b->unsettled, key);
    connect_send(b);
}

const struct backend_class ssh_link = {
    .name = "ssh",
    .open = ssh_open,
    .close = ssh_close,
    .node = ssh_node,
    .journal = ssh_journal,
    .start = ssh_start,
    .stop = ssh_stop,
    .signal = ssh_signal,
    .adopt = ssh_adopt,
    .settled = ssh_settled,
};

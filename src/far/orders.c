/* orders.c - what the daemon tells the far program to do
 *
 * Every order may come again after a lost connection: a run that is known is not started twice, a
 * stop of a run that is over is nothing.  An order about a run we know nothing of is answered by
 * the local backend's journal.
 */
#include "base/arena.h"
#include "base/util.h"
#include "far/far_priv.h"
#include <libgen.h>
#include <stdio.h>

/* ---- HELLO ---- */

/* Answers HELLO with the capacity and the devices of this host. */
static void tell_node(struct far *f)
{
    const struct node *n = backend_local.node(f->b);
    struct wire_node w = {.slots = n->slots, .mcpu = n->mcpu, .mem_bytes = n->mem_bytes};

    w.journal = f->journal = backend_local.journal(f->b);
    memcpy(w.name, n->name, sizeof(w.name));
    wire_put_node(&f->out, &w);
    wire_put_devices(&f->out, n, NULL, 0);
    far_send(f);
}

static bool order_hello(struct far *f, struct str body)
{
    AUTO(json) struct json *conf = NULL;
    struct err e = {0};
    int rc = -1;

    if (!f->b && json_parse(body, "configuration", &conf, &e) == 0)
        rc = backend_local.open(&f->b, f->home, conf, f->loop, &far_events, f, &e);
    if (json_type(json_get(conf, "python_path")) == JSON_STR)
        f->python_path = xstrdup(json_str(json_get(conf, "python_path")).p);
    f->transient = json_bool(json_get(conf, "transient"));
    if (rc < 0) {
        fprintf(stderr, "berth-far: %s\n", f->b ? "greeted twice" : e.text);
        return false;
    }
    tell_node(f);
    runs_sweep(f);
    return true;
}

/* ---- START ---- */

static const char *path_last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* The run as the daemon sent it, with the files, user and environment of this host. */
static struct run_start start_here(struct far *f, struct far_run *r, const struct run_start *sent,
                                   struct arena *a)
{
    struct run_start s = *sent;

    s.envp = login_env(f, r, sent->envp, sent->run_dir ? sent->run_dir : "", a);
    s.cwd = sent->cwd ? sent->cwd : r->work;
    s.log_path = r->streams[WIRE_OUT].path;
    s.err_path = r->streams[WIRE_ERR].path;
    s.run_dir = r->run_dir;
    s.make_run_dir = sent->make_run_dir || !sent->cwd || sent->params_json.n > 0;
    s.uid = getuid();
    s.gid = getgid();
    s.change_user = false;
    s.container = false; /* an image is refused before: containers are made on the daemon's host */
    return s;
}

static void order_start_run(struct far *f, struct far_run *r, const struct wire_start *w)
{
    const struct run_start *sent = &w->run;
    const char *stage_dir = sent->stage_dir ? sent->stage_dir : "";
    struct arena a = {0};
    struct err e = {0};

    r->log_limit_bytes = sent->limits.log_limit_bytes;
    runs_place(f, r, stage_dir, sent->log_path ? path_last_name(sent->log_path) : "",
               sent->err_path ? path_last_name(sent->err_path) : NULL);
    for (size_t i = 0; i < WIRE_STREAMS; i++)
        r->streams[i].sent = r->streams[i].acked = w->offset[i];
    stage_end(r);
    if (!sent->cwd || stage_dir[0])
        stage_begin(f, r);
    if (!r->trouble[0] && runs_remember(f, r, &e) < 0)
        stage_trouble(r, &e, "");
    if (!r->trouble[0]) {
        struct run_start s = start_here(f, r, sent, &a);
        if (backend_local.start(f->b, &s, &e) < 0)
            stage_trouble(r, &e, "");
    }
    arena_done(&a);
    if (r->trouble[0]) {
        far_refuse(f, r);
        runs_settle(f, r);
        return;
    }
    r->handed = true;
}

static bool order_start(struct far *f, struct str body)
{
    struct wire_start w = {0};
    bool ok = wire_get_start(body, &w);

    if (ok) {
        struct far_run *r = runs_get(f, w.run.key);
        if (!r->handed)
            order_start_run(f, r, &w);
    }
    wire_start_done(&w);
    return ok;
}

/* ---- files ---- */

/* Announces the files of a run, which follow as WIRE_ASSET.  A repeated announcement after a
 * lost connection clears an earlier failure, because all files are sent again. */
static bool on_stage(struct far *f, struct str body)
{
    struct wire_op op;
    struct str text;

    if (!wire_get_op_text(body, &op, &text) || memchr(text.p, 0, text.n))
        return false;
    struct far_run *r = runs_get(f, op.key);
    if (r->handed)
        return true;
    AUTO_FREE char *dir = xstrndup(text.p, text.n);
    runs_place(f, r, dir, "log", NULL);
    r->trouble[0] = 0;
    r->trouble_sys = 0;
    stage_begin(f, r);
    return true;
}

/* A piece for a run that was already handed to the local backend is ignored: its command may be
 * using the file. */
static bool on_asset(struct far *f, struct str body)
{
    struct wire_asset a;
    struct str name, bytes;

    if (!wire_get_asset(body, &a, &name, &bytes))
        return false;
    struct far_run *r = runs_find(f, a.key);
    if (r && !r->handed && r->work)
        stage_take(r, &a, name, bytes);
    return true;
}

/* ---- the rest ---- */

static void order_adopt(struct far *f, struct run_key key, const struct wire_op *op)
{
    struct far_run *r = runs_get(f, key);

    if (r->handed)
        return;
    runs_recall(f, r);
    for (size_t i = 0; i < WIRE_STREAMS; i++)
        r->streams[i].sent = r->streams[i].acked = op->offset[i];
    r->handed = true;
    vec_push(&f->beliefs, ((struct run_belief){key, op->journal, op->pid, op->pid_start}));
}

/* Together: what a run left may go as soon as the backend was told of others and not of it. */
static void adopt_named(struct far *f)
{
    backend_local.adopt(f->b, f->beliefs.p, f->beliefs.n);
    vec_clear(&f->beliefs);
    stray_look(f);
}

/* Perhaps of a run that ended in an earlier connection: its files are still here. */
static void order_settled(struct far *f, struct run_key key)
{
    struct far_run *r = runs_get(f, key);

    if (!r->run_dir)
        runs_recall(f, r);
    runs_settle(f, r);
}

/* at_ms == 1 is the daemon's request to send again from that offset, because its copy is shorter
 * than what was sent. */
static void on_ack(struct far *f, struct run_key key, const struct wire_op *op)
{
    struct far_run *r = runs_find(f, key);

    if (!r || op->value < 0 || op->value >= WIRE_STREAMS)
        return;
    struct far_stream *s = &r->streams[op->value];
    s->acked = op->offset[0];
    if (op->at_ms == 1 || s->sent < s->acked) {
        s->sent = s->acked;
        r->told = false; /* the end is told again, behind what is missing */
    }
    feed_ready(f, s);
    feed_pump(f);
}

static bool on_op(struct far *f, enum wire_type type, struct str body)
{
    struct wire_op op;
    uint64_t id;

    if (!wire_get_op(body, &op))
        return false;
    struct run_key key = op.key;
    if (type == WIRE_PING) {
        wire_put_op(&f->out, WIRE_PONG, &op);
        far_send(f);
        return true;
    }
    if (type == WIRE_ADOPTED) {
        adopt_named(f);
        return true;
    }
    if (!run_key_pack(key, &id))
        return false;
    if (type == WIRE_STOP)
        backend_local.stop(f->b, key, op.value);
    else if (type == WIRE_SIGNAL)
        backend_local.signal(f->b, key, (int)op.value);
    else if (type == WIRE_ADOPT)
        order_adopt(f, key, &op);
    else if (type == WIRE_ACK)
        on_ack(f, key, &op);
    else if (type == WIRE_SETTLED)
        order_settled(f, key);
    return true;
}

bool orders_take(struct far *f, const struct frame_head *h, struct str body)
{
    if (!f->b && h->type != WIRE_HELLO)
        return false;
    switch ((enum wire_type)h->type) {
    case WIRE_HELLO:
        return order_hello(f, body);
    case WIRE_STAGE:
        return on_stage(f, body);
    case WIRE_ASSET:
        return on_asset(f, body);
    case WIRE_START:
        return order_start(f, body);
    case WIRE_CALL_BYTES:
    case WIRE_CALL_ACK:
    case WIRE_CALL_END:
        return calls_take(&f->calls, (enum wire_type)h->type, body);
    case WIRE_STOP:
    case WIRE_SIGNAL:
    case WIRE_ADOPT:
    case WIRE_ADOPTED:
    case WIRE_SETTLED:
    case WIRE_ACK:
    case WIRE_PING:
        return on_op(f, (enum wire_type)h->type, body);
    default:
        return false;
    }
}

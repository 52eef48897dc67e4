/* facts.c - what the far program tells: the node, and what became of runs
 *
 * Every frame that comes in ends here.  An end is given on only when the copies of the run's output
 * are as long as it said; a piece that cannot be written is asked for again.
 */
#include "backend/ssh/ssh_priv.h"
#include "base/util.h"
#include <sys/socket.h>

/* Delay before output that could not be written is requested again. */
enum { REWIND_MS = 2000 };

/* An invalid frame leaves the state as it was, and facts_take then drops the connection. */
static void fact_node(struct backend *b, struct str body)
{
    struct wire_node w;

    if (!wire_get_node(body, &w))
        return;
    b->node.slots = w.slots;
    b->node.mcpu = w.mcpu;
    b->node.mem_bytes = w.mem_bytes;
    b->journal = MAX(w.journal, 1u);
    b->link.state = SSH_UP;
    b->link.was_up = true;
    b->link.backoff_ms = 0;
    b->link.up_since_ms = loop_mono_ms(b->loop);
    b->link.trouble = (struct trouble){0};
}

/* The devices follow the node at once: then core hears of both. */
static bool fact_devices(struct backend *b, struct str body)
{
    struct run_memory *runs = NULL;
    size_t n = 0;
    bool first = b->node.away;

    if (!wire_get_devices(body, &b->node, &runs, &n))
        return false;
    if (first) {
        ssh_on_away(b);
        ssh_on_up(b);
    } else if (b->ev->devices) {
        b->ev->devices(b->owner, &b->node, runs, n);
    }
    free(runs);
    return true;
}

/* The START is no longer needed: the journal there has a record of the run. */
static void fact_started(struct backend *b, const struct wire_op *op)
{
    struct ssh_run *r = ssh_find(b, op->key);

    if (!r || r->state > SSH_RUNNING)
        return;
    bool known = r->state == SSH_RUNNING;
    r->state = SSH_RUNNING;
    r->pid = op->pid;
    r->pid_start = op->pid_start;
    ssh_drop_start(r);
    ssh_put_signals(b, r);
    connect_send(b);
    if (known)
        return;
    copies_touch(r);
    b->ev->started(b->owner, r->key, r->pid, r->pid_start, op->at_ms);
}

/* Called after each piece of output and at the end itself, whichever comes last. */
static void check_end(struct backend *b, struct ssh_run *r)
{
    if (!r->ending || !copies_complete(r, r->end.size))
        return;
    r->ending = false;
    r->state = SSH_ENDED;
    ssh_drop_start(r);
    copies_touch(r);
    b->ev->ended(b->owner, r->key, &r->end.o, str_of(r->detail));
}

/* Not reported yet: core must find the whole log when it hears of the end. */
static bool fact_ended(struct backend *b, struct str body)
{
    struct wire_ended end;
    struct str detail;

    if (!wire_get_ended(body, &end, &detail))
        return false;
    struct ssh_run *r = ssh_find(b, end.key);
    if (!r || r->state > SSH_RUNNING)
        return true;
    r->ending = true;
    r->end = end;
    snprintf(r->detail, sizeof(r->detail), STR_FMT, STR_ARG(detail));
    check_end(b, r);
    return true;
}

/* It never ran there.  What was meant to be started is started now; of an adopted one core decides.
 */
static void fact_absent(struct backend *b, struct run_key key)
{
    struct ssh_run *r = ssh_find(b, key);

    if (!r || r->state > SSH_RUNNING)
        return;
    if (r->stopping) {
        ssh_end_here(b, key, RUN_END_CANCELLED, "");
    } else if (r->frame) {
        r->state = SSH_SENT;
        vec_push(&b->to_start, key);
        ssh_start_next(b);
    } else {
        r->state = SSH_ABSENT;
        b->ev->absent(b->owner, key);
    }
}

/* Ignored for a run that has started or that we only adopted: it is not ours to give back. */
static bool fact_refused(struct backend *b, struct str body)
{
    struct wire_op op;
    struct str why;

    if (!wire_get_op_text(body, &op, &why))
        return false;
    struct ssh_run *r = ssh_find(b, op.key);
    if (r && r->state <= SSH_SENT && r->frame) {
        char text[WIRE_DETAIL_MAX + 80];
        snprintf(text, sizeof(text), "%.64s: %.*s", b->conf.name, (int)MIN(why.n, WIRE_DETAIL_MAX),
                 why.p);
        ssh_refuse(b, r, (int)op.value, str_of(text));
    }
    return true;
}

/* `again`: the far end goes back to the acknowledged offset and sends from there. */
static void put_ack(struct backend *b, const struct ssh_run *r, unsigned stream, bool again)
{
    struct wire_op op = {
        .key = r->key, .value = stream, .at_ms = again, .offset = {r->copies[stream].have}};

    wire_put_op(&b->link.out, WIRE_ACK, &op);
}

void facts_rewind(void *backend)
{
    struct backend *b = backend;

    for (size_t i = 0; i < b->rewinds.n && b->link.state == SSH_UP; i++) {
        struct ssh_run *r = ssh_find(b, b->rewinds.p[i]);
        for (unsigned s = 0; r && r->state <= SSH_RUNNING && s < WIRE_STREAMS; s++)
            put_ack(b, r, s, true);
    }
    vec_clear(&b->rewinds);
    connect_send(b);
}

/* The copy could not be written (the disk is full): the far end is asked for the same again, a
 * little later.  Meanwhile its window is full and it waits. */
static void rewind_later(struct backend *b, const struct ssh_run *r, const struct err *e)
{
    for (size_t i = 0; i < b->rewinds.n; i++)
        if (run_key_eq(b->rewinds.p[i], r->key))
            return;
    if (b->rewinds.n == 0)
        timer_start(b->rewind_timer, REWIND_MS, 0);
    vec_push(&b->rewinds, r->key);
    if (e->code && b->ev->notice)
        b->ev->notice(b->owner, str_of(e->text));
}

static bool fact_log(struct backend *b, struct str body)
{
    struct wire_log l;
    struct str bytes;
    struct err e = {0};

    if (!wire_get_log(body, &l, &bytes))
        return false;
    struct ssh_run *r = ssh_find(b, l.key);
    if (!r || r->state > SSH_RUNNING)
        return true;
    if (!copies_write(r, &l, bytes, &e)) {
        rewind_later(b, r, &e);
        return true;
    }
    put_ack(b, r, l.stream, false);
    connect_send(b);
    if (l.stream == WIRE_SPOOL && bytes.n && b->ev->spooled)
        b->ev->spooled(b->owner, r->key);
    check_end(b, r);
    return true;
}

/* What cannot be kept here (a full disk) is told, and does not hold up the end. */
static bool on_kept(struct backend *b, struct str body)
{
    struct wire_asset a;
    struct str name, bytes;
    struct err e = {0};

    if (!wire_get_asset(body, &a, &name, &bytes))
        return false;
    struct ssh_run *r = ssh_find(b, a.key);
    if (r && r->state <= SSH_RUNNING && copies_keep(r, &a, name, bytes, &e) < 0 && b->ev->notice)
        b->ev->notice(b->owner, str_of(e.text));
    return true;
}

/* The daemon gets one end of a pair, the call the other. */
static void fact_call(struct backend *b, uint64_t number)
{
    int pair[2];

    if (!b->ev->call ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        calls_refuse(&b->calls, number);
        return;
    }
    calls_add_take(&b->calls, number, pair[0]);
    b->ev->call(b->owner, pair[1]);
}

/* A PONG needs no action: that it arrived has set link.heard_ms. */
static bool take_op(struct backend *b, enum wire_type type, struct str body)
{
    struct wire_op op;

    if (!wire_get_op(body, &op))
        return false;
    if (type == WIRE_STARTED)
        fact_started(b, &op);
    else if (type == WIRE_ABSENT)
        fact_absent(b, op.key);
    else if (type == WIRE_JOURNAL)
        b->journal = MAX(op.journal, 1u);
    else if (type == WIRE_CALL)
        fact_call(b, op.key.job);
    return true;
}

bool facts_take(struct backend *b, const struct frame_head *h, struct str body)
{
    if (b->link.state == SSH_GREETING && h->type != WIRE_WELCOME && h->type != WIRE_NOTICE)
        return false;
    switch ((enum wire_type)h->type) {
    case WIRE_WELCOME:
        fact_node(b, body);
        return b->link.state == SSH_UP;
    case WIRE_DEVICES:
        return fact_devices(b, body);
    case WIRE_ENDED:
        return fact_ended(b, body);
    case WIRE_REFUSED:
        return fact_refused(b, body);
    case WIRE_LOG:
        return fact_log(b, body);
    case WIRE_ASSET:
        return on_kept(b, body);
    case WIRE_NOTICE:
        if (b->ev->notice)
            b->ev->notice(b->owner, (struct str){body.p, MIN(body.n, WIRE_DETAIL_MAX)});
        return true;
    case WIRE_STARTED:
    case WIRE_ABSENT:
    case WIRE_JOURNAL:
    case WIRE_PONG:
    case WIRE_CALL:
        return take_op(b, (enum wire_type)h->type, body);
    case WIRE_CALL_BYTES:
    case WIRE_CALL_ACK:
    case WIRE_CALL_END:
        return calls_take(&b->calls, (enum wire_type)h->type, body);
    default:
        return false;
    }
}

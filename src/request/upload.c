/* upload.c - see upload.h
 *
 * Owns: uploads under way.
 */
#include "request/upload.h"
#include "base/util.h"
#include "request/service.h"

/* GATHER_MAX is above ENOUGH, because bytes that were read before the pause still arrive. */
enum { ENOUGH = 1 << 20, GATHER_MAX = 64 << 20 };

/* One upload, in the memory of its call.  The loop thread fills `gathered` while a worker thread
 * reads `at_work`; upload_hand_over swaps the two. */
struct upload {
    struct call *c;
    struct upload_line *line;
    const struct upload_ops *ops;
    void *x;
    struct http_peer peer;
    struct buf gathered, at_work;
    struct err err; /* why it is refused; the rest of the body is thrown away */
    bool refused, finished, paused, complete, working, slot;
    bool lost; /* bytes did not fit into `gathered` */
};

/* An upload that was neither refused nor finished gives up what was taken of its body. */
static void upload_free(void *data)
{
    struct upload *u = data;

    if (!u->refused && !u->finished)
        u->ops->drop(u->x);
    buf_done(&u->gathered);
    buf_done(&u->at_work);
}

static void upload_next(struct upload_line *line);

/* Gives its place to the next one; the call must be ended at once. */
static void upload_leave(struct upload *u)
{
    struct upload_line *line = u->line;

    for (size_t i = 0; i < line->waiting.n; i++)
        if (line->waiting.p[i] == u) {
            vec_remove(&line->waiting, i);
            break;
        }
    if (u->slot) {
        u->slot = false;
        line->now--;
        upload_next(line);
    }
}

static void upload_refuse(struct upload *u)
{
    if (!u->refused)
        u->ops->drop(u->x);
    u->refused = true;
}

/* The same question that the server asks for every other call before its handler runs. */
static int upload_check_owner(struct upload *u)
{
    struct who *w = &u->c->who;

    if (!w->ask_owner || w->owner_known)
        return 0;
    w->owner_known = auth_peer_owner(&u->peer, &w->owner);
    return auth_owner_allows(request_server_auth(u->c->server), w, &u->err);
}

/* Worker thread.  After a refusal the bytes are dropped. */
static int upload_work(struct call *c)
{
    struct upload *u = c->data;

    if (!u->refused && (upload_check_owner(u) < 0 ||
                        (u->at_work.n && u->ops->feed(u->x, buf_str(&u->at_work), &u->err) < 0)))
        upload_refuse(u);
    if (!u->refused && !u->at_work.n) {
        if (u->ops->finish(u->x, &u->err) < 0)
            upload_refuse(u);
        else
            u->finished = true;
    }
    buf_reset(&u->at_work);
    return 0;
}

static void upload_go_on(struct upload *u);

/* The client may have left while the worker thread had the upload. */
static void upload_worked(struct call *c)
{
    struct upload *u = c->data;

    u->working = false;
    if (c->req) {
        upload_go_on(u);
    } else {
        upload_leave(u);
        call_free(c);
    }
}

static void upload_hand_over(struct upload *u)
{
    struct buf t = u->at_work;

    u->at_work = u->gathered;
    u->gathered = t;
    u->working = true;
    call_work(u->c, upload_work, upload_worked);
}

/* Hands the gathered bytes to a worker thread; at most one is under way for each upload.  An empty
 * hand-over after the last bytes finishes the body. */
static void upload_go_on(struct upload *u)
{
    struct call *c = u->c;

    if (u->working || !u->slot)
        return;
    if (u->lost && !u->refused) {
        err_set(&u->err, ERR_INTERNAL, "the upload arrived faster than the server could take it");
        upload_refuse(u);
    }
    if (u->gathered.n || (u->complete && !u->refused && !u->finished)) {
        upload_hand_over(u);
    } else if (u->complete) {
        upload_leave(u);
        if (u->refused)
            call_fail(c, &u->err);
        else
            u->ops->answer(c, u->x);
        return;
    }
    if (u->paused && !u->complete) {
        u->paused = false;
        http_body_pause(c->req, false);
    }
}

static void upload_next(struct upload_line *line)
{
    while (line->now < line->max && line->waiting.n) {
        struct upload *u = line->waiting.p[0];
        vec_remove(&line->waiting, 0);
        line->now++;
        u->slot = true;
        upload_go_on(u);
    }
}

/* A worker thread that still has the upload ends it in upload_worked. */
static void upload_gone(struct call *c)
{
    struct upload *u = c->data;

    if (u->working)
        return;
    upload_leave(u);
    call_free(c);
}

void upload_begin(struct call *c, struct upload_line *line, const struct upload_ops *ops, void *x)
{
    struct upload *u = call_alloc(c, sizeof(*u));

    *u = (struct upload){.c = c, .line = line, .ops = ops, .x = x, .peer = *http_peer(c->req)};
    buf_init(&u->gathered, GATHER_MAX);
    buf_init(&u->at_work, GATHER_MAX);
    c->data = u;
    c->free_data = upload_free;
    c->gone = upload_gone;
    u->err = c->err;
    c->err = (struct err){0}; /* the call goes on until the body is read */
    u->refused = u->err.code;
    vec_push(&line->waiting, u);
    upload_next(line);
}

/* Pauses the connection while more than ENOUGH bytes wait for a worker thread. */
void upload_piece(struct call *c, struct str bytes)
{
    struct upload *u = c->data;

    u->lost |= !buf_add(&u->gathered, bytes.p, bytes.n);
    if (u->gathered.n >= ENOUGH && !u->paused) {
        u->paused = true;
        http_body_pause(c->req, true);
    }
    upload_go_on(u);
}

void upload_end(struct call *c, const char *missing)
{
    struct upload *u = c->data;

    if (!u) { /* without a body there were no pieces */
        err_set(&c->err, ERR_INVALID, "%s", missing);
        call_fail(c, &c->err);
        return;
    }
    u->complete = true;
    upload_go_on(u);
}

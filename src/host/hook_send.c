/* hook_send.c - a message of a hook becomes words and goes where the hook says
 *
 * The words are made on a worker thread, because that reads the store; mail leaves from there too.
 * Commands are submitted, and requests to other servers are made, on the loop.
 */
#include "host/hook_send.h"
#include "api/submit_parse.h"
#include "base/json_out.h"
#include "host/host_priv.h"

enum { SLACK_WORDS_MAX = 16 << 10, TICK_MS = 50 };

/* One message until hook_work_go_on.  `m` is the core's and lives until `done`; `target` borrows
 * from m->d.action.  The worker thread fills letter, kind, target, err and rc. */
struct hook_work {
    struct host *h;
    const struct hook_message *m;
    hook_sent_fn done;
    void *arg;
    struct hook_letter letter;
    enum hook_kind kind;
    struct str target;
    struct err err;
    int rc;
};

/* ---- commands ---- */

/* What is left of a message while the core submits its command. */
struct hook_command {
    hook_sent_fn done;
    void *arg;
};

/* The key of the submission is the id of the message: a second try of a message whose job is there
 * already is a conflict, and thus a success. */
static void command_on_submitted(void *arg, const struct err *e, const struct submitted *r)
{
    struct hook_command *c = arg;

    (void)r;
    c->done(c->arg, e && e->code != ERR_CONFLICT ? e : NULL);
    free(c);
}

/* A submission as POST /v1/jobs takes it.  Jobs of the queue HOOK_QUEUE fire no hooks, so a command
 * cannot start itself again. */
static void command_body(struct buf *b, const struct hook_letter *l, struct str line)
{
    jw_object(b, NULL);
    jw_str(b, "name", STR("hook"));
    jw_str(b, "project", STR(HOOK_QUEUE));
    jw_str(b, "queue", STR(HOOK_QUEUE));
    jw_str(b, "command", line);
    jw_object(b, "env");
    jw_text(b, "PATH", "/usr/local/bin:/usr/bin:/bin");
    jw_members(b, buf_str(&l->env));
    jw_end_object(b);
    jw_end_object(b);
}

void hook_command_submit(struct host *h, const struct hook_letter *l, const struct hook_message *m,
                         struct str line, hook_sent_fn done, void *arg)
{
    struct caller who = {.uid = m->d.uid, .gid = m->d.gid};
    AUTO(buf) struct buf body = {0};
    struct err e = {0};
    size_t n;

    snprintf(who.user, sizeof(who.user), "%.*s", STR_ARG(m->d.user));
    buf_init(&body, 256 << 10);
    command_body(&body, l, line);
    char *text = buf_take(&body, &n);
    struct submit *x = submit_new_take(text, n, &who, core_vault(h->core));
    if (submit_prepare(x, false, &e) < 0 || submit_parse(x, NULL, NULL, &e) < 0) {
        submit_free(x);
        done(arg, &e);
        return;
    }
    /* A test has no number and may be repeated, so it gets no key. */
    if (m->d.seq)
        x->s.idempotency_key = str_of(xasprintf("hook %s", m->id));
    struct hook_command *c = xmalloc(sizeof(*c));
    *c = (struct hook_command){done, arg};
    core_submit_take(h->core, &x->s, &x->who, command_on_submitted, c);
}

/* ---- all kinds ---- */

/* A dialect may have its own words for its jobs, or may want no message.  Summaries, batches and
 * tests are always told in the words of Berth. */
static void slack_words(struct hook_work *w)
{
    const struct delivery_record *d = &w->m->d;
    AUTO(buf) struct buf words = {0};

    if (w->kind != HOOK_SLACK || d->scope != HOOK_SCOPE_JOB || d->event == HOOK_TEST)
        return;
    buf_init(&words, SLACK_WORDS_MAX);
    enum part_notice n = parts_notice(w->h, d->subject, d->event, &words);
    w->letter.silent = n == PART_NOTICE_SILENT;
    if (n == PART_NOTICE_TOLD) {
        buf_reset(&w->letter.slack);
        buf_add(&w->letter.slack, words.p, words.n);
    }
}

/* Worker thread. */
static void hook_work_write(void *arg)
{
    struct hook_work *w = arg;

    w->rc = hook_action_parse(w->m->d.action, &w->kind, &w->target, &w->err);
    if (w->rc == 0)
        w->rc = hook_letter_write(&w->letter, w->h->store, w->m, &w->err);
    if (w->rc == 0)
        slack_words(w);
    if (w->rc == 0 && w->kind == HOOK_MAIL)
        w->rc = hook_mail_send(&w->letter, w->target, w->m->id, &w->err);
}

/* Loop thread.  A host that is closing starts no request and does not call `done`: the message
 * stays recorded, and the next daemon sends it. */
static void hook_work_go_on(void *arg)
{
    struct hook_work *w = arg;

    w->h->works--;
    if (w->rc < 0 || w->kind == HOOK_MAIL || w->letter.silent)
        w->done(w->arg, w->rc < 0 ? &w->err : NULL);
    else if (w->kind == HOOK_COMMAND)
        hook_command_submit(w->h, &w->letter, w->m, w->target, w->done, w->arg);
    else if (!w->h->closing)
        hook_post(w->h->env.hooks, &w->letter, w->m, w->kind, w->target, w->done, w->arg);
    hook_letter_done(&w->letter);
    free(w);
}

static void hook_on_tick(void *arg)
{
    (void)arg;
}

/* A command counts as sent when its job has been started: the job does not need the host. */
static bool messages_wait(struct host *h)
{
    AUTO_FREE uint64_t *commands = NULL;

    return core_hooks_busy(h->core) || core_queue_list(h->core, STR(HOOK_QUEUE), &commands);
}

void host_send_messages(struct host *h, int64_t ms)
{
    int64_t until = clock_mono(&clock_system) + ms;
    struct timer *tick = timer_new(h->loop, hook_on_tick, NULL); /* so that the loop returns */

    timer_start(tick, TICK_MS, TICK_MS);
    while (messages_wait(h) && clock_mono(&clock_system) < until)
        loop_run_once(h->loop, true);
    timer_free(tick);
}

void hook_deliver(void *host, const struct hook_message *m, hook_sent_fn done, void *arg)
{
    struct hook_work *w = xcalloc(1, sizeof(*w));

    *w = (struct hook_work){.h = host, .m = m, .done = done, .arg = arg};
    w->h->works++;
    work_submit(w->h->loop, hook_work_write, hook_work_go_on, w);
}

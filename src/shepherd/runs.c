/* runs.c - the runs this shepherd answers for
 *
 * A run enters by START or ADOPT and leaves when its outcome is in the journal.  Meanwhile it is in
 * one of the states of shepherd_priv.h.  A supervisor that recorded its outcome exits with
 * SUPERVISOR_RECORDED; any other end makes us look for the truth (outcome.c).
 *
 * A gated run starts in the same turn in which the supervisor before it is reaped: no word from the
 * daemon is needed, which is what keeps slots busy with very short jobs.
 */
#include "base/log.h"
#include "shepherd/shepherd_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { FORK_PATIENCE_MS = 10000 };

static void kept_run_resolve(struct shepherd *s, struct run *r);
static void run_fork(struct shepherd *s, struct run *r, struct str frame);

int64_t mono_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- the table ---- */

static bool needs_ticker(enum run_state st)
{
    return st == RUN_UNBORN || st == RUN_UNCLEAR || st == RUN_CLEANUP;
}

static void kept_run_set_state(struct shepherd *s, struct run *r, enum run_state st)
{
    s->n_todo -= needs_ticker(r->state);
    s->n_todo += needs_ticker(st);
    r->state = st;
}

/* NULL: there is no such run, or the key is none. */
static struct run *kept_run_find(const struct shepherd *s, struct run_key key)
{
    uint64_t id;
    struct run *r = run_key_pack(key, &id) ? map_u64_get(&s->runs, id) : NULL;

    return r && run_key_eq(r->key, key) ? r : NULL;
}

/* NULL: the key is none, or another run has its lock, which happens once in 2^61. */
static struct run *kept_run_new(struct shepherd *s, struct run_key key, uint32_t journal,
                                uint64_t offset)
{
    struct run *r;
    uint64_t id;

    if (!run_key_pack(key, &id) || map_u64_get(&s->runs, id))
        return NULL;
    r = xcalloc(1, sizeof(*r));
    *r = (struct run){.source = SOURCE_RUN,
                      .state = RUN_GATED,
                      .id = id,
                      .key = key,
                      .journal = journal,
                      .offset = offset,
                      .pidfd = -1};
    map_u64_put(&s->runs, id, r);
    return r;
}

static void kept_run_follow(struct run *before, struct run *r)
{
    struct run **at = &before->followers;

    while (*at)
        at = &(*at)->next;
    *at = r;
    r->next = NULL;
    r->after = before;
}

static void kept_run_free(void *val)
{
    struct run *r = val;

    if (r->pidfd >= 0)
        close(r->pidfd);
    free(r->frame);
    free(r);
}

/* Its outcome is recorded: whoever waited for it goes on. */
static void kept_run_drop(struct shepherd *s, struct run *r)
{
    struct run *f = r->followers;

    kept_run_set_state(s, r, RUN_GATED);
    map_u64_del(&s->runs, r->id);
    kept_run_free(r);
    while (f) {
        struct run *next = f->next;
        f->after = f->next = NULL;
        run_fork(s, f, (struct str){f->frame, f->frame_n});
        f = next;
    }
}

/* Frames are kept only until the fork: what the shepherd holds, every fork pays for. */
static void keep_frame(struct run *r, struct str frame)
{
    if (r->frame)
        return;
    r->frame = xmalloc(frame.n);
    memcpy(r->frame, frame.p, frame.n);
    r->frame_n = frame.n;
}

/* ---- starting ---- */

/* In the child: keep five descriptors, become a supervisor. */
static _Noreturn void become_supervisor(struct shepherd *s, int journal)
{
    if (dup3(journal, FD_JOURNAL, O_CLOEXEC) < 0)
        _exit(1);
    syscall(SYS_close_range, FD_FIRST_FREE, ~0u, 0);
    supervisor_run(&s->home, &s->start);
}

static void tell_to_stop(struct run *r)
{
    union sigval v = {.sival_int = r->grace_ms};

    if (r->pidfd >= 0) {
        siginfo_t info = {.si_signo = SUPERVISOR_STOP, .si_code = SI_QUEUE};
        info.si_pid = getpid();
        info.si_uid = getuid();
        info.si_value = v;
        syscall(SYS_pidfd_send_signal, r->pidfd, SUPERVISOR_STOP, &info, 0);
    } else if (r->state == RUN_OWN) {
        sigqueue(r->pid, SUPERVISOR_STOP, v);
    }
}

static void fork_failed(struct shepherd *s, struct run *r, struct str frame, int sys)
{
    keep_frame(r, frame);
    if (r->state != RUN_UNBORN)
        r->give_up_ms = mono_ms() + FORK_PATIENCE_MS;
    kept_run_set_state(s, r, RUN_UNBORN);
    if (mono_ms() < r->give_up_ms)
        return;
    conn_notice(s, "run %llu.%u could not be started for %d s: %s; raise the limit on processes",
                (unsigned long long)r->key.job, r->key.run, FORK_PATIENCE_MS / 1000,
                strerrordesc_np(sys));
    if (outcome_unborn(s, r, sys))
        kept_run_drop(s, r);
}

static void run_fork(struct shepherd *s, struct run *r, struct str frame)
{
    struct frame_head head;
    struct str body;
    int journal = journal_fd(s, r->journal);

    if (journal < 0) {
        fork_failed(s, r, frame, errno);
        return;
    }
    if (proto_next(frame, &head, &body) != 1 || !proto_get_start(body, &s->start)) {
        log_error("shepherd", "run %llu.%u: its START cannot be read",
                  (unsigned long long)r->key.job, r->key.run);
        if (outcome_unborn(s, r, EBADMSG))
            kept_run_drop(s, r);
        return;
    }
    pid_t pid = _Fork(); /* no handlers: nothing here needs them, and they cost 2 % */
    if (pid == 0)
        become_supervisor(s, journal);
    if (pid < 0) {
        fork_failed(s, r, frame, errno);
        return;
    }
    free(r->frame);
    r->frame = NULL;
    r->pid = pid;
    kept_run_set_state(s, r, RUN_OWN);
    map_u64_put(&s->by_pid, (uint64_t)pid, r);
    if (r->stopping)
        tell_to_stop(r);
}

bool runs_start(struct shepherd *s, struct str frame, struct str body)
{
    const struct proto_start *st = &s->start;
    struct run *r, *before;

    if (!proto_get_start(body, &s->start))
        return false;
    r = kept_run_find(s, st->run.key);
    if (r) { /* sent again while we have it: only what is said after that offset counts */
        r->offset = MAX(r->offset, st->offset);
        return true;
    }
    r = kept_run_new(s, st->run.key, st->run.journal, st->offset);
    if (!r)
        return false;
    before = kept_run_find(s, st->run.after);
    if (!before) {
        run_fork(s, r, frame);
        return true;
    }
    keep_frame(r, frame);
    kept_run_follow(before, r);
    return true;
}

/* ---- stopping ---- */

/* A run that waits for another one, and is not wanted any more. */
static void drop_gated(struct shepherd *s, struct run *r)
{
    struct run **at = &r->after->followers, *before = r->after, *f = r->followers;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    r->followers = NULL;
    while (f) { /* they wanted our place after `before` */
        struct run *next = f->next;
        kept_run_follow(before, f);
        f = next;
    }
    r->after = NULL;
    kept_run_resolve(s, r);
}

void runs_stop(struct shepherd *s, struct run_key key, int64_t grace_ms)
{
    struct run *r = kept_run_find(s, key);

    if (!r)
        return; /* it is over, and the journal says so */
    r->stopping = true;
    r->grace_ms = (int32_t)MIN(MAX(grace_ms, -1), INT32_MAX);
    if (r->state == RUN_GATED)
        drop_gated(s, r);
    else
        tell_to_stop(r);
}

/* Nothing of a gated run has happened: the VOID says so, and that the START which waited here will
 * never run.  A run that was forked is not touched: the daemon reads its STARTED. */
void runs_withdraw(struct shepherd *s, struct run_key key)
{
    struct run *r = kept_run_find(s, key);

    if (r && r->state == RUN_GATED)
        drop_gated(s, r);
}

void runs_signal(struct shepherd *s, struct run_key key, int signo)
{
    struct run *r = kept_run_find(s, key);

    if (!r || signo <= 0 || signo >= NSIG)
        return;
    if (r->state == RUN_OWN) {
        sigqueue(r->pid, SUPERVISOR_SIGNAL, (union sigval){.sival_int = signo});
    } else if (r->state == RUN_ADOPTED) {
        siginfo_t info = {.si_signo = SUPERVISOR_SIGNAL, .si_code = SI_QUEUE};
        info.si_value = (union sigval){.sival_int = signo};
        syscall(SYS_pidfd_send_signal, r->pidfd, SUPERVISOR_SIGNAL, &info, 0);
    }
}

/* ---- finding out ---- */

/* Watches a supervisor that is not our child.  False when it is gone already. */
static bool watch_supervisor(struct shepherd *s, struct run *r, pid_t pid)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = r};
    struct run *own = map_u64_get(&s->by_pid, (uint64_t)pid);

    if (own == r) { /* our own child: SIGCHLD will tell */
        kept_run_set_state(s, r, RUN_OWN);
        return true;
    }
    AUTO_FD fd = (int)syscall(SYS_pidfd_open, pid, 0);
    pid_t again;
    if (fd < 0 || outcome_judge(s, r, &again) != VERDICT_ALIVE || again != pid)
        return false;
    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
        return false;
    r->pidfd = TAKE_FD(fd);
    r->pid = pid;
    r->own = false;
    kept_run_set_state(s, r, RUN_ADOPTED);
    if (r->stopping)
        tell_to_stop(r);
    return true;
}

/* Nothing of it ever ran, and the lock we hold keeps it so.  A daemon that still wants it sends its
 * START again when it reads the VOID. */
static void resolve_nothing(struct shepherd *s, struct run *r)
{
    if (r->stopping ? outcome_cancelled(s, r) : outcome_void(s, r))
        kept_run_drop(s, r);
    else
        kept_run_set_state(s, r, RUN_UNCLEAR); /* the journal cannot be written now */
}

static void kept_run_resolve(struct shepherd *s, struct run *r)
{
    pid_t pid;

    switch (outcome_judge(s, r, &pid)) {
    case VERDICT_ALIVE:
        if (!watch_supervisor(s, r, pid))
            kept_run_set_state(s, r, RUN_UNCLEAR);
        break;
    case VERDICT_UNCLEAR:
        kept_run_set_state(s, r, RUN_UNCLEAR);
        break;
    case VERDICT_OVER:
        kept_run_drop(s, r);
        break;
    case VERDICT_KILLED:
        kept_run_set_state(s, r,
                           RUN_CLEANUP); /* at the end of this turn, one scan for all of them */
        break;
    case VERDICT_NOTHING:
        resolve_nothing(s, r);
        break;
    }
}

void runs_adopt(struct shepherd *s, const struct proto_op *op)
{
    struct run *r;

    if (kept_run_find(s, op->key))
        return; /* we have it; the journal will tell how it ends */
    r = kept_run_new(s, op->key, op->journal, op->offset);
    if (!r)
        return;
    r->started.seen = op->value == PROTO_SEEN_STARTED;
    r->started.pid = op->pid;
    r->started.boot = op->boot;
    r->started.pid_start = op->pid_start;
    r->started.at_ms = op->started_ms;
    kept_run_resolve(s, r);
}

void runs_forget(struct shepherd *s, uint32_t journal)
{
    struct run *r;

    for (size_t it = 0; (r = map_u64_each(&s->runs, &it));)
        if (r->journal == journal)
            return; /* still needed here, whatever the daemon thinks */
    journal_close(s, journal);
}

/* ---- ends ---- */

static void on_supervisor_end(struct shepherd *s, struct run *r, int status)
{
    r->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == SUPERVISOR_RECORDED) {
        kept_run_drop(s, r);
        return;
    }
    r->own = true;
    if (!(WIFEXITED(status) && WEXITSTATUS(status) == SUPERVISOR_FENCED))
        log_warn("shepherd", "the supervisor of run %llu.%u ended with wait status %#x",
                 (unsigned long long)r->key.job, r->key.run, (unsigned)status);
    kept_run_resolve(s, r);
}

void runs_reap(struct shepherd *s)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct run *r = map_u64_del(&s->by_pid, (uint64_t)pid);
        if (r) /* otherwise an orphan of a killed supervisor */
            on_supervisor_end(s, r, status);
    }
}

void runs_pidfd_ready(struct shepherd *s, struct run *r)
{
    epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, r->pidfd, NULL);
    close(r->pidfd);
    r->pidfd = -1;
    kept_run_resolve(s, r);
}

void runs_tick(struct shepherd *s)
{
    VEC(uint64_t) ids = {0};
    struct tree_scan *scan = NULL;
    size_t it = 0;
    uint64_t id;
    void *val;

    while (map_u64_next(&s->runs, &it, &id, &val))
        if (needs_ticker(((struct run *)val)->state))
            vec_push(&ids, id);
    for (size_t i = 0; i < ids.n; i++) {
        struct run *r = map_u64_get(&s->runs, ids.p[i]);
        if (!r)
            continue;
        if (r->state == RUN_UNBORN) {
            run_fork(s, r, (struct str){r->frame, r->frame_n});
        } else if (r->state == RUN_UNCLEAR) {
            kept_run_resolve(s, r);
        } else if (r->state == RUN_CLEANUP) {
            if (!scan)
                scan = tree_scan_new();
            if (outcome_cleanup(s, r, scan))
                kept_run_drop(s, r);
        }
    }
    tree_scan_free(scan);
    vec_done(&ids);
}

void runs_done(struct shepherd *s)
{
    map_u64_clear(&s->runs, kept_run_free);
    map_u64_done(&s->by_pid);
    for (size_t i = 0; i < s->journals.n; i++)
        close(s->journals.p[i].fd);
    vec_done(&s->journals);
    proto_start_done(&s->start);
}

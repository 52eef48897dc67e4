/* supervisor.c - one run from lock to outcome
 *
 * Rules:
 *   - no lock, or a record of this run already in the journal: somebody else had it; leave quietly;
 *   - the run has ended when no descendant is left, not when the command exits: what it left
 *     behind gets TERM, the grace, KILL, and the status is the command's all the same;
 *   - exactly one ENDED record is written, however full the disk is;
 *   - limits are measured on CLOCK_MONOTONIC: steps of the wall clock do not matter, and time spent
 *     suspended does not count, since the command could not use it either (a laptop whose lid was
 *     closed over night must not kill everything at breakfast).
 *
 * Signals stay blocked for the whole life and are taken one by one with sigtimedwait, so there are
 * no handlers and no races: SIGCHLD, the shepherd's SUPERVISOR_STOP and SUPERVISOR_SIGNAL, and
 * TERM/INT/HUP from outside, which mostly mean that the machine goes down: the run is ended in
 * order, and counts as lost, not as cancelled.
 */
#include "shepherd/supervisor.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/stop_asks.h"
#include "base/util.h"
#include "shepherd/command.h"
#include "shepherd/log_cut.h"
#include "shepherd/log_room.h"
#include "shepherd/mark.h"
#include "shepherd/run_lock.h"
#include "shepherd/space.h"
#include "shepherd/verdict.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum {
    RETRY_MS = 200,     /* a journal that cannot be written is tried again after this */
    LOG_LOOK_MS = 2000, /* a log with a limit is looked at so often, */
    LOG_SOON_MS = 200,  /* and of a run that has just reached it, so often */
    ROOM_MS = 1000,     /* a silent run that is so old gets room for its first output */
    KILL_AGAIN_MS = 50  /* a tree that forks faster than we kill is killed again after this */
};

/* RUN: the command runs.  TERM: SIGTERM was sent and the grace time runs.  KILL: SIGKILL is
 * sent again and again until no descendant is left. */
enum phase { PHASE_RUN, PHASE_TERM, PHASE_KILL };

struct sup {
    const struct run_home *home;
    struct proto_start *start;
    struct run_key key;
    struct cgroup cgroup;
    struct command command;
    struct journal_record end;
    char mark[TREE_MARK_MAX];
    enum phase phase;
    int64_t deadline_ms; /* of the phase, monotonic; -1 = none */
    pid_t pid;           /* of the command, 0 once it has ended */
    bool limits;         /* a cgroup is in place */
    bool spares;         /* children of a process that asks for stops have not got SIGTERM yet */
    struct log_cut out_log, err_log;
    struct log_room out_room, err_room;
    int64_t look_ms; /* when the logs are looked at, monotonic; -1 = never */
};

static int64_t sup_now_ms(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_ms(int64_t ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

/* ---- what all runs of a home share ---- */

void run_home_init(struct run_home *h, int dir_fd)
{
    char boot[40] = "";
    AUTO_FD fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    *h = (struct run_home){0};
    snprintf(h->mark, sizeof(h->mark), "%016" PRIx64, home_mark(dir_fd));
    if (fd >= 0 && read(fd, boot, sizeof(boot) - 1) > 0)
        h->boot = crc32c(0, boot, strlen(boot)) | 1;
    cgroup_probe(&h->cgroups, "/proc/self");
}

/* By hand, as run_key_format: a first call of printf touches so many pages of a freshly forked
 * process that it would be one of the dearer things a supervisor does. */
static char *title_put_text(char *to, const char *s)
{
    size_t n = strlen(s);

    memcpy(to, s, n);
    return to + n;
}

void run_home_mark(const struct run_home *h, struct run_key k, char out[TREE_MARK_MAX])
{
    char *to = title_put_text(out, TREE_MARK_NAME "=");

    to = title_put_text(to, h->mark);
    *to++ = '.';
    run_key_format(k, to);
}

void run_home_cgroup(const struct run_home *h, struct run_key k, struct cgroup *out)
{
    char name[TREE_MARK_MAX], *to = title_put_text(name, "berth-");

    to = title_put_text(to, h->mark);
    *to++ = '.';
    run_key_format(k, to);
    cgroup_name(&h->cgroups, name, out);
}

/* A name that is not ours to read counts as in use. */
static bool group_in_use(void *arg, const char *rest)
{
    struct run_key key;
    uint64_t id;

    (void)arg;
    return run_key_parse(str_of(rest), &key) != strlen(rest) || !run_key_pack(key, &id) ||
           run_lock_holder(FD_RUNS, id) != 0;
}

void run_home_sweep(const struct run_home *h)
{
    char prefix[TREE_MARK_MAX], *to = title_put_text(prefix, "berth-");

    to = title_put_text(to, h->mark);
    *to++ = '.';
    *to = 0;
    cgroup_sweep(&h->cgroups, prefix, group_in_use, NULL);
}

int record_end_once(int journal_fd, struct journal_record *r)
{
    if (journal_append(journal_fd, r) < 0)
        return -1;
    /* While a daemon lives it commits what it reads here; alone, we see to it ourselves. */
    if (lock_file_held(FD_DAEMON) == 1 || fdatasync(journal_fd) == 0)
        return 0;
    /* The kernel may have dropped what it could not write, and a second sync would not tell: only
     * another record helps.  Readers take the first of a run. */
    return errno == EIO || errno == ENOSPC || errno == EDQUOT ? -1 : 0;
}

/* One line when a journal cannot be written, and one when it can again. */
static void journal_trouble(const struct journal_record *r, bool *told, bool over)
{
    char name[TREE_MARK_MAX];

    if (*told != over)
        return;
    *told = !over;
    run_key_format((struct run_key){r->job, r->run, 0}, name);
    if (over)
        log_warn("shepherd", "run %s: its record is in the journal now", name);
    else
        log_error("shepherd", "run %s: cannot write its record to the journal: %m; trying again",
                  name);
}

void record_end(int journal_fd, struct journal_record *r)
{
    bool told = false;

    while (record_end_once(journal_fd, r) < 0) {
        journal_trouble(r, &told, false);
        sleep_ms(RETRY_MS);
    }
    journal_trouble(r, &told, true);
}

/* ---- the logs ---- */

static void logs_open(struct sup *s)
{
    const struct run_start *st = &s->start->run;
    const struct command *c = &s->command;

    log_cut_open(&s->out_log, st->log_path, st->limits.log_limit_bytes);
    log_cut_open(&s->err_log, st->err_path, st->limits.log_limit_bytes);
    log_room_init(&s->out_room, st->log_path ? c->out_fd : -1);
    log_room_init(&s->err_room, st->err_path ? c->err_fd : -1);
    if (s->out_room.fd >= 0 || s->err_room.fd >= 0)
        s->look_ms = sup_now_ms(CLOCK_MONOTONIC) + ROOM_MS;
}

static void logs_look(struct sup *s)
{
    bool out = log_cut(&s->out_log), err = log_cut(&s->err_log);
    bool limited = s->out_log.fd >= 0 || s->err_log.fd >= 0;
    bool taken = log_room_take(&s->out_room) & log_room_take(&s->err_room);
    int64_t next_ms = out || err ? LOG_SOON_MS : LOG_LOOK_MS;

    s->look_ms = limited || !taken ? sup_now_ms(CLOCK_MONOTONIC) + next_ms : -1;
}

/* When the run has ended. */
static void logs_close(struct sup *s)
{
    log_room_return(&s->out_room);
    log_room_return(&s->err_room);
    command_close(&s->command);
}

/* ---- the tree ---- */

static void add_usage(struct sup *s, const struct rusage *u)
{
    s->end.cpu_user_us += (int64_t)u->ru_utime.tv_sec * 1000000 + u->ru_utime.tv_usec;
    s->end.cpu_sys_us += (int64_t)u->ru_stime.tv_sec * 1000000 + u->ru_stime.tv_usec;
    s->end.max_rss_bytes = MAX(s->end.max_rss_bytes, (int64_t)u->ru_maxrss * 1024);
}

/* Reaps all that has ended.  False when no descendant is left. */
static bool sup_reap(struct sup *s)
{
    struct rusage usage;
    int status;
    pid_t pid;

    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
        add_usage(s, &usage);
        if (pid == s->pid) {
            s->end.wait_status = status;
            s->pid = 0;
        }
    }
    return pid == 0 || errno != ECHILD;
}

/* A process that asks whether it has to stop ends its own children, and saves before. */
static void sup_ask_tree(struct sup *s)
{
    pid_t asks[STOP_ASKS_MAX];
    size_t n = stop_asks_read(s->start->run.run_dir, asks);

    s->spares = tree_ask(getpid(), asks, n);
}

/* What it left behind gets the signal when the last such process has ended. */
static void sup_end_spared(struct sup *s)
{
    pid_t asks[STOP_ASKS_MAX];
    size_t n = stop_asks_read(s->start->run.run_dir, asks);

    if (tree_has(getpid(), asks, n))
        return;
    s->spares = false;
    tree_signal(getpid(), SIGTERM);
}

/* Starts the grace time, or shortens one that is running; the grace time is never extended. */
static void enter_term(struct sup *s, int64_t grace_ms)
{
    int64_t kill_at =
        sup_now_ms(CLOCK_MONOTONIC) + (grace_ms < 0 ? s->start->run.limits.grace_ms : grace_ms);

    if (s->phase == PHASE_RUN) {
        sup_ask_tree(s);
        s->phase = PHASE_TERM;
        s->deadline_ms = kill_at;
    } else if (s->phase == PHASE_TERM) {
        s->deadline_ms = MIN(s->deadline_ms, kill_at); /* somebody became impatient */
    }
}

static void on_deadline(struct sup *s)
{
    if (s->phase == PHASE_RUN) {
        s->end.why = RUN_END_TIMEOUT;
        enter_term(s, -1);
        return;
    }
    s->phase = PHASE_KILL;
    tree_signal(getpid(), SIGKILL);
    s->deadline_ms = sup_now_ms(CLOCK_MONOTONIC) + KILL_AGAIN_MS;
}

/* The first reason counts, and only while the command runs: a command that exited by itself keeps
 * its own outcome, even if a stop arrives while its descendants are being ended. */
static void sup_request_stop(struct sup *s, enum run_end why, int64_t grace_ms)
{
    if (s->phase == PHASE_RUN && s->pid > 0)
        s->end.why = (uint8_t)why;
    enter_term(s, grace_ms);
}

static void sup_on_signal(struct sup *s, int signo, const siginfo_t *info)
{
    bool ours = info->si_code == SI_QUEUE;

    if (signo == SUPERVISOR_STOP)
        sup_request_stop(s, RUN_END_CANCELLED, ours ? info->si_int : -1);
    else if (signo == SUPERVISOR_SIGNAL && ours && s->pid > 0)
        kill(-s->pid, info->si_int);
    else if (signo == SIGTERM || signo == SIGINT || signo == SIGHUP)
        sup_request_stop(s, RUN_END_SUPERVISOR_KILLED, -1);
}

static void signals_of_interest(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    sigaddset(set, SUPERVISOR_STOP);
    sigaddset(set, SUPERVISOR_SIGNAL);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

/* When something is due, monotonic; -1 = nothing is. */
static int64_t next_due(const struct sup *s)
{
    if (s->deadline_ms < 0 || s->look_ms < 0)
        return MAX(s->deadline_ms, s->look_ms);
    return MIN(s->deadline_ms, s->look_ms);
}

static void sup_wait_for_end(struct sup *s)
{
    sigset_t set;
    siginfo_t info;

    signals_of_interest(&set);
    for (;;) {
        int64_t due = next_due(s);
        int signo;
        if (due < 0) {
            signo = sigwaitinfo(&set, &info);
        } else {
            int64_t left = MAX(due - sup_now_ms(CLOCK_MONOTONIC), 0);
            struct timespec t = {left / 1000, left % 1000 * 1000000};
            signo = sigtimedwait(&set, &info, &t);
        }
        if (signo > 0 && signo != SIGCHLD)
            sup_on_signal(s, signo, &info);
        if (!sup_reap(s))
            return;
        if (s->pid == 0 && s->phase == PHASE_RUN)
            enter_term(s, -1); /* what the command left behind */
        else if (s->spares && s->phase == PHASE_TERM)
            sup_end_spared(s);
        if (s->deadline_ms >= 0 && sup_now_ms(CLOCK_MONOTONIC) >= s->deadline_ms)
            on_deadline(s);
        if (s->look_ms >= 0 && sup_now_ms(CLOCK_MONOTONIC) >= s->look_ms)
            logs_look(s);
    }
}

/* ---- the run ---- */

static bool stop_is_pending(void)
{
    sigset_t set;

    return sigpending(&set) == 0 &&
           (sigismember(&set, SUPERVISOR_STOP) == 1 || sigismember(&set, SIGTERM) == 1);
}

static void limits_put(struct sup *s)
{
    const struct run_start *st = &s->start->run;
    struct cgroup_limits l = {st->need.mem_bytes, st->need.mcpu, st->cpu_quota};

    s->command.cgroup = &s->cgroup;
    if (l.mem_bytes <= 0 && l.mcpu <= 0)
        return;
    run_home_cgroup(s->home, s->key, &s->cgroup);
    s->limits = cgroup_make(&s->cgroup, &l);
}

static void limits_read(struct sup *s)
{
    if (!s->limits)
        return;
    s->end.max_rss_bytes = MAX(s->end.max_rss_bytes, cgroup_peak_bytes(&s->cgroup));
    if (s->end.why == RUN_END_EXITED && s->end.wait_status != 0 && cgroup_saw_oom(&s->cgroup))
        s->end.why = RUN_END_OUT_OF_MEMORY;
    cgroup_remove(&s->cgroup);
}

/* Why the command failed is its own affair, but that there was no room for what it wrote is worth a
 * note: the core repeats such a run.  A command that exits with 0 has said that it has done its
 * work, unless its log was cut off. */
static void space_note(struct sup *s)
{
    const struct run_start *st = &s->start->run;
    char mem[SPACE_DIR_MAX];
    const char *dir;
    int sys = 0;

    if (s->end.why != RUN_END_EXITED)
        return;
    if (s->end.wait_status != 0)
        sys = space_missing(st, mem, &dir);
    else if (log_room_cut(&s->out_room) || log_room_cut(&s->err_room))
        sys = space_missing_for_log(st, mem, &dir);
    if (!sys)
        return;
    s->end.sys = (uint16_t)sys;
    journal_set_name(&s->end, dir);
}

/* A run that is repeated because of a full disk does not begin before there is space. */
static bool space_waits(struct sup *s)
{
    char mem[SPACE_DIR_MAX];
    const char *dir = "";
    int sys = s->start->run.wants_space ? space_missing(&s->start->run, mem, &dir) : 0;

    if (!sys)
        return false;
    s->end.why = RUN_END_START_FAILED;
    s->end.sys = (uint16_t)sys;
    s->end.stage = START_SPACE;
    journal_set_name(&s->end, dir);
    return true;
}

static void sup_start_failed(struct sup *s)
{
    s->end.why = RUN_END_START_FAILED;
    s->end.sys = (uint16_t)s->command.sys;
    s->end.stage = s->command.failed;
    journal_set_name(&s->end, command_failure_name(&s->command));
}

/* True when the command runs; otherwise s->end says why not. */
static bool sup_start(struct sup *s)
{
    struct command *c = &s->command;
    bool told = false;

    if (space_waits(s))
        return false;
    if (!command_prepare(c)) {
        sup_start_failed(s);
        return false;
    }
    do {
        if (stop_is_pending()) {
            s->end.why = RUN_END_CANCELLED;
            return false;
        }
        s->pid = command_start(c);
        if (c->failed && s->pid > 0) /* not the command's status */
            waitpid(s->pid, NULL, 0);
        if (c->failed == START_JOURNAL) {
            errno = c->sys;
            journal_trouble(&s->end, &told, false);
            sleep_ms(RETRY_MS);
        }
    } while (c->failed == START_JOURNAL);
    journal_trouble(&s->end, &told, true);
    if (c->failed) {
        sup_start_failed(s);
        return false;
    }
    return true;
}

/* Takes the spare entry that decoding leaves behind every list. */
static void mark_add(struct sup *s)
{
    char **end = s->start->memory.words + (s->start->run.envp - s->start->memory.words);

    run_home_mark(s->home, s->key, s->mark);
    while (*end)
        end++;
    end[0] = s->mark;
    end[1] = NULL;
    s->command.mark = s->mark;
}

static void sup_run(struct sup *s)
{
    const struct run_start *st = &s->start->run;

    limits_put(s);
    mark_add(s);
    if (sup_start(s)) {
        s->end.started_ms = s->command.started.at_ms;
        s->end.pid = s->command.started.pid;
        if (st->limits.timeout_ms > 0)
            s->deadline_ms = sup_now_ms(CLOCK_MONOTONIC) + st->limits.timeout_ms;
        logs_open(s);
        sup_wait_for_end(s);
        log_cut(&s->out_log);
        log_cut(&s->err_log);
        space_note(s);
        logs_close(s);
        if (st->container && s->end.why == RUN_END_EXITED && s->end.wait_status != 0)
            verdict_read(st->run_dir, &s->end);
    }
    limits_read(s);
}

_Noreturn void supervisor_run(const struct run_home *h, struct proto_start *st)
{
    struct run_key key = st->run.key;
    struct journal_record about = {.job = key.job, .run = key.run, .tag = key.tag, .boot = h->boot};
    struct sup s = {
        .home = h, .start = st, .key = key, .end = about, .deadline_ms = -1, .look_ms = -1};
    char name[TREE_MARK_MAX];
    uint64_t id;

    setpgid(0, 0); /* a signal for the shepherd's group is none for its supervisors */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    run_key_format((struct run_key){key.job, key.run, 0}, title_put_text(name, "run "));
    prctl(PR_SET_NAME, name); /* takes the first 15 characters */
    if (!run_key_pack(key, &id) || run_lock_take(FD_RUNS, id) < 0 ||
        journal_scan(FD_JOURNAL, st->offset, key, NULL) != 0)
        _exit(SUPERVISOR_FENCED);
    s.end.kind = JOURNAL_ENDED;
    s.end.why = RUN_END_EXITED;
    s.command = (struct command){
        .start = &st->run, .out_fd = -1, .err_fd = -1, .started = about, .journal_fd = FD_JOURNAL};
    sup_run(&s);
    s.end.at_ms = sup_now_ms(CLOCK_REALTIME);
    record_end(FD_JOURNAL, &s.end);
    _exit(SUPERVISOR_RECORDED);
}

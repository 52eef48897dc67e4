/* outcome.c - the truth about a run that has no supervisor of ours, and what we write about it
 *
 * The byte lock decides.  Whoever holds it acts for the run; before the shepherd writes anything
 * about a run it takes the lock itself, so that a supervisor forked by a predecessor, still on its
 * way to the lock, either had it first (then it is alive) or comes later and finds our record.
 */
#include "base/log.h"
#include "shepherd/run_lock.h"
#include "shepherd/shepherd_priv.h"
#include <fcntl.h>
#include <time.h>

/* ---- journals ---- */

int journal_fd(struct shepherd *s, uint32_t generation)
{
    char name[JOURNAL_FILE_MAX];

    for (size_t i = 0; i < s->journals.n; i++)
        if (s->journals.p[i].generation == generation)
            return s->journals.p[i].fd;
    journal_file_name(generation, name);
    int fd = openat(s->dir_fd, name, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        log_error("shepherd", "cannot open %s: %m", name);
        return -1;
    }
    vec_push(&s->journals, ((struct journal_file){generation, fd}));
    return fd;
}

void journal_close(struct shepherd *s, uint32_t generation)
{
    for (size_t i = 0; i < s->journals.n; i++) {
        if (s->journals.p[i].generation == generation) {
            close(s->journals.p[i].fd);
            vec_remove(&s->journals, i);
            return;
        }
    }
}

/* ---- judging ---- */

enum verdict outcome_judge(struct shepherd *s, struct run *r, pid_t *pid)
{
    struct journal_record started;

    /* Twice: between the question and our own attempt the holder may change. */
    for (int i = 0; i < 2; i++) {
        *pid = run_lock_holder(FD_RUNS, r->id);
        if (*pid > 0)
            return VERDICT_ALIVE;
        if (*pid == 0 && run_lock_take(FD_RUNS, r->id) == 0)
            break;
        if (i == 1)
            return VERDICT_UNCLEAR;
    }
    int fd = journal_fd(s, r->journal);
    int seen = fd < 0 ? -1 : journal_scan(fd, r->offset, r->key, &started);
    if (seen < 0) {
        run_lock_drop(FD_RUNS, r->id);
        return VERDICT_UNCLEAR;
    }
    if (seen & (1 << JOURNAL_ENDED | 1 << JOURNAL_VOID)) {
        run_lock_drop(FD_RUNS, r->id);
        return VERDICT_OVER;
    }
    if (seen & 1 << JOURNAL_STARTED) {
        r->started.seen = true;
        r->started.pid = started.pid;
        r->started.boot = started.boot;
        r->started.pid_start = started.pid_start;
        r->started.at_ms = started.at_ms;
    }
    return r->started.seen ? VERDICT_KILLED : VERDICT_NOTHING;
}

/* ---- writing ---- */

static int64_t wall_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Fills in the common members, appends, and releases the lock only after success: until the
 * record is there, nobody else may act for the run. */
static bool append(struct shepherd *s, struct run *r, struct journal_record *rec)
{
    int fd = journal_fd(s, r->journal);

    rec->job = r->key.job;
    rec->run = r->key.run;
    rec->tag = r->key.tag;
    rec->boot = s->home.boot;
    rec->at_ms = wall_ms();
    if (fd < 0 || record_end_once(fd, rec) < 0)
        return false;
    run_lock_drop(FD_RUNS, r->id);
    return true;
}

bool outcome_cancelled(struct shepherd *s, struct run *r)
{
    struct journal_record rec = {.kind = JOURNAL_ENDED, .why = RUN_END_CANCELLED};

    return append(s, r, &rec);
}

bool outcome_unborn(struct shepherd *s, struct run *r, int sys)
{
    struct journal_record rec = {.kind = JOURNAL_ENDED,
                                 .why = RUN_END_START_FAILED,
                                 .sys = (uint16_t)sys,
                                 .stage = START_FORK};

    return append(s, r, &rec);
}

bool outcome_void(struct shepherd *s, struct run *r)
{
    struct journal_record rec = {.kind = JOURNAL_VOID};

    return append(s, r, &rec);
}

static bool is_supervisor(void *arg, pid_t pid)
{
    struct shepherd *s = arg;

    return map_u64_get(&s->by_pid, (uint64_t)pid) != NULL;
}

bool outcome_cleanup(struct shepherd *s, struct run *r, const struct tree_scan *t)
{
    struct journal_record rec = {.kind = JOURNAL_ENDED, .why = RUN_END_SUPERVISOR_KILLED};
    bool other_boot = r->started.boot && s->home.boot && r->started.boot != s->home.boot;
    char mark[TREE_MARK_MAX];
    struct cgroup group;

    rec.started_ms = r->started.at_ms;
    rec.pid = r->started.pid;
    if (other_boot) {
        rec.why = RUN_END_NODE_LOST; /* its processes went with the machine */
    } else {
        run_home_mark(&s->home, r->key, mark);
        run_home_cgroup(&s->home, r->key, &group);
        struct tree_orphans o = {.mark = mark,
                                 .leader = (pid_t)r->started.pid,
                                 .pid_start = r->started.pid_start,
                                 .shepherd = r->own ? getpid() : 0,
                                 .is_supervisor = is_supervisor,
                                 .arg = s};
        if (cgroup_kill(&group) + (int)tree_kill_orphans(t, &o) > 0)
            return false;
        cgroup_remove(&group);
    }
    return append(s, r, &rec);
}

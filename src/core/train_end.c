/* train_end.c - how attempts end: asked to stop, out of device memory, lost, done
 *
 * Owns: what an exit means for a job that trains, and preemption by signal.
 *
 * exit 0, told to stop, epochs left      preempted: queued again, no try used
 * exit 0, epochs left, not told          done, with the remark `early`
 * ended by its signal, or left a         preempted
 *   checkpoint newer than the signal
 * exit 0 after the signal, no new        done: it had just finished
 *   checkpoint
 * host or supervisor lost                queued again where it was, no try used, if it can go on
 * out of device memory                   once more with more of it, even without retries
 *
 * After exit 0, and after a signal that was answered with a new checkpoint, all epochs that the run
 * reported count.  After any other end the job goes back to those that are confirmed.
 *
 * The record of a signal is on disk before the signal is sent: after a crash in between, an exit
 * that it caused is not taken for success.
 */
#include "base/user_rights.h"
#include "core/train_priv.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOG_TAIL = 16 << 10,    /* of a log, searched for what frameworks say */
    FILE_TIME_SLACK_MS = 20 /* file times come from a clock that is a tick behind */
};

/* ---- preemption by signal ---- */

struct sending {
    struct core *c;
    struct run_key key;
};

static struct run *ended_run(const struct core *c, struct run_key key)
{
    struct job *j = core_job(c, key.job);

    return j && j->run && run_key_eq(j->run->key, key) ? j->run : NULL;
}

static void on_recorded(void *arg, const struct err *e)
{
    struct sending *s = arg;
    struct core *c = s->c;
    struct run *r = ended_run(c, s->key);
    struct train *t = train_of(c, s->key.job);

    (void)e; /* never refused, only late */
    if (r && t && r->phase == RUN_LIVE && !r->stop_sent && r->host->cls) {
        r->host->cls->signal(r->host->backend, r->key, t->spec->signal);
        t->kill_ms = core_mono(c) + t->spec->grace_ms;
        c->gpu.kill_due_ms = c->gpu.kill_due_ms ? MIN(c->gpu.kill_due_ms, t->kill_ms) : t->kill_ms;
    }
    free(s);
}

/* Also after a restart: whether it was sent is not known, and a second one does no harm. */
void train_send_signal(struct core *c, struct train *t, struct run *r)
{
    struct sending *s = xmalloc(sizeof(*s));

    if (!t->signalled_ms) {
        t->signalled_ms = core_wall(c);
        train_stage(c, t);
    }
    *s = (struct sending){c, r->key};
    core_barrier(c, on_recorded, s);
}

/* Those that did not heed their signal within their grace are stopped for good. */
void train_kill_due(struct core *c)
{
    int64_t now = core_mono(c), next = 0;
    uint64_t key;
    void *val;

    if (!c->gpu.kill_due_ms || now < c->gpu.kill_due_ms)
        return;
    for (size_t it = 0; map_u64_next(&c->gpu.trains, &it, &key, &val);) {
        struct train *t = val;
        struct job *j = core_job(c, key);
        if (!t->kill_ms || !j || !j->run)
            continue;
        if (t->kill_ms > now) {
            next = next ? MIN(next, t->kill_ms) : t->kill_ms;
            continue;
        }
        t->kill_ms = 0;
        t->stop_now = true;
        run_stop(c, j->run);
    }
    c->gpu.kill_due_ms = next;
}

/* The submitter named the file, so it is looked at with the submitter's rights.  The name service
 * was asked for these groups when the run started. */
static int64_t file_time(const struct core *c, const char *path, const struct launch *l)
{
    AUTO_FREE uint32_t *groups = NULL;
    struct stat st;
    struct err e;
    size_t n = 0;

    if (c->conf.ops->file_time)
        return c->conf.ops->file_time(c->conf.self, path);
    if (geteuid() == 0 && l->uid != 0)
        n = user_groups(l->uid, l->gid, &groups);
    if (geteuid() == 0 && user_rights_enter(&(struct user_rights){l->uid, l->gid, groups, n}, &e))
        return -1;
    int rc = stat(path, &st);
    user_rights_leave();
    return rc < 0 ? -1 : st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
}

static bool checkpoint_is_new(struct core *c, const struct train *t)
{
    struct ledger *led = &c->conf.ledger;
    struct launch l = {0};
    struct err e;
    AUTO_FREE char *path = NULL;
    int64_t written_ms = -1;

    if (led->read_launch(led->self, t->job, &l, &e) == 0)
        path = train_checkpoint(&l);
    if (path)
        written_ms = file_time(c, path, &l);
    launch_done(&l);
    return path && written_ms + FILE_TIME_SLACK_MS >= t->signalled_ms;
}

static bool ended_by(const struct run_outcome *o, int signo)
{
    if (o->why != RUN_END_EXITED)
        return false;
    return (WIFSIGNALED(o->wait_status) && WTERMSIG(o->wait_status) == signo) ||
           (WIFEXITED(o->wait_status) && WEXITSTATUS(o->wait_status) == 128 + signo);
}

/* ---- out of device memory ---- */

static bool says_out_of_memory(struct str tail)
{
    static const char *const words[] = {
        "CUDA out of memory",     "HIP out of memory",         "CUDA_ERROR_OUT_OF_MEMORY",
        "OutOfMemoryError",       "hipErrorOutOfMemory",       "RESOURCE_EXHAUSTED",
        "ResourceExhaustedError", "cudaErrorMemoryAllocation",
    };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (memmem(tail.p, tail.n, words[i], strlen(words[i])))
            return true;
    return false;
}

static bool file_says_so(char *path_take)
{
    AUTO_FREE char *path = path_take;
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    AUTO_FREE char *tail = NULL;
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    tail = xmalloc(LOG_TAIL);
    n = pread(fd, tail, LOG_TAIL, MAX(st.st_size - LOG_TAIL, 0));
    return n > 0 && says_out_of_memory((struct str){tail, (size_t)n});
}

static bool out_of_device_memory(const struct core *c, const struct train *t, struct run_key key)
{
    return t->spec->gpus && c->conf.home.dir &&
           (file_says_so(core_log_path(c, key)) || file_says_so(core_err_path(c, key)));
}

/* ---- the verdict ---- */

/* The job was preempted: it is queued again at once and no retry is used up. */
static void preempted(const struct train *t, struct verdict *v)
{
    v->ev = JOB_EV_REQUEUE;
    v->no_try = v->at_once = true;
    v->how = GPU_STOPPED_ASKED;
    if (t->spec->epochs)
        snprintf(v->text, sizeof(v->text),
                 "preempted after epoch %d of %d; the job resumes when GPUs are free",
                 train_resumes_at(t, v), t->spec->epochs);
    else
        snprintf(v->text, sizeof(v->text),
                 "preempted; the job resumes from its checkpoint when GPUs are free");
}

/* Exit 0 is not the end of a job that is being preempted and has epochs left. */
static void judge_success(struct core *c, struct train *t, struct verdict *v)
{
    if (t->signalled_ms && checkpoint_is_new(c, t)) {
        preempted(t, v);
    } else if (t->spec->epochs && t->past.done < t->spec->epochs) {
        if ((t->asked && t->stop) || t->stop_now)
            preempted(t, v);
        else
            t->early = true;
    }
}

static void judge_lost(const struct train *t, struct verdict *v)
{
    if (!t->spec->epochs && !t->spec->resumes)
        return;
    v->ev = JOB_EV_REQUEUE;
    v->no_try = true;
    v->how = GPU_STOPPED_LOST;
    if (t->spec->epochs)
        snprintf(v->text, sizeof(v->text), "lost after epoch %d of %d; the job resumes from there",
                 train_resumes_at(t, v), t->spec->epochs);
}

static void judge_failure(struct core *c, struct train *t, const struct run *r,
                          const struct run_outcome *o, struct verdict *v)
{
    bool saved = t->signalled_ms && checkpoint_is_new(c, t);
    bool by_signal = saved || (t->signalled_ms && ended_by(o, t->spec->signal));

    v->saved = saved;
    if (by_signal || t->stop_now) {
        preempted(t, v);
    } else if (!t->memory_tried && o->why == RUN_END_EXITED && out_of_device_memory(c, t, r->key)) {
        v->ev = JOB_EV_REQUEUE;
        v->no_try = true;
        v->how = GPU_STOPPED_NO_MEMORY;
        snprintf(v->text, sizeof(v->text),
                 "out of GPU memory; the job is retried once with more of it reserved");
    }
}

void train_judge(struct core *c, const struct run *r, const struct run_outcome *o,
                 struct verdict *v)
{
    struct train *t = train_of(c, r->key.job);

    v->how =
        o->why == RUN_END_NEVER_RAN || !o->started_ms ? GPU_STOPPED_UNDONE : GPU_STOPPED_FAILED;
    v->saved = o->why == RUN_END_EXITED && o->wait_status == 0;
    if (!t || v->ev == JOB_EV_CANCELLED)
        return;
    switch (o->why) {
    case RUN_END_SUPERVISOR_KILLED:
    case RUN_END_NODE_LOST:
        judge_lost(t, v);
        return;
    case RUN_END_CANCELLED: /* by us, not for its owner */
        if (o->started_ms)
            preempted(t, v);
        return;
    case RUN_END_EXITED:
    case RUN_END_TIMEOUT:
    case RUN_END_OUT_OF_MEMORY:
        if (v->ev == JOB_EV_SUCCEEDED)
            judge_success(c, t, v);
        else
            judge_failure(c, t, r, o, v);
        return;
    default:
        return;
    }
}

/* local.c - runs on this host, by way of the shepherd
 *
 * Owns: what we know of every run handed to us and not yet settled.
 * Does not own: the journal (tail.c), the connection (link.c).
 *
 * Orders go to the shepherd and are not acknowledged; facts come from the journal.  A START frame
 * is kept until a record of its run is read, so that a shepherd that died with it can be replaced:
 * every order is repeated to the new one, in its old sequence, and a run that already happened is
 * recognised by its lock and its records.
 */
#include "backend/local/gpu_priv.h"
#include "backend/local/local_priv.h"
#include "base/arena.h"
#include "shepherd/mark.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

/* Orders that may wait for the shepherd's socket, in bytes. */
enum { OUT_MAX_BYTES = 256 << 20 };

void local_notice(struct backend *b, const char *fmt, ...)
{
    char text[512];

    FORMAT_ARGS(text, fmt);
    if (b->ev->notice)
        b->ev->notice(b->owner, str_of(text));
}

/* ---- the table ---- */

static struct local_run *local_run_find(struct backend *b, struct run_key key)
{
    uint64_t id;
    struct local_run *r = run_key_pack(key, &id) ? map_u64_get(&b->runs, id) : NULL;

    return r && run_key_eq(r->key, key) ? r : NULL;
}

static struct local_run *local_run_add(struct backend *b, uint64_t id, struct run_key key,
                                       struct generation *g)
{
    struct local_run *r = xcalloc(1, sizeof(*r));

    r->id = id;
    r->key = key;
    r->journal = g->number;
    r->asked = UINT64_MAX;
    r->order = ++b->order;
    map_u64_put(&b->runs, id, r);
    g->live++;
    g->unsettled++;
    return r;
}

/* Without a frame the run is asked about by ADOPT, not by START. */
static void drop_frame(struct local_run *r)
{
    free(r->frame);
    r->frame = NULL;
    r->frame_n = 0;
}

static void local_run_free(void *val)
{
    drop_frame(val);
    free(val);
}

/* Keeps backend.gpu_runs equal to the number of runs with the flag. */
static void local_run_set_gpus(struct backend *b, struct local_run *r, bool gpus)
{
    if (r->gpus == gpus)
        return;
    r->gpus = gpus;
    b->gpu_runs += gpus ? 1 : (size_t)-1;
    gpu_watch_busy(b->gpus, b->gpu_runs > 0);
}

/* Keeps generation.live in step.  The START frame is freed as soon as a record shows that the
 * shepherd has acted on it. */
static void local_run_set_state(struct backend *b, struct local_run *r, enum local_state st)
{
    struct generation *g = tail_find(b, r->journal);

    if (r->state != LOCAL_ENDED && st == LOCAL_ENDED)
        g->live--;
    r->state = st;
    if (st != LOCAL_SENT)
        drop_frame(r);
    if (st > LOCAL_RUNNING)
        local_run_set_gpus(b, r, false);
}

/* May free a generation (tail_collect): callers must not use one afterwards. */
static void run_forget(struct backend *b, struct local_run *r)
{
    local_run_set_state(b, r, LOCAL_ENDED);
    tail_find(b, r->journal)->unsettled--;
    map_u64_del(&b->runs, r->id);
    free(r);
    tail_collect(b);
}

/* ---- orders ---- */

/* Appends only; the caller sends with link_send. */
static void link_put_op(struct backend *b, enum proto_type type, const struct local_run *r,
                        int64_t v)
{
    struct proto_op op = {.key = r->key,
                          .journal = r->journal,
                          .offset = r->asked,
                          .value = (int32_t)MAX(MIN(v, INT32_MAX), -1),
                          .pid = (uint32_t)r->pid,
                          .pid_start = (uint64_t)r->pid_start,
                          .started_ms = r->started_ms,
                          .boot = r->boot};

    proto_put_op(&b->link.out, type, &op);
}

/* Asks the shepherd to see to this run: again START, or ADOPT. */
static void local_run_request(struct backend *b, struct local_run *r)
{
    r->asked = tail_find(b, r->journal)->reader.offset;
    if (r->frame) {
        struct str frame = {r->frame, r->frame_n};
        proto_set_start_offset(frame, r->asked);
        buf_add(&b->link.out, frame.p, frame.n);
    } else {
        bool seen = r->state == LOCAL_RUNNING || r->pid > 0;
        link_put_op(b, PROTO_ADOPT, r, seen ? PROTO_SEEN_STARTED : PROTO_SEEN_NOTHING);
    }
}

static void local_run_request_stop(struct backend *b, const struct local_run *r)
{
    if (r->withdrawn)
        link_put_op(b, PROTO_WITHDRAW, r, 0);
    if (r->stopping)
        link_put_op(b, PROTO_STOP, r, r->grace_ms);
}

static int local_run_by_order(const void *x, const void *y)
{
    const struct local_run *a = *(struct local_run *const *)x, *b = *(struct local_run *const *)y;

    /* Those that may run come first: a gated START must find whom it waits for. */
    if (!a->frame != !b->frame)
        return a->frame ? 1 : -1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static void ask_about(struct backend *b, bool only_new)
{
    VEC(struct local_run *) todo = {0};
    struct local_run *r;

    if (b->link.state != LINK_UP)
        return;
    for (size_t it = 0; (r = map_u64_each(&b->runs, &it));) {
        if (r->state <= LOCAL_RUNNING && (!only_new || r->asked == UINT64_MAX))
            vec_push(&todo, r);
    }
    if (todo.n)
        qsort(todo.p, todo.n, sizeof(*todo.p), local_run_by_order);
    for (size_t i = 0; i < todo.n; i++)
        local_run_request(b, todo.p[i]);
    for (size_t i = 0; i < todo.n; i++) /* after all: a chain of gated runs stays a chain */
        local_run_request_stop(b, todo.p[i]);
    vec_done(&todo);
    link_send(b);
}

void local_ask_all(struct backend *b)
{
    ask_about(b, false);
}

/* Core believed these runs to be alive; the journal has been read to its end.  A run core has seen
 * running is running to it until its end is known. */
void local_ask_new(struct backend *b)
{
    VEC(uint64_t) ids = {0};
    size_t it = 0;
    uint64_t id;
    void *val;

    ask_about(b, true);
    while (map_u64_next(&b->runs, &it, &id, &val)) {
        struct local_run *r = val;
        if (r->adopted && r->state == LOCAL_SENT && r->pid > 0)
            vec_push(&ids, id);
    }
    for (size_t i = 0; i < ids.n; i++) {
        struct local_run *r = map_u64_get(&b->runs, ids.p[i]);
        if (!r || r->state != LOCAL_SENT)
            continue;
        local_run_set_state(b, r, LOCAL_RUNNING);
        b->ev->started(b->owner, r->key, r->pid, r->pid_start, 0);
    }
    vec_done(&ids);
}

/* ---- facts ---- */

static void local_run_started(struct backend *b, struct local_run *r,
                              const struct journal_record *rec)
{
    if (r->state != LOCAL_SENT)
        return;
    local_run_set_state(b, r, LOCAL_RUNNING);
    r->pid = rec->pid;
    r->pid_start = (int64_t)rec->pid_start;
    r->started_ms = rec->at_ms;
    r->boot = rec->boot;
    b->ev->started(b->owner, r->key, r->pid, r->pid_start, r->started_ms);
}

/* A second ENDED of the same run is ignored: the first one counts. */
static void local_run_ended(struct backend *b, struct local_run *r,
                            const struct journal_record *rec)
{
    struct run_outcome o = {.why = (enum run_end)rec->why,
                            .wait_status = rec->wait_status,
                            .sys = rec->sys,
                            .no_dir = rec->why == RUN_END_START_FAILED && rec->stage == START_CWD,
                            .started_ms = rec->started_ms,
                            .ended_ms = rec->at_ms,
                            .max_rss_bytes = rec->max_rss_bytes,
                            .cpu_user_ms = rec->cpu_user_us / 1000,
                            .cpu_sys_ms = rec->cpu_sys_us / 1000};
    char text[160] = "";

    if (r->state > LOCAL_RUNNING || rec->why >= RUN_END_MAX)
        return;
    if (o.why == RUN_END_START_FAILED)
        journal_failure_text(rec, text, sizeof(text));
    else if (o.why == RUN_END_EXITED && o.sys) /* whose disk was full */
        snprintf(text, sizeof(text), "%.*s", (int)strnlen(rec->name, sizeof(rec->name)), rec->name);
    local_run_set_state(b, r, LOCAL_ENDED);
    b->ev->ended(b->owner, r->key, &o, str_of(text));
}

/* Nothing of it runs or will, of what was sent before the record. */
static void on_void(struct backend *b, struct local_run *r, uint64_t at)
{
    if (r->asked == UINT64_MAX || at < r->asked || r->state != LOCAL_SENT)
        return; /* an old one: it does not answer our question */
    if (r->withdrawn) {
        local_run_set_state(b, r, LOCAL_ABSENT);
        b->ev->absent(b->owner, r->key);
    } else if (r->frame && b->link.state == LINK_UP) {
        local_run_request(b, r);
        local_run_request_stop(b, r);
        link_send(b);
    } else if (r->frame) {
        r->asked = UINT64_MAX; /* asked when the link is up again */
    } else if (r->adopted) {
        local_run_set_state(b, r, LOCAL_ABSENT);
        b->ev->absent(b->owner, r->key);
    }
}

void local_on_record(struct backend *b, struct generation *g, const struct journal_record *rec,
                     uint64_t at)
{
    struct local_run *r = local_run_find(b, journal_record_key(rec));

    if (!r || r->journal != g->number)
        return;
    switch ((enum journal_kind)rec->kind) {
    case JOURNAL_STARTED:
        local_run_started(b, r, rec);
        break;
    case JOURNAL_ENDED:
        local_run_ended(b, r, rec);
        break;
    case JOURNAL_VOID:
        on_void(b, r, at);
        break;
    }
}

/* ---- devices ---- */

/* Those on which core may have put devices: it does not say so of runs from before a restart. */
static void gpu_runs(void *arg, struct gpu_run **out, size_t *out_n)
{
    struct backend *b = arg;
    const struct local_run *r;

    if (b->gpu_runs == 0)
        return;
    *out = xcalloc(b->gpu_runs, sizeof(**out));
    for (size_t it = 0; (r = map_u64_each(&b->runs, &it));) {
        if (r->gpus)
            (*out)[(*out_n)++] = (struct gpu_run){r->key, r->pid, r->pid_start};
    }
}

/* From the loop, after b->node was updated. */
static void on_gpus(void *arg, const struct run_memory *runs, size_t n)
{
    struct backend *b = arg;

    if (b->ev->devices)
        b->ev->devices(b->owner, &b->node, runs, n);
}

static void on_gpu_notice(void *arg, const char *text)
{
    local_notice(arg, "%s", text);
}

/* `exclude` is freed on return, which gpu_watch_open allows for. */
static int open_gpus(struct backend *b, const struct json *conf, struct err *e)
{
    const struct json *gpus = json_get(conf, "gpus"), *words = json_get(conf, "gpus_exclude");
    struct str said = json_type(words) == JSON_STR ? json_str(words) : STR("");
    AUTO_FREE char *exclude = xstrndup(said.p, said.n);
    struct gpu_watch_conf c = {.loop = b->loop,
                               .home_mark = home_mark(b->dir_fd),
                               .node = &b->node,
                               .gpus = gpus ? json_int(gpus) : -1,
                               .exclude = exclude,
                               .runs = gpu_runs,
                               .looked = on_gpus,
                               .notice = on_gpu_notice,
                               .arg = b};

    if (c.gpus > NODE_MAX_GPUS)
        return err_set(e, ERR_INVALID, "a node has at most %d GPUs, not %lld", NODE_MAX_GPUS,
                       (long long)c.gpus);
    return gpu_watch_open(&b->gpus, &c, e);
}

/* ---- the class ---- */

static void local_close(struct backend *b)
{
    if (!b)
        return;
    gpu_watch_close(b->gpus);
    link_close(b);
    tail_close(b);
    map_u64_clear(&b->runs, local_run_free);
    groups_done(b);
    if (b->dir_fd >= 0)
        close(b->dir_fd);
    FREE_EACH(b->node.devices, b->home, b->program, b);
}

/* Logs go to runs/<job/1000>/.  ext4 puts the files of a directory near it and directories near
 * their parent, unless that is marked as the top of a hierarchy; then each goes where there is
 * room. Near their parent, 10 000 logs crowd into one block group, and where an earlier home was
 * removed minutes ago, creating one took 700 us instead of 22 (no journal: freed inodes are passed
 * over). */
static void spread_runs(struct backend *b)
{
    AUTO_FREE char *dir = xasprintf("%s/runs", b->home);
    int flags;

    mkdir(dir, 0711);
    AUTO_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        fchmod(fd, 0711); /* earlier versions let everybody list it */
    if (fd >= 0 && ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && !(flags & FS_TOPDIR_FL)) {
        flags |= FS_TOPDIR_FL;
        ioctl(fd, FS_IOC_SETFLAGS, &flags); /* a wish: other file systems know nothing of it */
    }
}

static int open_dir(struct backend *b, struct err *e)
{
    AUTO_FREE char *dir = xasprintf("%s/shepherd", b->home);

    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "cannot make %s", dir);
    spread_runs(b);
    b->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return b->dir_fd < 0 ? err_sys(e, "cannot open %s", dir) : 0;
}

/* Does not wait for the shepherd: the link comes up later, and orders are kept until then. */
static int local_open(struct backend **out, const char *home, const struct json *conf,
                      struct loop *l, const struct backend_events *ev, void *owner, struct err *e)
{
    struct backend *b = xcalloc(1, sizeof(*b));

    b->loop = l;
    b->ev = ev;
    b->owner = owner;
    b->home = xstrdup(home);
    b->dir_fd = b->tail.inotify_fd = b->link.sock = b->link.starter_fd = -1;
    b->cpu_quota = json_bool(json_get(conf, "cpu_quota"));
    b->transient = json_bool(json_get(conf, "transient"));
    buf_init(&b->link.in, 1 << 20);
    buf_init(&b->link.out, OUT_MAX_BYTES);
    detect_node(&b->node, conf);
    if (open_dir(b, e) < 0 || open_gpus(b, conf, e) < 0 || tail_open(b, e) < 0 ||
        link_open(b, e) < 0) {
        local_close(b);
        return -1;
    }
    *out = b;
    return 0;
}

static const struct node *local_node(struct backend *b)
{
    return &b->node;
}

static uint32_t local_journal(struct backend *b)
{
    return b->tail.current;
}

/* The START frame of a run; what only this host knows is added here. */
static int local_start_encode(struct backend *b, const struct run_start *s, struct local_run *r,
                              struct err *e)
{
    struct proto_start p = {.run = *s};
    struct arena words = {0};
    struct buf frame;

    if (!s->argv[0])
        return err_set(e, ERR_INVALID, "run %llu.%u has no command", (unsigned long long)s->key.job,
                       s->key.run);
    if (s->change_user) {
        const struct group_list *g = groups_of(b, s->uid, s->gid);
        p.run.groups = (struct id_list){g->gids, g->n};
    }
    p.run.cpu_quota = b->cpu_quota;
    if (s->mounts && !backend_can_mount()) {
        p.run.argv = mounts_unmounted(s->argv, s->mounts, &words);
        p.run.mounts = NULL;
    }
    buf_init(&frame, PROTO_FRAME_MAX + 1);
    bool fits = proto_put_start(&frame, &p);
    arena_done(&words);
    if (!fits) {
        buf_done(&frame);
        return err_set(e, ERR_LIMIT, "command, environment and parameters are larger than %d MiB",
                       PROTO_FRAME_MAX >> 20);
    }
    r->frame = buf_take(&frame, &r->frame_n);
    return 0;
}

/* Encodes into a temporary run first, so that a failure leaves the table as it was. */
static int local_start(struct backend *b, const struct run_start *s, struct err *e)
{
    uint64_t id;

    if (!run_key_pack(s->key, &id))
        return err_set(e, ERR_LIMIT, "job %llu has had too many runs to start another",
                       (unsigned long long)s->key.job);
    struct local_run *r = map_u64_get(&b->runs, id);
    if (r && r->state != LOCAL_ABSENT)
        return 0; /* it is on its way, or over */
    struct generation *g = tail_generation(b, r ? r->journal : s->journal, e);
    if (!g)
        return -1;
    struct local_run tmp = {0};
    if (local_start_encode(b, s, &tmp, e) < 0)
        return -1;
    if (!r)
        r = local_run_add(b, id, s->key, g);
    r->state = LOCAL_SENT;
    r->adopted = r->withdrawn = false;
    local_run_set_gpus(b, r, s->need.gpus > 0);
    r->frame = tmp.frame;
    r->frame_n = tmp.frame_n;
    r->asked = UINT64_MAX;
    r->order = ++b->order;
    if (b->link.state == LINK_UP) {
        local_run_request(b, r);
        link_send(b);
    }
    return 0;
}

/* Without a link the stop is only noted; local_run_request_stop repeats it when the link is up. */
static void local_stop(struct backend *b, struct run_key key, int64_t grace_ms)
{
    struct local_run *r = local_run_find(b, key);

    if (!r || r->state > LOCAL_RUNNING)
        return;
    r->stopping = true;
    r->grace_ms = grace_ms;
    if (b->link.state == LINK_UP && r->asked != UINT64_MAX) {
        link_put_op(b, PROTO_STOP, r, grace_ms);
        link_send(b);
    }
}

static void local_withdraw(struct backend *b, struct run_key key)
{
    struct local_run *r = local_run_find(b, key);

    if (!r || r->state != LOCAL_SENT)
        return;
    r->withdrawn = true;
    if (b->link.state == LINK_UP && r->asked != UINT64_MAX) {
        link_put_op(b, PROTO_WITHDRAW, r, 0);
        link_send(b);
    }
}

/* A signal is not repeated: without a link it is lost. */
static void local_signal(struct backend *b, struct run_key key, int signo)
{
    struct local_run *r = local_run_find(b, key);

    if (!r || r->state != LOCAL_RUNNING || b->link.state != LINK_UP)
        return;
    link_put_op(b, PROTO_SIGNAL, r, signo);
    link_send(b);
}

/* Every adopted run may hold devices, because core does not say which ones it placed on GPUs. */
static void local_adopt(struct backend *b, const struct run_belief *runs, size_t n)
{
    struct err e = {0};
    uint64_t id;

    for (size_t i = 0; i < n; i++) {
        if (!run_key_pack(runs[i].key, &id) || map_u64_get(&b->runs, id))
            continue;
        struct generation *g = tail_generation(b, runs[i].journal, &e);
        if (!g) {
            local_notice(b, "run %llu.%u cannot be looked up: %s",
                         (unsigned long long)runs[i].key.job, runs[i].key.run, e.text);
            continue;
        }
        struct local_run *r = local_run_add(b, id, runs[i].key, g);
        r->adopted = true;
        local_run_set_gpus(b, r, true);
        r->pid = runs[i].pid;
        r->pid_start = runs[i].pid_start;
    }
    b->recalled = true;
    tail_rewind(b);
    tail_soon(b);
}

/* Ignored for a run that has not ended: core may only settle what was reported. */
static void local_settled(struct backend *b, struct run_key key)
{
    struct local_run *r = local_run_find(b, key);

    if (r && r->state >= LOCAL_ENDED)
        run_forget(b, r);
}

const struct backend_class backend_local = {
    .name = "local",
    .open = local_open,
    .close = local_close,
    .node = local_node,
    .journal = local_journal,
    .start = local_start,
    .stop = local_stop,
    .withdraw = local_withdraw,
    .signal = local_signal,
    .adopt = local_adopt,
    .settled = local_settled,
};

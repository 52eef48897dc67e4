/* runs.c - the runs of this connection: where their files are, and what became of them
 *
 * Owns: the table of runs, the layout of their files below the home, and the note beside them that
 * lets a later connection find them.
 *
 *   runs/0/42.1-1f3a9c2e.log .err  output, unless the run has a directory that the user named
 *   runs/0/42.1-1f3a9c2e/          BERTH_RUN_DIR; assets go here too when no directory was named
 *   runs/0/42.1-1f3a9c2e.run       the note
 *
 * An end is told behind the last byte of output, with the sizes of all streams: the daemon gives it
 * on when it has as much.  Files are removed when the daemon says that the outcome is durable; what
 * the user's own directory holds stays.
 */
#include "base/file.h"
#include "base/util.h"
#include "far/far_priv.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

enum { NOTE_MAX = 64 << 10, SWEEP_AGE_S = 7 * 24 * 3600 };

/* ---- the table ---- */

struct far_run *runs_find(struct far *f, struct run_key key)
{
    uint64_t id;
    struct far_run *r = run_key_pack(key, &id) ? map_u64_get(&f->runs, id) : NULL;

    return r && run_key_eq(r->key, key) ? r : NULL;
}

struct far_run *runs_get(struct far *f, struct run_key key)
{
    struct far_run *r = runs_find(f, key);

    if (r)
        return r;
    r = xcalloc(1, sizeof(*r));
    ASSERT(run_key_pack(key, &r->id));
    r->key = key;
    r->asset_fd = r->kept_fd = -1;
    for (size_t i = 0; i < WIRE_STREAMS; i++)
        r->streams[i] =
            (struct far_stream){.run = r, .which = (enum wire_stream)i, .fd = -1, .wd = -1};
    map_u64_put(&f->runs, r->id, r);
    return r;
}

void runs_free(struct far *f, struct far_run *r)
{
    stage_end(r);
    keep_done(r);
    for (size_t i = 0; i < WIRE_STREAMS; i++) {
        feed_forget(f, &r->streams[i]);
        free(r->streams[i].path);
    }
    map_u64_del(&f->runs, r->id);
    free(r->run_dir);
    free(r->work);
    free(r);
}

void runs_done(struct far *f)
{
    size_t it = 0;
    void *val;

    while ((val = map_u64_each(&f->runs, &it))) {
        runs_free(f, val);
        it = 0; /* the table changed */
    }
    map_u64_done(&f->runs);
    vec_done(&f->beliefs);
}

/* ---- files ---- */

static char *far_run_path(const struct far *f, struct run_key k, const char *suffix)
{
    return run_file_path(f->home, k, suffix);
}

static void set_path(char **path, char *to)
{
    free(*path);
    *path = to;
}

void runs_place(struct far *f, struct far_run *r, const char *stage_dir, const char *log_name,
                const char *err_name)
{
    set_path(&r->run_dir, far_run_path(f, r->key, ""));
    r->keep = stage_dir[0] != 0;
    set_path(&r->work, r->keep ? path_join(f->login, stage_dir) : xstrdup(r->run_dir));
    set_path(&r->streams[WIRE_OUT].path,
             r->keep ? path_join(r->work, log_name) : far_run_path(f, r->key, ".log"));
    set_path(&r->streams[WIRE_ERR].path, !err_name ? NULL
                                         : r->keep ? path_join(r->work, err_name)
                                                   : far_run_path(f, r->key, ".err"));
    set_path(&r->streams[WIRE_SPOOL].path, path_join(r->run_dir, "spool.jsonl"));
}

/* Not synced: when this host crashes, its runs are lost, and so may be the note. */
int runs_remember(const struct far *f, const struct far_run *r, struct err *e)
{
    AUTO(json) struct json *j = json_new_object();
    AUTO_FREE char *path = far_run_path(f, r->key, ".run"), *dir = far_run_path(f, r->key, ".run");
    int rc = 0;

    *strrchr(dir, '/') = 0;
    json_set_str(j, "work", r->work);
    json_set_str(j, "log", r->streams[WIRE_OUT].path);
    json_set_str(j, "err", r->streams[WIRE_ERR].path);
    json_set_take(j, "keep", json_new_bool(r->keep));
    json_set_int(j, "log_limit", r->log_limit_bytes);
    AUTO_FREE char *text = json_text(j);
    if (dir_make_all(dir, 0700, e) < 0)
        return -1;
    AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || fd_write_all(fd, text, strlen(text), NULL) < 0)
        rc = err_sys(e, "cannot write %s", path);
    return rc;
}

static char *note_text(const struct json *note, const char *key)
{
    const struct json *v = json_get(note, key);
    struct str s = json_type(v) == JSON_STR ? json_str(v) : STR("");

    return s.n ? xstrndup(s.p, s.n) : NULL;
}

void runs_recall(struct far *f, struct far_run *r)
{
    AUTO_FREE char *path = far_run_path(f, r->key, ".run"), *text = NULL;
    AUTO(json) struct json *note = NULL;
    size_t n;

    runs_place(f, r, "", "", NULL);
    if (file_read_all(path, NOTE_MAX, &text, &n, NULL) == 0 &&
        json_parse((struct str){text, n}, path, &note, NULL) == 0 && json_get(note, "log")) {
        set_path(&r->streams[WIRE_OUT].path, note_text(note, "log"));
        set_path(&r->streams[WIRE_ERR].path, note_text(note, "err"));
        set_path(&r->work, note_text(note, "work"));
        r->keep = json_bool(json_get(note, "keep"));
        r->log_limit_bytes = json_int(json_get(note, "log_limit"));
    }
}

/* ---- removing, on a worker: a tree of assets may be large ---- */

struct removal {
    char *paths[4];
};

static void removal_work(void *arg)
{
    struct removal *x = arg;

    for (size_t i = 0; i < ARRAY_SIZE(x->paths); i++)
        if (x->paths[i] && unlink(x->paths[i]) < 0 && errno == EISDIR)
            dir_remove_tree(x->paths[i], NULL);
}

static void removal_done(void *arg)
{
    struct removal *x = arg;

    for (size_t i = 0; i < ARRAY_SIZE(x->paths); i++)
        free(x->paths[i]);
    free(x);
}

void runs_settle(struct far *f, struct far_run *r)
{
    struct removal *x = xcalloc(1, sizeof(*x));

    backend_local.settled(f->b, r->key);
    x->paths[0] = far_run_path(f, r->key, ".run");
    x->paths[1] = far_run_path(f, r->key, "");
    if (!r->keep && r->streams[WIRE_OUT].path) {
        x->paths[2] = xstrdup(r->streams[WIRE_OUT].path);
        x->paths[3] = xstrdup(r->streams[WIRE_ERR].path);
    }
    runs_free(f, r);
    work_submit(f->loop, removal_work, removal_done, x);
}

static bool is_note(const char *name)
{
    size_t n = strlen(name);

    return n > 4 && !strcmp(name + n - 4, ".run");
}

/* By their notes: of runs from earlier connections this one may never have heard. */
bool runs_left(const char *home)
{
    AUTO_FREE char *runs = path_join(home, "runs");
    DIR *top = opendir(runs);
    const struct dirent *ent;
    bool found = !top && errno != ENOENT;

    while (top && !found && (ent = readdir(top))) {
        AUTO_FREE char *path = path_join(runs, ent->d_name);
        DIR *d = ent->d_name[0] == '.' ? NULL : opendir(path);
        while (d && !found && (ent = readdir(d)))
            found = is_note(ent->d_name);
        if (d)
            closedir(d);
    }
    if (top)
        closedir(top);
    return found;
}

/* What a daemon that was removed, or lost its memory, left behind. */
static void far_sweep_dir(const char *dir, time_t before)
{
    DIR *d = opendir(dir);
    const struct dirent *ent;
    struct stat st;

    if (!d)
        return;
    while ((ent = readdir(d))) {
        size_t n = strlen(ent->d_name);
        if (!is_note(ent->d_name) || fstatat(dirfd(d), ent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            st.st_mtime > before)
            continue;
        AUTO_FREE char *stem = xasprintf("%s/%.*s", dir, (int)(n - 4), ent->d_name);
        AUTO_FREE char *log = xasprintf("%s.log", stem), *errs = xasprintf("%s.err", stem),
                       *note = xasprintf("%s.run", stem);
        if (stat(log, &st) == 0 && st.st_mtime > before)
            continue; /* it still prints */
        unlink(log);
        unlink(errs);
        dir_remove_tree(stem, NULL);
        unlink(note);
    }
    closedir(d);
}

static void sweep_work(void *arg)
{
    const char *runs = arg;
    time_t before = time(NULL) - SWEEP_AGE_S;
    DIR *d = opendir(runs);
    const struct dirent *ent;

    while (d && (ent = readdir(d))) {
        AUTO_FREE char *dir = path_join(runs, ent->d_name);
        if (ent->d_name[0] != '.')
            far_sweep_dir(dir, before);
    }
    if (d)
        closedir(d);
}

void runs_sweep(struct far *f)
{
    work_submit(f->loop, sweep_work, free, path_join(f->home, "runs"));
}

/* ---- what the local backend tells ---- */

static void far_run_started(void *owner, struct run_key key, int64_t pid, int64_t pid_start,
                            int64_t at_ms)
{
    struct far *f = owner;
    struct far_run *r = runs_find(f, key);
    struct wire_op op = {.key = key, .pid = pid, .pid_start = pid_start, .at_ms = at_ms};

    if (!r)
        return;
    wire_put_op(&f->out, WIRE_STARTED, &op);
    feed_watch(f, r);
    feed_pump(f);
    far_send(f);
}

/* The outcome is kept here, not sent: runs_finish sends it after the last byte of output. */
static void far_run_ended(void *owner, struct run_key key, const struct run_outcome *o,
                          struct str detail)
{
    struct far *f = owner;
    struct far_run *r = runs_find(f, key);

    if (!r)
        return;
    r->ended = true;
    r->outcome = *o;
    snprintf(r->detail, sizeof(r->detail), STR_FMT, STR_ARG(detail));
    feed_end(f, r);
    feed_pump(f);
}

void runs_finish(struct far *f, struct far_run *r)
{
    struct wire_ended e = {.key = r->key, .o = r->outcome};

    if (!r->ended || r->told)
        return;
    for (size_t i = 0; i < WIRE_STREAMS; i++) {
        if (r->streams[i].sent < r->streams[i].size)
            return;
        e.size[i] = r->streams[i].size;
    }
    if (r->kept_at < r->kept.n)
        return;
    r->told = true;
    wire_put_ended(&f->out, &e, str_of(r->detail));
}

/* The run never ran.  Its note goes, so that runs_left does not take it for an unsettled run. */
static void far_run_absent(void *owner, struct run_key key)
{
    struct far *f = owner;
    struct far_run *r = runs_find(f, key);
    struct wire_op op = {.key = key};

    wire_put_op(&f->out, WIRE_ABSENT, &op);
    far_send(f);
    if (r) {
        AUTO_FREE char *note = far_run_path(f, key, ".run");
        unlink(note);
        runs_free(f, r);
    }
}

static void far_on_notice(void *owner, struct str text)
{
    struct far *f = owner;

    wire_put_text(&f->out, WIRE_NOTICE, text);
    far_send(f);
}

static void far_on_devices(void *owner, const struct node *n, const struct run_memory *runs,
                           size_t n_runs)
{
    struct far *f = owner;

    wire_put_devices(&f->out, n, runs, n_runs);
    far_send(f);
}

const struct backend_events far_events = {
    .started = far_run_started,
    .ended = far_run_ended,
    .absent = far_run_absent,
    .notice = far_on_notice,
    .devices = far_on_devices,
};

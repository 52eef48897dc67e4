/* restore.c - the steps of a restore: database, files, the exchange, the report
 *
 * The journals, the locks and the sockets of the home stay in place, and so do the files of runs
 * that have gone on: their supervisors do not notice a restore.  The next daemon adopts the runs
 * that the restored database knows.
 *
 * The database is exchanged last.  Until then the home is the one before, with files of the backup
 * added, and the restore can be repeated.
 */
#include "host/restore.h"
#include "archive/backup.h"
#include "backend/traces.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json_out.h"
#include "base/vec.h"
#include "store/restore.h"
#include "store/store.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

enum { LISTED = 1000, WARNINGS = 20 };

/* One restore from its beginning to its report. */
struct restore {
    const struct host_restore_conf *conf;
    char *backup, *aside, *work, *copy, *present;
    struct run_trace *traces;
    size_t n_traces;
    struct store_restored db;
    struct store_copy *restored;
    struct restore_tally files;
    VEC(char *) warnings;
    bool database_only; /* the backup is one file */
};

static void restore_done(struct restore *r)
{
    struct err ignored;

    store_copy_close(r->restored);
    if (r->work)
        dir_remove_tree(r->work, &ignored);
    store_restored_done(&r->db);
    for (size_t i = 0; i < r->warnings.n; i++)
        free(r->warnings.p[i]);
    vec_done(&r->warnings);
    FREE_EACH(r->backup, r->aside, r->work, r->copy, r->present, r->traces);
}

/* ---- what is known of the home ---- */

static uint64_t highest_in(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *x;
    uint64_t high = 0;

    while (d && (x = readdir(d))) {
        char *end;
        uint64_t n = strtoull(x->d_name, &end, 10);
        if (end > x->d_name && *end == '.')
            high = MAX(high, n);
    }
    if (d)
        closedir(d);
    return high;
}

/* The highest number of a job that anything in the home names: its number is not used again. */
static uint64_t highest_job(const struct restore *r)
{
    AUTO_FREE char *runs = path_join(r->conf->home, "runs");
    uint64_t high = r->n_traces ? r->traces[r->n_traces - 1].key.job : 0;
    DIR *d = opendir(runs);
    struct dirent *x;

    while (d && (x = readdir(d))) {
        AUTO_FREE char *dir = path_join(runs, x->d_name);
        uint64_t n = x->d_name[0] == '.' ? 0 : highest_in(dir);
        high = MAX(high, n);
    }
    if (d)
        closedir(d);
    return high;
}

static const struct run_trace *trace_find(const struct restore *r, uint64_t job, uint32_t run)
{
    size_t lo = 0, hi = r->n_traces;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct run_key *k = &r->traces[mid].key;
        if (k->job < job || (k->job == job && k->run < run))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < r->n_traces && r->traces[lo].key.job == job && r->traces[lo].key.run == run
               ? &r->traces[lo]
               : NULL;
}

static bool has_gone_on(const struct restore *r, uint64_t job)
{
    size_t lo = 0, hi = r->db.n_went_on;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (r->db.went_on[mid] < job)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < r->db.n_went_on && r->db.went_on[lo] == job;
}

static enum restore_run judge_run(void *arg, uint64_t job, uint32_t run)
{
    struct restore *r = arg;
    const struct run_trace *t = trace_find(r, job, run);

    if ((t && t->pid) || has_gone_on(r, job))
        return RESTORE_RUN_KEEP;
    return store_copy_has_job(r->restored, job) ? RESTORE_RUN : RESTORE_RUN_UNKNOWN;
}

static void restore_warn(void *ctx, const char *sentence)
{
    struct restore *r = ctx;

    if (r->warnings.n < WARNINGS)
        vec_push(&r->warnings, xstrdup(sentence));
}

static void restore_progress(void *ctx, int64_t bytes, int64_t entries)
{
    const struct restore *r = ctx;

    if (r->conf->watch && r->conf->watch->progress)
        r->conf->watch->progress(r->conf->watch->ctx, bytes, entries);
}

/* ---- the steps ---- */

/* A place for the new database: on the file system of the home, so that it can be renamed; for a
 * dry run anywhere, because nothing in the home may change. */
static int restore_work_dir(struct restore *r, struct err *e)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = r->conf->dry_run ? xasprintf("%s/berth-restore-XXXXXX", tmp && *tmp ? tmp : "/tmp")
                                 : xasprintf("%s/.restore-XXXXXX", r->conf->home);

    if (!mkdtemp(dir)) {
        err_sys(e, "cannot create %s", dir);
        free(dir);
        return -1;
    }
    r->work = dir;
    r->copy = path_join(dir, BACKUP_DATABASE);
    return 0;
}

static int restore_database(struct restore *r, struct err *e)
{
    AUTO_FREE char *from =
        r->database_only ? xstrdup(r->backup) : path_join(r->backup, BACKUP_DATABASE);
    VEC(struct restore_trace) newest = {0};
    struct stat st;

    if (backup_copy_file(from, r->copy, e) < 0)
        return err_wrap(e, "copying %s", from);
    chmod(r->copy, 0600);
    for (size_t i = 0; i < r->n_traces; i++) /* ordered: the last of a job is its newest run */
        if (i + 1 == r->n_traces || r->traces[i + 1].key.job != r->traces[i].key.job)
            vec_push(&newest, ((struct restore_trace){r->traces[i].key, r->traces[i].journal}));
    struct store_restore_conf conf = {.copy = r->copy,
                                      .present = stat(r->present, &st) == 0 ? r->present : NULL,
                                      .used_job = highest_job(r),
                                      .traces = newest.p,
                                      .n_traces = newest.n,
                                      .wall_ms = clock_wall(&clock_system)};
    int rc = store_restore(&conf, &r->db, e);
    vec_done(&newest);
    return rc < 0 ? -1 : store_copy_open(&r->restored, r->copy, e);
}

static int sync_file(const char *path, struct err *e)
{
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd < 0 || fsync(fd) < 0 ? err_sys(e, "cannot sync %s", path) : 0;
}

static int exchange_database(struct restore *r, struct err *e)
{
    static const char *const names[] = {"berth.db-wal", "berth.db-shm", "berth.db"};
    const char *home = r->conf->home;
    AUTO_FD dir = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    store_copy_close(r->restored);
    r->restored = NULL;
    if (sync_file(r->copy, e) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (restore_set_aside(dir, names[i], r->aside, names[i], &r->files.set_aside, e) < 0)
            return -1;
    if (rename(r->copy, r->present) < 0)
        return err_sys(e, "cannot rename %s to %s", r->copy, r->present);
    return sync_file(home, e);
}

/* ---- the report ---- */

static void put_runs(struct buf *b, const struct restore *r)
{
    int64_t listed = 0;

    jw_array(b, "running");
    for (size_t i = 0; i < r->n_traces && listed < LISTED; i++) {
        const struct run_trace *t = &r->traces[i];
        if (!t->pid)
            continue;
        listed++;
        jw_object(b, NULL);
        jw_int(b, "job", (int64_t)t->key.job);
        jw_int(b, "run", t->key.run);
        jw_int(b, "supervisor", t->pid);
        jw_bool(b, "known", has_gone_on(r, t->key.job));
        jw_end_object(b);
    }
    jw_end_array(b);
}

static void put_newer(struct buf *b, const struct restore *r)
{
    jw_int(b, "newer_jobs", (int64_t)r->db.n_newer);
    jw_array(b, "newer");
    for (size_t i = 0; i < r->db.n_newer && i < LISTED; i++) {
        jw_object(b, NULL);
        jw_int(b, "job", (int64_t)r->db.newer[i].job);
        jw_text(b, "state", job_state_name(r->db.newer[i].state));
        jw_end_object(b);
    }
    jw_end_array(b);
}

static void put_report(struct buf *b, const struct restore *r)
{
    const struct restore_tally *f = &r->files;

    jw_object(b, NULL);
    jw_text(b, "backup", r->backup);
    jw_text(b, "home", r->conf->home);
    jw_bool(b, "dry_run", r->conf->dry_run);
    jw_str_or_null(b, "set_aside_in", f->set_aside ? str_of(r->aside) : STR(""));
    jw_int(b, "jobs", r->db.jobs);
    jw_int(b, "next_job", (int64_t)r->db.next_job);
    jw_int(b, "returned_jobs", r->db.returned);
    jw_int(b, "continued_jobs", (int64_t)r->db.n_went_on);
    put_newer(b, r);
    put_runs(b, r);
    jw_int(b, "restored", f->restored);
    jw_int(b, "restored_bytes", f->restored_bytes);
    jw_int(b, "unchanged", f->unchanged);
    jw_int(b, "kept", f->kept);
    jw_int(b, "set_aside", f->set_aside);
    jw_int(b, "missing", f->missing);
    jw_int(b, "altered", f->altered);
    jw_bool(b, "secret_changed", f->secret_changed);
    jw_str_or_null(b, "present_database", str_of(r->db.trouble));
    jw_array(b, "warnings");
    for (size_t i = 0; i < r->warnings.n; i++)
        jw_text(b, NULL, r->warnings.p[i]);
    jw_end_array(b);
    jw_end_object(b);
}

static int restore_steps(struct restore *r, struct err *e)
{
    const struct host_restore_conf *conf = r->conf;
    struct archive_watch watch = {.progress = restore_progress, .warn = restore_warn, .ctx = r};
    struct restore_conf files = {
        .home = conf->home, .dry_run = conf->dry_run, .run = judge_run, .arg = r, .watch = &watch};

    struct stat st;

    r->database_only = stat(conf->backup, &st) == 0 && S_ISREG(st.st_mode);
    if (r->database_only)
        r->backup = xstrdup(conf->backup);
    else if (backup_find(conf->backup, &r->backup, e) < 0)
        return -1;
    if (restore_work_dir(r, e) < 0 || run_traces(conf->home, &r->traces, &r->n_traces, e) < 0 ||
        restore_database(r, e) < 0)
        return -1;
    files.backup = r->backup;
    files.aside = r->aside;
    if (!r->database_only && restore_files(&files, &r->files, e) < 0)
        return -1;
    return conf->dry_run ? 0 : exchange_database(r, e);
}

/* A name that no earlier restore has used, also none within this second. */
static char *restore_aside_name(const char *home)
{
    char when[TIME_TEXT_MAX];

    time_format_utc(clock_wall(&clock_system), when);
    for (char *p = when; *p; p++)
        if (*p == ':')
            *p = '-';
    char *path = xasprintf("%s/" RESTORE_ASIDE "%.19sZ", home, when);
    for (int n = 2; access(path, F_OK) == 0; n++) {
        free(path);
        path = xasprintf("%s/" RESTORE_ASIDE "%.19sZ-%d", home, when, n);
    }
    return path;
}

int host_restore(const struct host_restore_conf *conf, struct buf *report, struct err *e)
{
    struct restore r = {.conf = conf, .present = path_join(conf->home, BACKUP_DATABASE)};

    r.aside = restore_aside_name(conf->home);
    int rc = restore_steps(&r, e);
    if (rc == 0)
        put_report(report, &r);
    restore_done(&r);
    return rc;
}

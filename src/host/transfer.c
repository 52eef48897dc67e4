/* transfer.c - the steps of an export and of an import
 *
 * Both work in a directory of the home that is removed afterwards: an export gathers links to files
 * there, an import unpacks there and renames what belongs to new jobs.
 */
#include "host/transfer.h"
#include "archive/transfer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json_out.h"
#include "base/map.h"
#include "base/util.h"
#include "core/core.h"
#include "store/transfer.h"
#include <fcntl.h>

enum { LINES_FLUSH = 1 << 20 };
static const size_t LINES_MAX = (size_t)4 << 30;

/* ---- export ---- */

struct exporter {
    struct map_u64 ids; /* number → id */
    struct buf lines;
    int fd;
};

static int export_flush(struct exporter *x, struct err *e)
{
    int rc = fd_write_all(x->fd, x->lines.p ? x->lines.p : "", x->lines.n, e);

    buf_reset(&x->lines);
    return rc;
}

static int export_line(void *arg, struct str line, struct err *e)
{
    struct exporter *x = arg;

    buf_add(&x->lines, line.p, line.n);
    buf_addc(&x->lines, '\n');
    return x->lines.n < LINES_FLUSH ? 0 : export_flush(x, e);
}

static void export_job(void *arg, uint64_t job, const char *id)
{
    struct exporter *x = arg;

    map_u64_put(&x->ids, job, xstrdup(id));
}

/* Files of a forgotten job that had this number have another tag. */
static const char *export_id(void *arg, uint64_t job, const char *name)
{
    const char *id = map_u64_get(&((struct exporter *)arg)->ids, job);
    struct run_key key = {0};
    struct id parsed;

    run_key_parse(str_of(name), &key);
    return id && id_parse(str_of(id), &parsed) && (!key.tag || key.tag == run_tag(parsed)) ? id
                                                                                           : NULL;
}

static int export_steps(struct exporter *x, const char *home, const char *stage,
                        const char *const *projects, size_t n, const char *file,
                        const struct archive_watch *w, struct export_tally *tally, struct err *e)
{
    AUTO_FREE char *db = path_join(home, "berth.db"), *lines = path_join(stage, TRANSFER_LINES);
    AUTO_FD fd = open(lines, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_sys(e, "cannot create %s", lines);
    x->fd = fd;
    if (store_export(db, projects, n, export_line, export_job, x, tally, e) < 0 ||
        export_flush(x, e) < 0 || transfer_gather(home, stage, export_id, x, w, e) < 0)
        return -1;
    return transfer_pack(stage, file, w, e);
}

int host_export(const char *home, const char *const *projects, size_t n, const char *file,
                const struct archive_watch *w, struct buf *report, struct err *e)
{
    AUTO_FREE char *stage = xasprintf("%s/.export-XXXXXX", home);
    struct exporter x = {0};
    struct export_tally tally;
    struct err ignored;

    if (!mkdtemp(stage))
        return err_sys(e, "cannot create %s", stage);
    int rc = export_steps(&x, home, stage, projects, n, file, w, &tally, e);
    dir_remove_tree(stage, &ignored);
    map_u64_clear(&x.ids, free);
    buf_done(&x.lines);
    if (rc < 0)
        return -1;
    jw_object(report, NULL);
    jw_text(report, "file", file);
    jw_int(report, "jobs", tally.jobs);
    jw_int(report, "unfinished", tally.unfinished);
    jw_end_object(report);
    return 0;
}

/* ---- import ---- */

struct importer {
    const char *home, *from;
    struct run_key key; /* of the job whose files are being placed */
};

static char *import_path(void *arg, uint32_t run, const char *suffix)
{
    struct importer *x = arg;

    x->key.run = run;
    return run_file_path(x->home, x->key, suffix);
}

static int import_files(void *arg, const char *id, uint64_t number, struct err *e)
{
    struct importer *x = arg;
    struct id parsed;

    if (!id_parse(str_of(id), &parsed))
        return err_set(e, ERR_INVALID, "%.40s is no id of a job", id);
    /* Its number is new, so its runs have a tag. */
    x->key = (struct run_key){.job = number, .tag = run_tag(parsed)};
    return transfer_place(x->from, id, import_path, x, e);
}

static int import_steps(const char *home, const char *stage, const char *file, const char *project,
                        struct import_tally *tally, struct err *e)
{
    AUTO_FREE char *db = path_join(home, "berth.db"), *from = path_join(stage, "unpacked"),
                   *lines = path_join(from, TRANSFER_LINES), *text = NULL;
    struct importer x = {.home = home, .from = from};
    struct import_conf conf = {.path = db,
                               .project = project,
                               .uid = geteuid(),
                               .gid = getegid(),
                               .wall_ms = clock_wall(&clock_system),
                               .job = import_files,
                               .arg = &x};
    size_t n;

    if (transfer_unpack(file, from, e) < 0)
        return -1;
    if (file_read_all(lines, LINES_MAX, &text, &n, e) < 0)
        return err_set(e, ERR_INVALID,
                       "%s has no " TRANSFER_LINES "; it is no file of berth export", file);
    return store_import(&conf, (struct str){text, n}, file, tally, e);
}

int host_import(const char *home, const char *file, const char *project, struct buf *report,
                struct err *e)
{
    AUTO_FREE char *stage = xasprintf("%s/.import-XXXXXX", home);
    struct import_tally tally;
    struct err ignored;

    if (!mkdtemp(stage))
        return err_sys(e, "cannot create %s", stage);
    int rc = import_steps(home, stage, file, project, &tally, e);
    dir_remove_tree(stage, &ignored);
    if (rc < 0)
        return -1;
    jw_object(report, NULL);
    jw_text(report, "file", file);
    jw_int(report, "jobs", tally.jobs);
    jw_int(report, "present", tally.present);
    jw_int_or_null(report, "first", (int64_t)tally.first, tally.first > 0);
    jw_end_object(report);
    return 0;
}

/* cmd_backup.c - berth backup: a consistent copy of a home, or of its database alone
 *
 * The daemon makes the copy.  Without one the command makes it itself, and holds the lock of the
 * home meanwhile, so that no daemon starts in between.  On a terminal both say how far they are;
 * the daemon is asked for that over a second connection.
 */
#include "api/backup.h"
#include "archive/backup.h"
#include "archive/progress.h"
#include "base/file.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"
#include "host/home.h"
#include "host/part.h"
#include "io/http_client.h"
#include "io/http_response.h"
#include "store/store.h"
#include <pthread.h>
#include <time.h>

struct backup_opts {
    bool copy, database_only;
};
static const struct opt backup_options[] = {
    {"copy", 0, OPT_FLAG, NULL, offsetof(struct backup_opts, copy),
     "make no hard links to files of the home: the backup shares nothing with it", 0, NULL},
    {"database-only", 0, OPT_FLAG, NULL, offsetof(struct backup_opts, database_only),
     "copy the database to the new file FILE, without outputs; the default when FILE ends in .db",
     0, NULL},
};
static const struct opt_group backup_group = OPT_GROUP("Options", backup_options);

static int backup_directly(struct cli *c, const char *dir, bool copy, struct json **out,
                           struct err *e)
{
    AUTO_FREE char *db = path_join(c->home, "berth.db");
    struct archive_progress bar;
    struct archive_watch watch = {.progress = archive_progress_show, .ctx = &bar};
    AUTO(buf) struct buf text = {0};
    struct backup_places beside;
    struct store *s = NULL;
    AUTO_FD lock = -1;

    if (access(db, F_OK) < 0)
        return err_set(e, ERR_NOT_FOUND, "%s has no jobs to back up; set BERTH_HOME or --home",
                       c->home);
    if (home_lock(c->home, &lock, e) < 0 || store_open(&s, db, NULL, NULL, e) < 0)
        return -1;
    archive_progress_begin(&bar, "Backup", c->err.is_tty);
    host_beside(c->program->parts, c->home, &beside);
    int rc = home_backup(&(struct home_backup_conf){.store = s,
                                                    .home = c->home,
                                                    .dir = dir,
                                                    .copy = copy,
                                                    .beside = &beside,
                                                    .watch = &watch},
                         &text, e);
    backup_places_done(&beside);
    archive_progress_wipe(&bar);
    store_close(s);
    return rc < 0 ? -1 : json_parse(buf_str(&text), "backup", out, e);
}

/* ---- how far the daemon is ---- */

enum { ASK_MS = 300 };
struct backup_asker {
    struct http_client *http; /* its own; NULL = nobody asks */
    struct archive_progress bar;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool over; /* under lock */
};

/* False: the daemon cannot be asked, or is too old to know. */
static bool ask_once(struct backup_asker *a)
{
    struct http_response r = {0};
    AUTO(json) struct json *j = NULL;
    struct err e = {0};
    bool ok = http_call(a->http, "GET", "/v1/backup", NULL, STR(""), &r, &e) == 0 &&
              r.status == 200 && json_parse(buf_str(&r.body), "the answer", &j, &e) == 0;

    if (ok && json_bool(json_get(j, "running")))
        archive_progress_show(&a->bar, json_int(json_get(j, "bytes")),
                              json_int(json_get(j, "files")));
    http_response_done(&r);
    return ok;
}

static void *asker_main(void *arg)
{
    struct backup_asker *a = arg;
    struct timespec until;

    pthread_mutex_lock(&a->lock);
    while (!a->over) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += ASK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&a->wake, &a->lock, &until);
        if (a->over)
            break;
        pthread_mutex_unlock(&a->lock);
        ask_once(a);
        pthread_mutex_lock(&a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* The first question is put here, before there are two threads: it loads what connections need. */
static void asker_begin(struct backup_asker *a, struct cli *c)
{
    *a = (struct backup_asker){.http = c->err.is_tty ? cli_connect_again(c) : NULL};
    if (!a->http)
        return;
    archive_progress_begin(&a->bar, "Backup", true);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->wake, NULL);
    if (ask_once(a) && pthread_create(&a->thread, NULL, asker_main, a) == 0) {
        c->no_reminder = true; /* the bar says it */
        return;
    }
    http_client_free(a->http);
    a->http = NULL;
}

static void asker_end(struct backup_asker *a)
{
    if (!a->http)
        return;
    pthread_mutex_lock(&a->lock);
    a->over = true;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    archive_progress_wipe(&a->bar);
    http_client_free(a->http);
}

static int backup_by_daemon(struct cli *c, const struct json *body, struct json **out,
                            struct err *e)
{
    struct backup_asker asker;

    asker_begin(&asker, c);
    int rc = cli_post(c, "/v1/backup", body, out, e);
    asker_end(&asker);
    return rc;
}

static void print_backup(struct cli *c, const struct json *j)
{
    char bytes[UNIT_TEXT_MAX], copied[UNIT_TEXT_MAX];
    const struct json *warnings = json_get(j, "warnings");

    if (cli_json(c)) {
        cli_print_json(j);
        return;
    }
    size_format(int_of(j, "bytes"), bytes);
    size_format(int_of(j, "copied_bytes"), copied);
    for (size_t i = 0; i < json_len(warnings); i++)
        cli_say("%s", json_str(json_at(warnings, i)).p);
    printf("%s: %lld files, %s (%lld unchanged, %lld linked, %lld cloned, %lld copied: %s)\n",
           json_get_str(j, "path").p, (long long)int_of(j, "files"), bytes,
           (long long)int_of(j, "unchanged"), (long long)int_of(j, "linked"),
           (long long)int_of(j, "cloned"), (long long)int_of(j, "copied"), copied);
}

static int backup(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct backup_opts *o = opts;
    AUTO(json) struct json *body = json_new_object(), *said = NULL;
    struct err e = {0};
    size_t n = strlen(ops->p[0]);
    bool file = o->database_only || (n > 3 && !strcmp(ops->p[0] + n - 3, ".db"));

    /* The daemon writes the file, and its working directory is not that of the user. */
    AUTO_FREE char *path = path_from_here(ops->p[0]);
    if (file && o->copy)
        return cli_refuse("--copy is about outputs; leave out --database-only");
    json_set_str(body, file ? "path" : "directory", path);
    if (o->copy)
        json_set_bool(body, "copy", true);
    if (cli_open(c, &e) < 0)
        return cli_fail(&e);
    bool direct = !file && c->is_unix && !daemon_answers(c->target);
    if ((direct ? backup_directly(c, path, o->copy, &said, &e)
                : backup_by_daemon(c, body, &said, &e)) < 0)
        return cli_fail(&e);
    if (!file)
        print_backup(c, said);
    else if (c->err.is_tty)
        cli_say("wrote %s", path);
    return 0;
}
const struct command cmd_backup = {
    BERTH_COMMAND(SECTION_DAEMON, "backup", "[OPTION…] DIR\n[OPTION…] --database-only FILE", backup,
                  "copy a home with its outputs while jobs run"),
    .description =
        "Makes a new directory in DIR, named by the time, with a consistent copy of the home: "
        "database, outputs, run directories, snapshots, secrets. Files that have not changed since "
        "the last backup in DIR are hard links to that one. On the file system of the home, "
        "contents of snapshots and the logs and artifacts of ended runs are hard links to the "
        "files of the home. Remove an old backup with rm -r; the others stay complete. berth "
        "restore brings a backup back.",
    OPTIONS(struct backup_opts, &backup_group, &output_group, &common_group),
    .examples = EXAMPLES({"berth backup /backup/berth", "a copy while jobs run"},
                         {"berth backup berth-$(date +%F).db", "the database alone"}),
    OPERANDS("directory", 1, 1, COMPLETE_FILE),
};

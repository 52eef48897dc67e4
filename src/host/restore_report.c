/* restore_report.c - the report of a restore in words, and the lock that a restore needs */
#include "base/clock.h"
#include "base/json.h"
#include "base/util.h"
#include "host/home.h"
#include "host/restore.h"
#include "io/http_client.h"
#include <poll.h>

enum { STOP_MS = 60 * 1000, STOP_LOOK_MS = 50, NUMBERS_SHOWN = 10 };

/* The lock is looked for until it is free: a daemon commits what it has before it leaves. */
int host_restore_lock(const char *home, bool stop, int *out_fd, struct err *e)
{
    int64_t end = clock_mono(&clock_system) + STOP_MS;
    AUTO_FREE char *target = xasprintf("unix:%s/sock", home);

    if (home_prepare(home, false, e) < 0)
        return -1;
    if (home_lock(home, out_fd, e) == 0 || e->code != ERR_CONFLICT)
        return *out_fd >= 0 ? 0 : -1;
    if (!stop)
        return err_set(e, ERR_CONFLICT,
                       "a daemon serves %s; end it with berth stop, or give --stop (running jobs "
                       "continue), or look with --dry-run",
                       home);
    struct http_client *http = http_client_new(target, NULL, NULL);
    struct http_response r = {0};
    int rc = http_call(http, "POST", "/v1/shutdown", NULL, STR(""), &r, e);
    if (rc == 0 && r.status >= 400)
        rc = http_response_err(&r, e);
    http_response_done(&r);
    http_client_free(http);
    while (rc == 0 && home_lock(home, out_fd, e) < 0) {
        if (e->code != ERR_CONFLICT || clock_mono(&clock_system) > end)
            return err_wrap(e, "the daemon does not end");
        poll(NULL, 0, STOP_LOOK_MS);
    }
    return rc;
}

static long long num(const struct json *j, const char *key)
{
    return json_int(json_get(j, key));
}

/* "7, 8, 9 and 12 more" */
static void add_numbers(struct buf *b, const struct json *list, int64_t total, const char *only,
                        bool want)
{
    int64_t n = 0;

    for (size_t i = 0; i < json_len(list); i++) {
        const struct json *x = json_at(list, i);
        if (only && json_bool(json_get(x, only)) != want)
            continue;
        if (++n <= NUMBERS_SHOWN)
            buf_addf(b, "%s%lld", n > 1 ? ", " : "", num(x, "job"));
        if (n <= NUMBERS_SHOWN && only && !want)
            buf_addf(b, " (process %lld)", num(x, "supervisor"));
    }
    total = total < 0 ? n : total;
    if (total > NUMBERS_SHOWN)
        buf_addf(b, " and %lld more", (long long)(total - NUMBERS_SHOWN));
}

static void line_of_runs(struct buf *b, const struct json *runs, bool known, const char *text)
{
    bool any = false;

    for (size_t i = 0; i < json_len(runs); i++)
        any = any || json_bool(json_get(json_at(runs, i), "known")) == known;
    if (!any)
        return;
    buf_addf(b, "%s: ", text);
    add_numbers(b, runs, -1, "known", known);
    buf_addc(b, '\n');
}

void restore_report_text(struct buf *b, const struct json *j)
{
    const struct json *runs = json_get(j, "running"), *warnings = json_get(j, "warnings");
    bool dry = json_bool(json_get(j, "dry_run"));

    buf_addf(b, "%s %s from %s: %lld job%s, the next number is %lld\n",
             dry ? "would restore" : "restored", json_get_str(j, "home").p,
             json_get_str(j, "backup").p, num(j, "jobs"), num(j, "jobs") == 1 ? "" : "s",
             num(j, "next_job"));
    buf_addf(b, "files: %lld restored, %lld unchanged, %lld of jobs that have gone on kept\n",
             num(j, "restored"), num(j, "unchanged"), num(j, "kept"));
    if (num(j, "set_aside"))
        buf_addf(b, "set aside: the database before and what was replaced in %s\n",
                 json_get_str(j, "set_aside_in").p);
    if (num(j, "newer_jobs")) {
        buf_addf(b, "newer than the backup, in the database set aside: ");
        add_numbers(b, json_get(j, "newer"), num(j, "newer_jobs"), NULL, false);
        buf_addc(b, '\n');
    }
    if (num(j, "returned_jobs"))
        buf_addf(b,
                 "removed since the backup, and back now: %lld job%s; those that waited are held\n",
                 num(j, "returned_jobs"), num(j, "returned_jobs") == 1 ? "" : "s");
    line_of_runs(b, runs, true,
                 "still running, and known to the backup: the next daemon continues");
    line_of_runs(b, runs, false,
                 "still running, and not known to the backup: they end by themselves");
    if (num(j, "missing") || num(j, "altered"))
        buf_addf(b, "the backup itself: missing files: %lld, files that were written to: %lld\n",
                 num(j, "missing"), num(j, "altered"));
    if (json_bool(json_get(j, "secret_changed")))
        buf_adds(b, "the home had another secret: jobs that run now cannot report any more\n");
    if (json_get(j, "present_database"))
        buf_addf(b, "the database before could not be used: %s\n",
                 json_get_str(j, "present_database").p);
    for (size_t i = 0; i < json_len(warnings); i++)
        buf_addf(b, "%s\n", json_str(json_at(warnings, i)).p);
}

/* notify.c - Atlas's messages to Slack: its channels and words, sent by the hooks of Berth
 *
 * The channel comes with the job (`job_notification_channel` of the submission config it was sent
 * with), or is that of the server's own config/submission/scheduler.config.yaml.  It becomes a key
 * `notify` of the job.
 */
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "base/util.h"
#include "dialect/atlas/atlas_priv.h"
#include "dialect/atlas/config.h"
#include "host/hook_send.h"
#include <stdlib.h>

enum { ATLAS_REASON_MAX = 500 };

/* The token goes into a header line, so it may hold printable ASCII only. */
static bool token_ok(const char *token)
{
    for (const char *p = token; *p; p++)
        if (*p <= ' ' || *p > '~')
            return false;
    return true;
}

void atlas_notify_open(struct atlas *a)
{
    const char *token = getenv("FOUNDATIONS_SLACK_TOKEN");

    if (!token || !*token)
        return;
    a->notifies = token_ok(token);
    if (a->notifies)
        hook_slack_default(a->conf.env->hooks, token, getenv("FOUNDATIONS_SLACK_URL"));
    else
        log_warn(
            "atlas",
            "FOUNDATIONS_SLACK_TOKEN is not a token: it contains spaces or control characters");
}

/* Borrowed; empty = none. */
static struct str channel_in(const struct json *j)
{
    const struct json *v = json_get(j, "job_notification_channel");

    return json_type(v) == JSON_STR ? json_str(v) : STR("");
}

/* The server's configuration is read for every job, so that a change of the file needs no restart.
 */
void atlas_notify_add(const struct atlas *a, const struct json *metadata, struct json *form)
{
    AUTO_FREE char *path = path_join(a->conf.home, ATLAS_DIR_SUBMISSION "/scheduler.config.yaml");
    AUTO(json) struct json *conf = NULL;
    struct str channel = channel_in(metadata), target;
    enum hook_kind kind;
    struct err e = {0};

    if (!a->notifies)
        return;
    if (!channel.n && atlas_config_read(path, ATLAS_CONFIG_SUBMISSION, NULL, NULL, &conf, &e) == 0)
        channel = channel_in(conf);
    if (!channel.n)
        return;
    AUTO_FREE char *action = xasprintf("slack:%.*s", STR_ARG(channel));
    AUTO_FREE char *entry = xasprintf("queued,start,success,failure,cancel=%s", action);
    if (hook_action_parse(str_of(action), &kind, &target, &e) < 0)
        log_warn("atlas", "job_notification_channel: %s", e.text);
    else
        json_set_str(form, "notify", entry);
}

/* ---- words ---- */

/* The project and the user come from clients and are escaped; the id is a UUID. */
static void notice_write(const struct atlas_job *j, enum hook_event ev, struct buf *b)
{
    static const char *const ends[HOOK_EVENTS] = {[HOOK_QUEUED] = "is queued",
                                                  [HOOK_START] = "is running",
                                                  [HOOK_SUCCESS] = "has completed",
                                                  [HOOK_FAILURE] = "has failed",
                                                  [HOOK_CANCEL] = "has failed"};
    bool failed = ev == HOOK_FAILURE || ev == HOOK_CANCEL;
    char took[UNIT_TEXT_MAX];

    buf_addf(b, "Job `%s` of project `", j->id);
    hook_slack_escape(b, str_of(j->project));
    buf_adds(b, "`, submitted by ");
    hook_slack_escape(b, str_of(j->user));
    buf_addf(b, ", %s", ends[ev]);
    if ((failed || ev == HOOK_SUCCESS) && j->started_ms && j->ended_ms >= j->started_ms) {
        duration_format(j->ended_ms - j->started_ms, took);
        buf_addf(b, " after %s", took);
    }
    if (failed && j->reason[0]) {
        buf_adds(b, ": ");
        hook_slack_escape(
            b, (struct str){j->reason, MIN(strlen(j->reason), (size_t)ATLAS_REASON_MAX)});
    }
}

/* `ours` says whether the job is one of Atlas: its queue is the one of Atlas. */
struct notice_job {
    struct atlas_job *job;
    bool ours;
};

static bool notice_on_job(void *arg, const struct job_view *v)
{
    struct notice_job *f = arg;

    f->ours = str_eq_c(v->queue, ATLAS_QUEUE);
    atlas_job_fill(v, f->job);
    return false;
}

/* A job that was taken out of the queue is not told. */
enum part_notice atlas_notice(void *self, uint64_t job, enum hook_event ev, struct buf *out)
{
    struct atlas *a = self;
    struct atlas_note note = {0};
    const struct call c = {.self = a, .extra = &note};
    struct atlas_job j = {0};
    struct notice_job f = {&j, false};
    struct err e = {0};

    bool ours = store_job(a->conf.store, job, notice_on_job, &f, &e) == 0 && f.ours &&
                atlas_job_extra(&c, &j, &e) == 0;
    bool silent = ours && ev == HOOK_CANCEL && !j.started_ms;
    if (ours && !silent)
        notice_write(&j, ev, out);
    atlas_job_done(&j);
    return silent ? PART_NOTICE_SILENT : ours ? PART_NOTICE_TOLD : PART_NOTICE_NOT_MINE;
}

/* notify_text.c - what is said of a job, and where
 *
 * The channel comes with the job (`job_notification_channel` of the submission config it was sent
 * with), or is that of the server's own config/submission/scheduler.config.yaml.
 */
#include "base/file.h"
#include "base/units.h"
#include "base/util.h"
#include "dialect/atlas/config.h"
#include "dialect/atlas/notify_priv.h"

enum { TEXT_MAX = 4000 };

void notice_done(struct notice *n)
{
    free(n->channel);
    free(n->text);
    *n = (struct notice){0};
}

/* Atlas has four messages; events of other kinds are NOTICE_NONE. */
enum notice_kind notice_kind_of(struct str event)
{
    static const struct {
        const char *event;
        enum notice_kind kind;
    } kinds[] = {
        {"job.queued", NOTICE_QUEUED},       {"job.running", NOTICE_RUNNING},
        {"job.succeeded", NOTICE_COMPLETED}, {"job.failed", NOTICE_FAILED},
        {"job.lost", NOTICE_FAILED},         {"job.cancelled", NOTICE_FAILED},
    };

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (str_eq_c(event, kinds[i].event))
            return kinds[i].kind;
    return NOTICE_NONE;
}

/* Slack reads & < > as markup; a backquote would end the code around a name. */
void notice_escape(struct buf *b, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == '&')
            buf_adds(b, "&amp;");
        else if (c == '<')
            buf_adds(b, "&lt;");
        else if (c == '>')
            buf_adds(b, "&gt;");
        else
            buf_addc(b, c < ' ' || c == '`' ? ' ' : (char)c);
    }
}

/* Yours; NULL = none. */
static char *channel_in(const struct json *j)
{
    const struct json *v = json_get(j, "job_notification_channel");

    return json_type(v) == JSON_STR && json_str(v).n ? xstrndup(json_str(v).p, json_str(v).n)
                                                     : NULL;
}

/* Read for every message, so that a change of the file needs no restart. */
static char *server_channel(const struct atlas *a)
{
    AUTO_FREE char *path = path_join(a->conf.home, ATLAS_DIR_SUBMISSION "/scheduler.config.yaml");
    AUTO(json) struct json *conf = NULL;
    struct err e = {0};

    if (atlas_config_read(path, ATLAS_CONFIG_SUBMISSION, NULL, NULL, &conf, &e) < 0)
        return NULL;
    return channel_in(conf);
}

/* The project and the user come from clients and are escaped; the id is a UUID. */
static void notice_write_text(const struct atlas_job *j, enum notice_kind kind, struct buf *b)
{
    static const char *const ends[] = {[NOTICE_QUEUED] = "is queued",
                                       [NOTICE_RUNNING] = "is running",
                                       [NOTICE_COMPLETED] = "has completed",
                                       [NOTICE_FAILED] = "has failed"};
    char took[UNIT_TEXT_MAX];

    buf_addf(b, "Job `%s` of project `", j->id);
    notice_escape(b, str_of(j->project));
    buf_adds(b, "`, submitted by ");
    notice_escape(b, str_of(j->user));
    buf_addf(b, ", %s", ends[kind]);
    if (kind >= NOTICE_COMPLETED && j->started_ms && j->ended_ms >= j->started_ms) {
        duration_format(j->ended_ms - j->started_ms, took);
        buf_addf(b, " after %s", took);
    }
    if (kind == NOTICE_FAILED && j->reason[0]) {
        buf_adds(b, ": ");
        notice_escape(b, (struct str){j->reason, MIN(strlen(j->reason), (size_t)500)});
    }
}

struct finding {
    const struct call *c;
    struct atlas_job *job;
    bool ours;
};

static bool notice_on_job(void *arg, const struct job_view *v)
{
    struct finding *f = arg;

    f->ours = str_eq_c(v->queue, ATLAS_QUEUE);
    atlas_job_fill(v, f->job);
    return false;
}

/* False: the job is not one of Atlas, has no channel, or there is nothing to say. */
bool notice_make(const struct atlas *a, uint64_t job, enum notice_kind kind, struct notice *out)
{
    struct atlas_note note = {0};
    const struct call c = {.self = (struct atlas *)a, .extra = &note};
    struct atlas_job j = {0};
    struct finding f = {&c, &j, false};
    struct err e = {0};
    AUTO(buf) struct buf text = {0};

    bool say = store_job(a->conf.store, job, notice_on_job, &f, &e) == 0 && f.ours &&
               atlas_job_extra(&c, &j, &e) == 0;
    if (kind == NOTICE_FAILED && !j.started_ms && j.real == JOB_CANCELLED)
        say = false; /* taken out of the queue */
    if (say) {
        char *channel = channel_in(json_get(j.extra, "metadata"));
        out->channel = channel ? channel : server_channel(a);
    }
    if (say && out->channel) {
        buf_init(&text, TEXT_MAX);
        notice_write_text(&j, kind, &text);
        out->text = buf_take(&text, NULL);
    }
    atlas_job_done(&j);
    return say && out->channel;
}

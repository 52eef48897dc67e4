/* hook_letter.c - the words of a message: for people, for Slack, for programs, for commands
 *
 * All texts of jobs come from users.  Slack gets them escaped; the title and the headers of a mail
 * are one line, whatever a name contains.
 */
#include "host/hook_letter.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json_out.h"
#include "base/units.h"
#include "base/util.h"
#include "store/query.h"
#include "store/study_view.h"
#include <stdio.h>

/* REASON_MAX limits every text of a user, so that the title of a job stays below TITLE_MAX. */
enum { TITLE_MAX = 4000, REASON_MAX = 500, JSON_MAX = 64 << 10 };

void hook_letter_done(struct hook_letter *l)
{
    buf_done(&l->title);
    buf_done(&l->slack);
    buf_done(&l->json);
    buf_done(&l->env);
}

void hook_slack_escape(struct buf *b, struct str s)
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

void hook_sign(struct str secret, int64_t timestamp, struct str body, char out[HOOK_SIGNATURE_MAX])
{
    AUTO(buf) struct buf text = {0};
    uint8_t mac[32];

    buf_init(&text, JSON_MAX + 64);
    buf_addf(&text, "%lld.", (long long)timestamp);
    buf_add(&text, body.p, body.n);
    hmac_sha256(secret.p, secret.n, text.p, text.n, mac);
    size_t n = (size_t)snprintf(out, HOOK_SIGNATURE_MAX, "sha256=");
    for (size_t i = 0; i < sizeof(mac); i++, n += 2)
        snprintf(out + n, HOOK_SIGNATURE_MAX - n, "%02x", mac[i]);
}

/* ---- title: the same words for both readers ---- */

/* The words are the program's own: they need no escaping. */
static void say(struct hook_letter *l, const char *words)
{
    buf_adds(&l->title, words);
    buf_adds(&l->slack, words);
}

/* A text of a user, on one line. */
static void say_text(struct hook_letter *l, struct str s)
{
    s.n = MIN(s.n, (size_t)REASON_MAX);
    for (size_t i = 0; i < s.n; i++)
        buf_addc(&l->title, (unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f ? ' ' : s.p[i]);
    hook_slack_escape(&l->slack, s);
}

/* A name: as code in Slack. */
static void say_name(struct hook_letter *l, struct str s)
{
    buf_addc(&l->slack, '`');
    say_text(l, s);
    buf_addc(&l->slack, '`');
}

static void say_number(struct hook_letter *l, int64_t n)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", (long long)n);
    say(l, text);
}

static void say_time(struct hook_letter *l, int64_t ms)
{
    char text[UNIT_TEXT_MAX];

    duration_format(ms, text);
    say(l, " after ");
    say(l, text);
}

/* ---- variables ---- */

static void env_text(struct hook_letter *l, const char *key, struct str value)
{
    jw_str(&l->env, key, value);
}

static void env_number(struct hook_letter *l, const char *key, int64_t n)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", (long long)n);
    jw_text(&l->env, key, text);
}

/* ---- jobs ---- */

/* What the callbacks of the store get.  `found` stays false when the job or batch was removed
 * before its message was written. */
struct writing {
    struct hook_letter *l;
    const struct hook_message *m;
    bool found;
};

/* One sentence: which job, whose, what happened, after how long, and why.  The message that a job
 * is queued or running gives no reason; why a job still waits is known to the core alone (m->why).
 */
static void job_title(struct hook_letter *l, const struct job_view *v, const struct hook_message *m)
{
    enum hook_event ev = m->d.event;

    say(l, "Job ");
    buf_addc(&l->slack, '`');
    say_number(l, (int64_t)v->seq);
    buf_addc(&l->slack, '`');
    say(l, " (");
    say_text(l, v->name);
    say(l, ") of project ");
    say_name(l, v->project);
    say(l, ", submitted by ");
    say_text(l, v->user);
    say(l, ", ");
    say(l, hook_event_text(ev));
    if (ev == HOOK_WAITING)
        say_time(l, MAX(m->d.at_ms - v->created_ms, (int64_t)0));
    else if (v->started_ms && v->ended_ms >= v->started_ms)
        say_time(l, v->ended_ms - v->started_ms);
    struct str why = ev == HOOK_WAITING ? str_of(m->why) : v->reason;
    if (why.n && ev != HOOK_QUEUED && ev != HOOK_START) {
        say(l, ": ");
        say_text(l, why);
    }
}

static void job_members(struct buf *b, const struct job_view *v)
{
    jw_object(b, "job");
    jw_int(b, "number", (int64_t)v->seq);
    jw_id(b, "id", v->id);
    jw_str(b, "name", v->name);
    jw_str(b, "project", v->project);
    jw_str(b, "queue", v->queue);
    jw_str(b, "user", v->user);
    jw_text(b, "state", job_state_name(v->state));
    jw_int_or_null(b, "exit_code", v->exit_code, v->exit_code >= 0);
    jw_str_or_null(b, "reason", v->reason);
    jw_int(b, "attempt", v->attempt);
    jw_time(b, "created", v->created_ms);
    jw_time(b, "started", v->started_ms);
    jw_time(b, "ended", v->ended_ms);
    jw_end_object(b);
}

/* Called by store_job.  All forms are filled from one row, so that they never contradict each
 * other.
 */
static bool letter_on_job(void *arg, const struct job_view *v)
{
    struct writing *w = arg;
    char id[ID_TEXT_MAX];

    w->found = true;
    job_title(w->l, v, w->m);
    job_members(&w->l->json, v);
    id_format(v->id, id);
    env_number(w->l, "BERTH_HOOK_JOB", (int64_t)v->seq);
    env_text(w->l, "BERTH_HOOK_JOB_ID", str_of(id));
    env_text(w->l, "BERTH_HOOK_JOB_NAME", v->name);
    env_text(w->l, "BERTH_HOOK_PROJECT", v->project);
    env_text(w->l, "BERTH_HOOK_USER", v->user);
    env_text(w->l, "BERTH_HOOK_STATE", str_of(job_state_name(v->state)));
    env_text(w->l, "BERTH_HOOK_REASON", v->reason);
    if (v->exit_code >= 0)
        env_number(w->l, "BERTH_HOOK_EXIT_CODE", v->exit_code);
    return false;
}

/* ---- batches ---- */

/* The store gives the newest batch whose number is at most that of the subject.  A batch with
 * another number means that the subject was removed. */
static bool letter_on_batch(void *arg, const struct batch_view *v)
{
    struct writing *w = arg;
    struct hook_letter *l = w->l;
    const char *between = ": ";

    if (v->seq != w->m->d.subject)
        return false;
    w->found = true;
    say(l, "Batch ");
    say_number(l, (int64_t)v->seq);
    say(l, " (");
    say_text(l, v->name);
    say(l, ") of project ");
    say_name(l, v->project);
    say(l, " has ended");
    jw_object(&l->json, "batch");
    jw_int(&l->json, "number", (int64_t)v->seq);
    jw_id(&l->json, "id", v->id);
    jw_str(&l->json, "name", v->name);
    jw_str(&l->json, "project", v->project);
    jw_int(&l->json, "count", (int64_t)v->n_jobs);
    for (int i = 0; i < JOB_STATE_MAX; i++) {
        const char *state = job_state_name(job_states[i]);
        jw_int(&l->json, state, (int64_t)v->counts[job_states[i]]);
        if (!v->counts[job_states[i]])
            continue;
        say(l, between);
        say_number(l, (int64_t)v->counts[job_states[i]]);
        say(l, " ");
        say(l, state);
        between = ", ";
    }
    jw_end_object(&l->json);
    env_number(l, "BERTH_HOOK_BATCH", (int64_t)v->seq);
    env_text(l, "BERTH_HOOK_BATCH_NAME", v->name);
    env_text(l, "BERTH_HOOK_PROJECT", v->project);
    return false;
}

/* ---- studies ---- */

static void letter_on_study(void *arg, const struct study_view *v)
{
    static const char *const states[] = {"running", "done", "failed", "pruned", "waiting"};
    struct writing *w = arg;
    struct hook_letter *l = w->l;
    const char *between = ": ";
    char value[40] = "";

    w->found = true;
    say(l, "Study ");
    say_name(l, v->name);
    say(l, " of ");
    say_text(l, v->user);
    say(l, " has ended");
    jw_object(&l->json, "study");
    jw_str(&l->json, "name", v->name);
    jw_str(&l->json, "user", v->user);
    for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
        jw_int(&l->json, states[i], (int64_t)v->sum.counts[i]);
        if (!v->sum.counts[i])
            continue;
        say(l, between);
        say_number(l, (int64_t)v->sum.counts[i]);
        say(l, " ");
        say(l, states[i]);
        between = ", ";
    }
    jw_int_or_null(&l->json, "best", (int64_t)v->sum.best, v->sum.best != 0);
    jw_double(&l->json, "value", v->sum.value);
    jw_str_or_null(&l->json, "metric", v->metric);
    jw_end_object(&l->json);
    if (v->sum.best) {
        snprintf(value, sizeof(value), " %.6g in trial ", v->sum.value);
        say(l, "; best ");
        say_text(l, v->metric);
        say(l, value);
        say_number(l, (int64_t)v->sum.best);
        env_number(l, "BERTH_HOOK_BEST", (int64_t)v->sum.best);
    }
    env_text(l, "BERTH_HOOK_STUDY", v->name);
    env_text(l, "BERTH_HOOK_USER", v->user);
}

/* One message for many events (HOOK_RATE_MAX).  It names the range of the jobs and reads no row. */
static void write_summary(struct hook_letter *l, const struct delivery_record *d)
{
    say_number(l, d->n);
    say(l, " more events");
    if (d->subject) {
        say(l, " of jobs ");
        say_number(l, (int64_t)d->subject);
        say(l, " to ");
        say_number(l, (int64_t)d->last);
    }
    say(l, " came too fast for single messages; ");
    say_number(l, d->bad);
    say(l, " of them are failures");
    jw_object(&l->json, "summary");
    jw_int(&l->json, "events", d->n);
    jw_int(&l->json, "failures", d->bad);
    jw_int(&l->json, "first", (int64_t)d->subject);
    jw_int(&l->json, "last", (int64_t)d->last);
    jw_end_object(&l->json);
    env_number(l, "BERTH_HOOK_EVENTS", d->n);
    env_number(l, "BERTH_HOOK_FAILURES", d->bad);
}

/* ---- all of them ---- */

/* The sentence and the members for the event, by what the event is about.  ERR_NOT_FOUND is no
 * failure: the message is due all the same and names the job by its number. */
static int write_subject(struct writing *w, struct store *s, struct err *e)
{
    const struct delivery_record *d = &w->m->d;
    struct err why = {0};

    if (d->event == HOOK_TEST) {
        say(w->l, "This is a test of the hook ");
        say_name(w->l, d->name);
        w->found = true;
    } else if (d->scope == HOOK_SCOPE_SUMMARY) {
        write_summary(w->l, d);
        w->found = true;
    } else if (d->scope == HOOK_SCOPE_BATCH) {
        if (store_batches(s, false, 0, d->subject + 1, 1, letter_on_batch, w, e) < 0)
            return -1;
    } else if (d->scope == HOOK_SCOPE_STUDY) {
        if (store_study(s, d->subject, letter_on_study, w, &why) < 0 && why.code != ERR_NOT_FOUND) {
            *e = why;
            return -1;
        }
    } else if (store_job(s, d->subject, letter_on_job, w, &why) < 0 && why.code != ERR_NOT_FOUND) {
        *e = why;
        return -1;
    }
    if (!w->found) {
        say(w->l, d->scope == HOOK_SCOPE_BATCH   ? "Batch "
                  : d->scope == HOOK_SCOPE_STUDY ? "Study "
                                                 : "Job ");
        say_number(w->l, (int64_t)d->subject);
        say(w->l, ", which was removed since, ");
        say(w->l, hook_event_text(d->event));
    }
    return 0;
}

int hook_letter_write(struct hook_letter *l, struct store *s, const struct hook_message *m,
                      struct err *e)
{
    struct writing w = {.l = l, .m = m};
    struct str event = str_of(hook_event_name(m->d.event));
    struct str scope = str_of(hook_scope_name(m->d.scope));

    buf_init(&l->title, TITLE_MAX);
    /* Escaping makes up to five bytes of one, and names get backquotes around them. */
    buf_init(&l->slack, 6 * TITLE_MAX);
    buf_init(&l->json, JSON_MAX);
    buf_init(&l->env, JSON_MAX);
    jw_object(&l->json, NULL);
    jw_text(&l->json, "delivery", m->id);
    jw_str(&l->json, "hook", m->d.name);
    jw_str(&l->json, "event", event);
    jw_str(&l->json, "scope", scope);
    jw_time(&l->json, "at", m->d.at_ms);
    env_text(l, "BERTH_HOOK_EVENT", event);
    env_text(l, "BERTH_HOOK_SCOPE", scope);
    env_text(l, "BERTH_HOOK_NAME", m->d.name);
    env_text(l, "BERTH_HOOK_DELIVERY", str_of(m->id));
    if (write_subject(&w, s, e) < 0)
        return -1;
    jw_str(&l->json, "text", buf_str(&l->title));
    jw_end_object(&l->json);
    env_text(l, "BERTH_HOOK_TEXT", buf_str(&l->title));
    return l->json.overflow || l->env.overflow
               ? err_set(e, ERR_LIMIT, "the message is larger than %d bytes", JSON_MAX)
               : 0;
}

/* ---- mail ---- */

/* Headers are ASCII; other characters stand in the body. */
static void mail_header(struct buf *out, const char *name, struct str value)
{
    buf_addf(out, "%s: ", name);
    for (size_t i = 0; i < MIN(value.n, (size_t)300); i++) {
        unsigned char c = (unsigned char)value.p[i];
        buf_addc(out, c < ' ' || c > '~' ? '?' : (char)c);
    }
    buf_addc(out, '\n');
}

/* The Message-ID is that of the message, so that a mail program can recognise a mail that was sent
 * twice.  Auto-Submitted keeps vacation programs from answering. */
void hook_mail_write(struct buf *out, const struct hook_letter *l, struct str to, const char *id)
{
    AUTO_FREE char *message_id = xasprintf("<%s@berth>", id);

    mail_header(out, "To", to);
    mail_header(out, "Subject", buf_str(&l->title));
    mail_header(out, "Message-ID", str_of(message_id));
    mail_header(out, "Auto-Submitted", STR("auto-generated"));
    buf_adds(out, "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
                  "Content-Transfer-Encoding: 8bit\n\n");
    buf_add(out, l->title.p, l->title.n);
    buf_adds(out, "\n\n");
    buf_add(out, l->json.p, l->json.n);
    buf_adds(out, "\n");
}

/* cmd_cron.c - berth cron: jobs that are submitted again and again
 *
 * The schedule gets the same job that `berth submit` would send now, with this environment and this
 * directory.  The daemon keeps both until the schedule is removed.
 */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/jobspec.h"
#include "cli/view.h"

enum { ADD_WORDS = 3 }; /* add NAME TIMES */

struct cron_opts {
    struct job_opts job;
    const char *timezone, *overlap, *catch_up, *owner;
    bool paused;
};
#define CRON(field) offsetof(struct cron_opts, field)
static const struct opt own_opts[] = {
    {"timezone", 0, OPT_TEXT, "ZONE", CRON(timezone),
     "time zone of the times: Europe/Paris (default: local time of the daemon)"},
    {"overlap", 0, OPT_CHOICE, "RULE", CRON(overlap),
     "when the last job has not ended: skip this time (default), queue the new job all the same, "
     "or replace the last job",
     COMPLETE_CHOICES, "skip|queue|replace"},
    {"catch-up", 0, OPT_CHOICE, "RULE", CRON(catch_up),
     "times at which no daemon ran: one run for the latest (default), for all, or for none",
     COMPLETE_CHOICES, "latest|all|none"},
    {"paused", 0, OPT_FLAG, NULL, CRON(paused), "add the schedule without starting it"},
    {"owner", 0, OPT_TEXT, "USER", CRON(owner), "schedule of another user (admins)"},
};
static const struct opt_group own_group = OPT_GROUP("Schedule", own_opts);

/* ---- add ---- */

/* Takes spec.  The job has the name of its schedule unless --name says otherwise. */
static struct json *cron_body_take(const struct cron_opts *o, const struct operands *ops,
                                   struct json *spec)
{
    struct json *body = json_new_object();

    if (json_type(spec) == JSON_OBJECT && !json_has(spec, "name"))
        json_set_str(spec, "name", ops->p[1]);
    json_set_take(body, "job", spec);
    json_set_str(body, "name", ops->p[1]);
    json_set_str(body, "cron", ops->p[2]);
    opt_put_json(body, OPTION_GROUPS(&own_group), o, "timezone|overlap|catch-up|paused");
    return body;
}

static int cron_add(struct cli *c, const struct cron_opts *o, const struct operands *ops)
{
    const struct operands command = {ops->p + ADD_WORDS, ops->n - ADD_WORDS, true};
    AUTO(json) struct json *spec = NULL, *body = NULL, *reply = NULL;
    struct err e = {0};

    if (jobspec_build(&o->job, &command, &spec, &e) < 0 ||
        (jobspec_takes_snapshot(spec) && jobspec_take_snapshot(c, spec, &e) < 0))
        return cli_fail(&e);
    body = cron_body_take(o, ops, TAKE(spec));
    if (cli_post(c, "/v1/schedules", body, &reply, &e) < 0)
        return cli_fail(&e);
    if (cli_json(c))
        cli_print_json(reply);
    return 0;
}

/* ---- looking ---- */

static int cron_ls(struct cli *c)
{
    static const struct column cols[] = {
        {"SCHEDULE", "name", CELL_TEXT, true, NULL},
        {"TIMES", "cron", CELL_PARAMS, false, NULL},
        {"ZONE", "timezone", CELL_TEXT, false, ""},
        {"NEXT", "next", CELL_NEXT, false, NULL},
        {"PAUSED", "paused", CELL_YES, false, ""},
        {"LAST JOB", "last_job", CELL_NUMBER, false, ""},
        {"TROUBLE", "trouble", CELL_TEXT, true, ""},
        {"USER", "user", CELL_TEXT, false, NULL},
        {"COMMAND", "command", CELL_COMMAND, true, NULL},
    };

    return view_list(c, "/v1/schedules", cols, ARRAY_SIZE(cols),
                     "no schedules yet; add one with berth cron add");
}

static void cron_put_next(struct buf *b, const struct json *s, const char *before)
{
    char stamp[STAMP_TEXT_MAX];

    for (size_t i = 0; i < json_len(json_get(s, "next")); i++) {
        stamp_format(time_in(json_at(json_get(s, "next"), i)), stamp);
        buf_addf(b, "%s%s", i ? before : "", stamp);
    }
}

static void cron_page(struct cli *c, const struct json *s)
{
    static const struct {
        const char *label, *key;
    } texts[] = {
        {"overlap", "overlap"}, {"catch-up", "catch_up"}, {"user", "user"}, {"trouble", "trouble"}};
    AUTO(buf) struct buf b = {0}, times = {0}, next = {0}, command = {0};
    struct str zone = text_of(s, "timezone");

    buf_addf(&b, "schedule " STR_FMT "  %s\n", STR_ARG(text_of(s, "name")),
             json_bool(json_get(s, "paused")) ? "paused" : "active");
    params_format(&times, json_get(s, "cron"));
    buf_addf(&times, "%s" STR_FMT, zone.n ? " in " : "", STR_ARG(zone));
    cron_put_next(&next, s, ", ");
    command_format(&command, json_get(s, "command"));
    view_line(&b, c, "times", buf_str(&times));
    view_line(&b, c, "next", buf_str(&next));
    view_line(&b, c, "command", buf_str(&command));
    view_line(&b, c, "directory", text_of(json_get(s, "job"), "cwd"));
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        view_line(&b, c, texts[i].label, text_of(s, texts[i].key));
    if (int_of(s, "last_job"))
        buf_addf(&b, "  last job    %lld\n", (long long)int_of(s, "last_job"));
    cli_print(&b);
}

/* ---- everything else: one request per name ---- */

static int cron_print(struct cli *c, const char *verb, const struct json *reply)
{
    AUTO(buf) struct buf b = {0};

    if (cli_json(c))
        cli_print_json(!strcmp(verb, "next") ? json_get(reply, "next") : reply);
    else if (!strcmp(verb, "show"))
        cron_page(c, reply);
    else if (!strcmp(verb, "run"))
        cli_print_line(text_of(reply, "first_id").p);
    else if (!strcmp(verb, "next") && json_len(json_get(reply, "next"))) {
        cron_put_next(&b, reply, "\n");
        cli_print_line(b.p);
    }
    return 0;
}

static const struct resource_verb cron_verbs[] = {{"show", "GET", ""},
                                                  {"next", "GET", ""},
                                                  {"rm", "DELETE", ""},
                                                  {"pause", "POST", "/pause"},
                                                  {"resume", "POST", "/resume"},
                                                  {"run", "POST", "/run"},
                                                  {0}};

static int cron(struct cli *c, const void *opts, const struct operands *ops)
{
    if (!ops->n || (ops->n == 1 && !strcmp(ops->p[0], "ls")))
        return cron_ls(c);
    if (ops->n >= ADD_WORDS && !strcmp(ops->p[0], "add"))
        return cron_add(c, opts, ops);
    return resource_act(c, "schedules", cron_verbs, ((const struct cron_opts *)opts)->owner, ops,
                        cron_print,
                        "the actions are: berth cron add NAME TIMES -- COMMAND, berth cron ls, "
                        "berth cron show|next|pause|resume|run|rm NAME…");
}

const struct command cmd_cron = {
    BERTH_COMMAND(SECTION_RUN, "cron",
                  "add NAME TIMES [OPTION…] -- COMMAND…\n[ls]\nshow|next|pause|resume|run|rm NAME…",
                  cron, "submit a job again and again, at times as in cron"),
    .description =
        "TIMES are the five fields of cron: minute, hour, day, month, day of the week (0 and 7 are "
        "Sunday), or @hourly, @daily, @weekly, @monthly. The job is the one that berth submit "
        "would send now, with this environment and directory; the schedule keeps both. berth ls "
        "cron:NAME lists the jobs of a schedule.\n\nEach time submits its job once, also when the "
        "daemon is killed. A daemon must run at that time: one that a command started stays while "
        "there are schedules, but only a service starts it after a reboot. A clock that is set "
        "back repeats nothing.",
    OPTIONS(struct cron_opts, &own_group, &job_group, &training_group, &output_group,
            &common_group),
    .examples = EXAMPLES(
        {"berth cron add nightly '30 2 * * *' -- python train.py", "every night at 2:30"},
        {"berth cron add report '*/15 9-17 * * 1-5' --timezone Europe/Paris -- ./report.sh",
         "every quarter of an hour, at the office hours of Paris"},
        {"berth cron add sync @hourly --overlap replace --timeout 50m -- ./sync.sh",
         "a job that still runs is cancelled first"},
        {"berth cron", "list all schedules"},
        {"berth cron next nightly", "when it submits the next five times"},
        {"berth cron run nightly", "submit its job now and print the id"},
        {"berth cron pause nightly", "until berth cron resume nightly"}),
    OPERANDS("action", 0, SIZE_MAX, COMPLETE_CHOICES),
    .choices = "add|ls|show|next|pause|resume|run|rm",
};

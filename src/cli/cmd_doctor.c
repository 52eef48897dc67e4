/* cmd_doctor.c - berth doctor: is everything here in order, and what to do if not */
#include "backend/live_runs.h"
#include "base/file.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"
#include "host/doctor.h"

static const char *const health_names[] = {
    [HEALTH_OK] = "ok", [HEALTH_WARN] = "warn", [HEALTH_FAIL] = "fail"};
static const enum colour health_colours[] = {
    [HEALTH_OK] = COLOUR_GREEN, [HEALTH_WARN] = COLOUR_YELLOW, [HEALTH_FAIL] = COLOUR_RED};

/* The lock tells a daemon that hangs from no daemon at all. */
static void check_daemon(struct cli *c, struct finding *f)
{
    AUTO_FREE char *lock = path_join(c->home, "daemon.lock");
    struct json *meta = NULL;
    struct err e = {0};
    pid_t pid = 0;
    int held = file_lock_held(lock, &pid);
    AUTO_FREE char *who = xasprintf(" (pid %d)", (int)pid);

    if (cli_get(c, "/v1", &meta, &e) == 0) {
        struct str version = text_of(meta, "version");
        bool same = str_eq_c(version, c->program->version);
        finding_say(f, same ? HEALTH_OK : HEALTH_WARN, "version " STR_FMT " answers on %s%s",
                    STR_ARG(version), c->target, held == 1 && c->is_unix ? who : "");
        if (!same)
            finding_remedy(
                f, "this is berth %s: end the old daemon with berth stop; running jobs continue",
                c->program->version);
        json_free(meta);
    } else if (held == 1) {
        finding_say(f, HEALTH_FAIL, "a daemon%s holds %s but does not answer: %s", who, c->home,
                    e.text);
        finding_remedy(f,
                       "read %s/log; kill the daemon if it hangs ('kill %d'): running jobs "
                       "continue and no data is lost",
                       c->home, (int)pid);
    } else {
        finding_say(f, HEALTH_OK, "no daemon runs; commands that need one start it");
    }
}

/* Is it a run of a job that the database knows?  The daemon tells, if there is one. */
static void check_run(void *arg, struct run_key key, pid_t supervisor UNUSED, pid_t pid)
{
    struct finding *f = ((void **)arg)[1];
    AUTO(json) struct json *job = NULL;
    struct err e = {0};
    struct id id;
    int rc = cli_getf(((void **)arg)[0], &job, &e, "/v1/jobs/%llu", (unsigned long long)key.job);

    if (rc < 0 ? e.code != ERR_NOT_FOUND
               : !key.tag || !id_parse(text_of(job, "id"), &id) || run_tag(id) == key.tag)
        return;
    finding_say(f, HEALTH_WARN,
                "run %llu.%u (pid %d) belongs to a job that the database does not know",
                (unsigned long long)key.job, key.run, (int)pid);
    finding_remedy(f, "a restore forgot its job; it is left running: 'kill %d' ends it", (int)pid);
}

static void check_runs(struct cli *c, struct finding *f)
{
    AUTO_FREE char *dir = path_join(c->home, "shepherd");
    struct err e = {0};

    finding_say(f, HEALTH_OK, "no run of an unknown job");
    if (live_runs(dir, check_run, (void *[]){c, f}, &e) < 0)
        finding_say(f, HEALTH_WARN, "%s", e.text);
}

static void print_line(const struct cli *c, const char *name, const struct finding *f)
{
    AUTO(buf) struct buf b = {0};

    colour_addf(&b, c->out.colour, health_colours[f->health], "%-4s", health_names[f->health]);
    buf_addf(&b, "  %-9s  %s\n", name, f->text);
    if (f->remedy[0])
        buf_addf(&b, "                 → %s\n", f->remedy);
    cli_print(&b);
}

/* Adds one finding to the rows; *worst: the worst so far. */
static void doctor_add(const struct cli *c, struct json *rows, const char *name,
                       const struct finding *f, int *worst)
{
    struct json *row = json_new_object();

    if (!cli_json(c) && !cli_csv(c))
        print_line(c, name, f);
    json_set_str(row, "check", name);
    json_set_str(row, "result", health_names[f->health]);
    json_set_str(row, "finding", f->text);
    json_set_str(row, "remedy", f->remedy[0] ? f->remedy : NULL);
    json_push_take(rows, row);
    *worst = MAX(*worst, (int)f->health);
}

static void say_slow(const char *path)
{
    cli_say("checking %s, which may take a while …", path);
}

/* Checks that ask the daemon, which none of them starts. */
static const struct {
    const char *name;
    void (*run)(struct cli *c, struct finding *out);
} daemon_checks[] = {{"daemon", check_daemon}, {"runs", check_runs}};

static int doctor(struct cli *c, const void *opts UNUSED, const struct operands *ops UNUSED)
{
    static const struct column cols[] = {
        {"CHECK", "check", CELL_TEXT, false, NULL},
        {"RESULT", "result", CELL_TEXT, false, NULL},
        {"FINDING", "finding", CELL_TEXT, true, NULL},
        {"REMEDY", "remedy", CELL_TEXT, true, NULL},
    };
    AUTO(json) struct json *rows = json_new_array();
    struct err e = {0};
    int worst = HEALTH_OK;

    /* No check may start a daemon. */
    c->unreachable = NULL;
    if (cli_open(c, &e) < 0)
        return cli_fail(&e);
    const struct doctor_ask ask = {c->home, c->err.is_tty ? say_slow : NULL};
    for (size_t i = 0; i < n_doctor_checks; i++) {
        struct finding f = {0};
        doctor_checks[i].run(&ask, &f);
        doctor_add(c, rows, doctor_checks[i].name, &f, &worst);
    }
    for (size_t i = 0; i < ARRAY_SIZE(daemon_checks); i++) {
        struct finding f = {0};
        daemon_checks[i].run(c, &f);
        doctor_add(c, rows, daemon_checks[i].name, &f, &worst);
    }
    if (cli_json(c) || cli_csv(c))
        view_rows(c, rows, cols, ARRAY_SIZE(cols));
    return worst == HEALTH_FAIL;
}

const struct command cmd_doctor = {
    BERTH_COMMAND(SECTION_DAEMON, "doctor", "[OPTION…]", doctor,
                  "check this machine, the home and the job database"),
    .description = "Changes nothing and starts nothing. Works with and without a daemon.",
    .groups = OPTION_GROUPS(&output_group, &common_group),
    .examples = EXAMPLES(
        {"berth doctor", "one line for each check, with a remedy where a check fails"},
        {"berth doctor -o json", "for monitoring; the exit status is 1 when a check fails"}),
};

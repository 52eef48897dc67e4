/* cmd_doctor.c - berth doctor: is everything here in order, and what to do if not */
#include "base/util.h"
#include "cli/commands.h"
#include "cli/doctor.h"
#include "cli/view.h"

static const char *const health_names[] = {
    [HEALTH_OK] = "ok", [HEALTH_WARN] = "warn", [HEALTH_FAIL] = "fail"};
static const enum colour health_colours[] = {
    [HEALTH_OK] = COLOUR_GREEN, [HEALTH_WARN] = COLOUR_YELLOW, [HEALTH_FAIL] = COLOUR_RED};

static void print_line(const struct cli *c, const char *name, const struct finding *f)
{
    AUTO(buf) struct buf b = {0};
    enum colour col = c->out.colour ? health_colours[f->health] : COLOUR_NONE;

    buf_addf(&b, "%s%-4s%s  %-9s  %s\n", colour_start(col), health_names[f->health],
             col != COLOUR_NONE ? colour_end() : "", name, f->text);
    if (f->remedy[0])
        buf_addf(&b, "                 → %s\n", f->remedy);
    cli_print(&b);
}

static int doctor(struct cli *c, const void *opts, const struct operands *ops)
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

    (void)opts;
    (void)ops;
    /* No check may start a daemon. */
    c->unreachable = NULL;
    if (cli_open(c, &e) < 0)
        return cli_fail(&e);
    for (size_t i = 0; i < n_doctor_checks; i++) {
        struct finding f = {0};
        doctor_checks[i].run(c, &f);
        worst = MAX(worst, (int)f.health);
        if (!cli_json(c) && !cli_csv(c))
            print_line(c, doctor_checks[i].name, &f);
        struct json *row = json_new_object();
        json_set_str(row, "check", doctor_checks[i].name);
        json_set_str(row, "result", health_names[f.health]);
        json_set_str(row, "finding", f.text);
        json_set_str(row, "remedy", f.remedy[0] ? f.remedy : NULL);
        json_push_take(rows, row);
    }
    if (cli_json(c) || cli_csv(c))
        view_rows(c, rows, cols, ARRAY_SIZE(cols));
    return worst == HEALTH_FAIL;
}

const struct command cmd_doctor = {
    USAGE(SECTION_DAEMON, "doctor", "[OPTION…]"),
    .summary = "check this machine, the home and the job database",
    .description = "Changes nothing and starts nothing. Works with and without a daemon.",
    .groups = OPTION_GROUPS(&output_group, &common_group),
    .examples = EXAMPLES(
        {"berth doctor", "one line for each check, with a remedy where a check fails"},
        {"berth doctor -o json", "for monitoring; the exit status is 1 when a check fails"}),
    .run = doctor,
};

/* cmd_state.c - scheduler-state: the newest GPU jobs as a table, newest last
 *
 * Owns: the columns.  What a row says is the server's business (dialect/gpu/state_json.c).
 */
#include "base/units.h"
#include "base/util.h"
#include "cli/view.h"
#include "dialect/gpu/cmd.h"
#include <stdio.h>

static const char me[] = "scheduler-state";

struct state_opts {
    bool all_users, all, extended, json;
    struct opt_num last;
};
#define STATE(member) offsetof(struct state_opts, member)
static const struct opt own_opts[] = {
    {"all_users", 0, OPT_FLAG, NULL, STATE(all_users), "jobs of everybody, not only yours",
     COMPLETE_NONE, NULL},
    {"all", 0, OPT_FLAG, NULL, STATE(all), "old name of --all_users", COMPLETE_NONE, NULL},
    {"nlast", 0, OPT_INT, "N", STATE(last), "the newest N jobs (default 10)", COMPLETE_NONE, NULL},
    {"extended", 0, OPT_FLAG, NULL, STATE(extended), "every option and measure of each job",
     COMPLETE_NONE, NULL},
    {"json", 0, OPT_FLAG, NULL, STATE(json), "a JSON list, for programs", COMPLETE_NONE, NULL},
};
static const struct opt_group own_group = {"Listing", own_opts, ARRAY_SIZE(own_opts), false};
static const struct opt_group *const groups[] = {&own_group, &common_group, NULL};

/* ---- cells ---- */

enum cell { TEXT, NUMBER, STATE_CELL, STAMP, SECONDS, LEFT, FLAG, REAL, LIST };
/* A column of the table: the key of a row and how its value is shown. */
struct gpu_column {
    const char *title, *key;
    enum cell cell;
};
/* Always shown; --extended adds the columns of `more`. */
static const struct gpu_column basic[] = {
    {"JOBID", "id", TEXT},
    {"NAME", "name", TEXT},
    {"USER", "user", TEXT},
    {"STATE", "state", STATE_CELL},
    {"EPOCHS", "epochs", TEXT},
    {"GPUS", "gpus", TEXT},
    {"NODE", "node", TEXT},
    {"SUBMITTED", "submitted", STAMP},
    {"RUNTIME", "runtime_s", SECONDS},
    {"LEFT", "left_s", LEFT},
};
static const struct gpu_column more[] = {
    {"IMAGE", "image", TEXT},
    {"SCRIPT", "script", TEXT},
    {"CUSTOM_DIR", "custom_dir", TEXT},
    {"SNAPSHOTS_DIR", "snapshots_dir", TEXT},
    {"BATCH", "batch_size", NUMBER},
    {"TRAIN_SIZE", "training_set_size", NUMBER},
    {"SINGLE_GPU", "single_gpu", FLAG},
    {"NO_SHARING", "no_sharing", FLAG},
    {"EST_MEM", "estimated_memory", NUMBER},
    {"MEAS_MEM", "measured_memory", NUMBER},
    {"RESERVED", "reserved", NUMBER},
    {"PORTS", "ports", TEXT},
    {"EST_H", "estimate_hours", REAL},
    {"EST_NOW", "estimate_now_hours", REAL},
    {"OVERRUN", "overrun", REAL},
    {"ATTEMPTS", "attempts", NUMBER},
    {"PREEMPTIONS", "preemptions", NUMBER},
    {"EPOCH_S", "epoch_s", REAL},
    {"STEP_S", "step_s", REAL},
    {"SHARES_WITH", "shares_with", LIST},
    {"WAIT_REASON", "wait_reason", TEXT},
    {"EXIT", "exit", NUMBER},
};

/* "running (r2)", "finished (early)", "pending (memory)" */
static void state_text(struct buf *b, const struct json *row)
{
    struct str state = text_of(row, "state"), rest, why = text_of(row, "wait_reason");

    buf_add(b, state.p, state.n);
    if (str_eq_c(state, "running") && int_of(row, "attempts") > 1)
        buf_addf(b, " (r%lld)", (long long)int_of(row, "attempts"));
    else if (str_eq_c(state, "finished") && json_bool(json_get(row, "early")))
        buf_adds(b, " (early)");
    else if (str_eq_c(state, "pending") && why.n) {
        struct str word = str_cut(why, ':', &rest);
        if (word.n < why.n)
            buf_addf(b, " (" STR_FMT ")", STR_ARG(word));
    }
}

/* A duration for people. */
static void seconds_text(struct buf *b, const struct json *j)
{
    char text[UNIT_TEXT_MAX];
    int64_t ms = (int64_t)(json_real(j) * 1000);

    /* From a second on, whole seconds are enough. */
    duration_format(ms >= 1000 ? ms / 1000 * 1000 : ms, text);
    buf_adds(b, text);
}

static void list_text(struct buf *b, const struct json *list)
{
    for (size_t i = 0; i < json_len(list); i++)
        buf_addf(b, "%s" STR_FMT, i ? "," : "", STR_ARG(json_str(json_at(list, i))));
}

/* A cell without text is shown as "-" by the caller. */
static void cell_text(struct buf *b, const struct gpu_column *col, const struct json *row)
{
    const struct json *j = json_get(row, col->key);
    char stamp[STAMP_TEXT_MAX];

    if (!j)
        return;
    switch (col->cell) {
    case STATE_CELL:
        state_text(b, row);
        return;
    case STAMP:
        stamp_format(time_of(row, col->key), stamp);
        buf_adds(b, stamp);
        return;
    case SECONDS:
    case LEFT:
        if (json_real(j) > 0)
            seconds_text(b, j);
        return;
    case FLAG:
        buf_adds(b, json_bool(j) ? "true" : "false");
        return;
    case REAL:
        buf_addf(b, "%.4g", json_real(j));
        return;
    case LIST:
        list_text(b, j);
        return;
    case NUMBER:
        buf_addf(b, "%lld", (long long)json_int(j));
        return;
    case TEXT:
        buf_addf(b, STR_FMT, STR_ARG(json_str(j)));
        return;
    }
}

/* Only the state is coloured. */
static enum colour cell_colour(const struct gpu_column *col, const struct json *row)
{
    struct str s = text_of(row, "state");

    if (col->cell != STATE_CELL)
        return COLOUR_NONE;
    return str_eq_c(s, "running")                                ? COLOUR_GREEN
           : str_eq_c(s, "failed")                               ? COLOUR_RED
           : str_eq_c(s, "stopping") || str_eq_c(s, "preempted") ? COLOUR_YELLOW
           : str_eq_c(s, "finished") || str_eq_c(s, "cancelled") ? COLOUR_DIM
                                                                 : COLOUR_NONE;
}

/* Numbers are right-aligned; ids are never cut, since commands need them whole. */
static void add_columns(struct table *t, const struct gpu_column *cols, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool right = cols[i].cell == NUMBER || cols[i].cell == REAL || cols[i].cell == SECONDS ||
                     cols[i].cell == LEFT;
        bool shrinks = cols[i].cell == TEXT && strcmp(cols[i].key, "id") != 0;
        table_column(t, cols[i].title, right ? TABLE_RIGHT : TABLE_LEFT, shrinks);
    }
}

static void add_cells(struct table *t, const struct gpu_column *cols, size_t n,
                      const struct json *row)
{
    for (size_t i = 0; i < n; i++) {
        AUTO(buf) struct buf b = {0};
        buf_init(&b, 1 << 20);
        cell_text(&b, &cols[i], row);
        if (!b.n)
            buf_addc(&b, '-');
        table_cell(t, buf_str(&b), cell_colour(&cols[i], row));
    }
}

/* For a terminal that is narrower than the table: each job as lines of a name and a value. */
static void add_lines(struct buf *b, const struct gpu_column *cols, size_t n,
                      const struct json *row)
{
    for (size_t i = 0; i < n; i++) {
        AUTO(buf) struct buf cell = {0};
        buf_init(&cell, 1 << 20);
        cell_text(&cell, &cols[i], row);
        if (cell.n)
            buf_addf(b, "%-13s  " STR_FMT "\n", cols[i].title, STR_ARG(buf_str(&cell)));
    }
}

static void show_lines(const struct json *rows)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, 64 << 20);
    for (size_t i = 0; i < json_len(rows); i++) {
        if (i)
            buf_addc(&b, '\n');
        add_lines(&b, basic, ARRAY_SIZE(basic), json_at(rows, i));
        add_lines(&b, more, ARRAY_SIZE(more), json_at(rows, i));
    }
    cli_print(&b);
}

/* Is a line of the table wider than the terminal?  0 = there is none. */
static bool too_wide(const struct table *t, size_t width)
{
    AUTO(buf) struct buf b = {0};
    struct str rest;

    buf_init(&b, 64 << 20);
    table_render(t, 0, false, &b);
    struct str all = buf_str(&b);
    size_t most = 0;
    while (all.n) {
        struct str line = str_cut(all, '\n', &rest);
        most = MAX(most, text_width(line));
        all = rest;
    }
    return width && most > width;
}

static void show_table(const struct cli *c, const struct json *rows, bool extended)
{
    struct table *t = table_new();
    AUTO(buf) struct buf b = {0};

    buf_init(&b, 64 << 20);
    add_columns(t, basic, ARRAY_SIZE(basic));
    if (extended)
        add_columns(t, more, ARRAY_SIZE(more));
    for (size_t i = 0; i < json_len(rows); i++) {
        add_cells(t, basic, ARRAY_SIZE(basic), json_at(rows, i));
        if (extended)
            add_cells(t, more, ARRAY_SIZE(more), json_at(rows, i));
    }
    /* Cut to the terminal, thirty-two columns would say nothing. */
    if (extended && too_wide(t, c->out.width)) {
        show_lines(rows);
    } else {
        table_render(t, extended ? 0 : c->out.width, c->out.colour, &b);
        cli_print(&b);
    }
    table_free(t);
}

static int scheduler_state(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct state_opts *o = opts;
    AUTO(json) struct json *reply = NULL;
    struct err e = {0};
    char path[96];

    (void)ops;
    if (o->last.set && (o->last.v < 1 || o->last.v > 10000)) {
        err_set(&e, ERR_INVALID, "--nlast '%lld': must be a whole number from 1 to 10000",
                (long long)o->last.v);
        return gpu_fail(me, &e, GPU_EXIT_USAGE);
    }
    snprintf(path, sizeof(path), "/gpu-scheduler/jobs?n=%lld%s",
             (long long)(o->last.set ? o->last.v : 10), o->all_users || o->all ? "&all=1" : "");
    if (cli_get(c, path, &reply, &e) < 0)
        return gpu_fail(me, &e, gpu_call_status(&e, GPU_EXIT_NO));
    const struct json *rows = json_get(reply, "items");
    if (o->json)
        view_json(rows);
    else
        show_table(c, rows, o->extended);
    return GPU_EXIT_OK;
}

static const struct example examples[] = {
    {"scheduler-state", "your ten newest jobs, newest last"},
    {"scheduler-state --all_users --nlast 50", "fifty of everybody's"},
    {"scheduler-state --extended", "with every option, and what was measured"},
    {"scheduler-state --json --nlast 1000", "a JSON list for a program"},
    {NULL, NULL},
};
#define STATE_COMMAND(called, about, more_flags, shown)                                            \
    {                                                                                              \
        .name = called, .summary = about, .synopsis = "[OPTION…]",                                 \
        .description =                                                                             \
            "EPOCHS counts finished epochs and all epochs. GPUS ends in s when the job shares "    \
            "its GPUs. LEFT is the estimated time to the end. A state may have a remark: running " \
            "(r2) is the second attempt, finished (early) ended before its last epoch, pending "   \
            "(memory) waits for GPU memory; --extended explains it in a sentence.",                \
        .section = SECTION_DIALECT, .flags = COMMAND_PROGRAM | (more_flags), .groups = groups,     \
        .opts_size = sizeof(struct state_opts), .examples = shown, .run = scheduler_state,         \
    }
const struct command cmd_scheduler_state =
    STATE_COMMAND("scheduler-state", "list the jobs of the GPU scheduler", 0, examples);
const struct command cmd_scheduler_situation =
    STATE_COMMAND("scheduler-situation", "old name of scheduler-state", COMMAND_HIDDEN, NULL);

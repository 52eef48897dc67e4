/* view.c - records from the daemon as people read them
 *
 * Owns: how a state, a time, a size, parameters and an outcome look.  A table shows what fits and
 * helps; csv and json give everything, unrounded.
 */
#include "cli/view.h"
#include "base/clock.h"
#include "base/json_in.h"
#include "base/util.h"
#include "model/job.h"
#include <stdio.h>
#include <time.h>

/* EXIT_TIMEOUT and EXIT_NOT_RUN are those of timeout(1) and of the shell. */
enum { CELL_MAX = 4096, EXIT_CANCELLED = 130, EXIT_NOT_RUN = 127, EXIT_TIMEOUT = 124 };

const struct column job_columns[] = {
    {"JOB", "number", CELL_NUMBER, false, NULL},
    {"NAME", "name", CELL_TEXT, true, NULL},
    {"STATE", "state", CELL_STATE, false, NULL},
    {"EXIT", "exit_code", CELL_EXIT, false, ""},
    {"TIME", "duration_ms", CELL_RUNTIME, false, ""},
    {"CREATED", "created", CELL_AGE, false, NULL},
    {"EPOCHS", "training", CELL_EPOCHS, false, ""},
    {"EXPECTED", "gpu", CELL_EXPECTED, false, ""},
    {"PROJECT", "project", CELL_TEXT, true, "default"},
    {"QUEUE", "queue", CELL_TEXT, true, "default"},
    {"PARAMS", "params", CELL_PARAMS, true, ""},
    {"REASON", "reason", CELL_TEXT, true, ""},
};
const size_t n_job_columns = ARRAY_SIZE(job_columns);

/* Every member of a job that csv gives, in this order. */
static const char *const job_csv_keys[] = {
    "id",          "number",        "name",   "state",   "exit_code", "reason",
    "project",     "queue",         "user",   "params",  "command",   "priority",
    "attempt",     "batch",         "index",  "created", "started",   "ended",
    "duration_ms", "max_rss_bytes", "cpu_ms", "cpus",    "mem_bytes", "gpus",
};

int64_t time_in(const struct json *text)
{
    int64_t ms;

    return json_type(text) == JSON_STR && time_parse_utc(json_str(text), &ms) ? ms : 0;
}

void view_line(struct buf *b, const struct cli *c, const char *label, struct str text)
{
    if (!text.n)
        return;
    buf_adds(b, "  ");
    colour_addf(b, c->out.colour, COLOUR_DIM, "%-10s", label);
    buf_addf(b, "  " STR_FMT "\n", STR_ARG(text));
}

void view_linef(struct buf *b, const struct cli *c, const char *label, const char *fmt, ...)
{
    char text[1024];

    FORMAT_ARGS(text, fmt);
    view_line(b, c, label, str_of(text));
}

enum colour state_colour(struct str state)
{
    static const enum colour by_state[JOB_STATE_MAX] = {
        [JOB_HELD] = COLOUR_DIM,         [JOB_QUEUED] = COLOUR_YELLOW,
        [JOB_STARTING] = COLOUR_CYAN,    [JOB_RUNNING] = COLOUR_BLUE,
        [JOB_STOPPING] = COLOUR_MAGENTA, [JOB_SUCCEEDED] = COLOUR_GREEN,
        [JOB_FAILED] = COLOUR_RED,       [JOB_CANCELLED] = COLOUR_DIM,
        [JOB_LOST] = COLOUR_RED,
    };
    enum job_state s;

    return job_state_parse(state, &s) ? by_state[s] : COLOUR_NONE;
}

void age_format(int64_t then_ms, int64_t now_ms, char out[AGE_TEXT_MAX])
{
    static const struct {
        int64_t below_s, unit_s;
        char unit;
    } units[] = {{120, 1, 's'}, {7200, 60, 'm'}, {172800, 3600, 'h'}, {INT64_MAX, 86400, 'd'}};
    int64_t s = (now_ms - then_ms) / 1000;
    size_t i = 0;

    while (s >= units[i].below_s)
        i++;
    snprintf(out, AGE_TEXT_MAX, s < 1 ? "now" : "%lld%c ago", (long long)(s / units[i].unit_s),
             units[i].unit);
}

void stamp_format(int64_t wall_ms, char out[STAMP_TEXT_MAX])
{
    time_t t = (time_t)(wall_ms / 1000);
    struct tm tm;

    if (!localtime_r(&t, &tm) || !strftime(out, STAMP_TEXT_MAX, "%Y-%m-%d %H:%M:%S", &tm))
        snprintf(out, STAMP_TEXT_MAX, "?");
}

void clock_format(int64_t wall_ms, int64_t now_ms, char out[STAMP_TEXT_MAX])
{
    time_t at = (time_t)(wall_ms / 1000), now = (time_t)(now_ms / 1000);
    struct tm tm, today;
    bool known = localtime_r(&at, &tm) && localtime_r(&now, &today);
    bool same = known && tm.tm_yday == today.tm_yday && tm.tm_year == today.tm_year;

    if (!known || !strftime(out, STAMP_TEXT_MAX, same ? "%H:%M" : "%b %d %H:%M", &tm))
        snprintf(out, STAMP_TEXT_MAX, "?");
}

/* Between two runs.  How the last one ended is in the list of runs, and in the reason. */
static bool waits_again(const struct json *job)
{
    enum job_state s;

    return job_state_parse(text_of(job, "state"), &s) && (s == JOB_QUEUED || s == JOB_HELD);
}

/* A job that trains is one work in several runs: its time is their sum, without the waits. */
int64_t job_runtime(const struct json *job, int64_t now_ms)
{
    const struct json *d = json_get(job, "duration_ms");
    int64_t started = time_of(job, "started"), ran = int_of(job, "ran_ms");
    bool trains = json_get(job, "training") != NULL;

    if (d)
        return trains ? ran : json_int(d);
    if (waits_again(job))
        return trains && ran ? ran : -1;
    return started && !job_final(job) ? MAX(now_ms - started, 0) + (trains ? ran : 0) : -1;
}

void params_format(struct buf *b, const struct json *params)
{
    bool first = true;

    if (json_type(params) == JSON_STR)
        buf_addf(b, STR_FMT, STR_ARG(json_str(params)));
    for (struct json_it it = {0}; json_next(params, &it);) {
        buf_addf(b, "%s%s=", first ? "" : " ", it.key);
        first = false;
        if (json_type(it.val) == JSON_STR)
            buf_addf(b, STR_FMT, STR_ARG(json_str(it.val)));
        else
            json_write(b, it.val, JSON_COMPACT);
    }
}

/* The shell takes the word as it is, without quotes.  An empty word needs quotes. */
static bool word_is_plain(struct str w)
{
    for (size_t i = 0; i < w.n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%{}",
                    w.p[i]))
            return false;
    return w.n > 0;
}

void command_format(struct buf *b, const struct json *command)
{
    if (json_type(command) == JSON_STR) {
        buf_addf(b, STR_FMT, STR_ARG(json_str(command)));
        return;
    }
    for (size_t i = 0; i < json_len(command); i++) {
        struct str w = json_str(json_at(command, i));
        buf_adds(b, i ? " " : "");
        if (word_is_plain(w)) {
            buf_add(b, w.p, w.n);
            continue;
        }
        buf_addc(b, '\'');
        for (size_t k = 0; k < w.n; k++)
            if (w.p[k] == '\'')
                buf_adds(b, "'\\''");
            else
                buf_addc(b, w.p[k]);
        buf_addc(b, '\'');
    }
}

/* ---- cells ---- */

static void number_cell(struct buf *b, const struct json *v)
{
    if (json_type(v) == JSON_INT)
        buf_addf(b, "%lld", (long long)json_int(v));
    else if (json_type(v) == JSON_REAL)
        buf_addf(b, "%g", json_real(v));
}

void view_value(struct buf *b, const struct json *v)
{
    if (!v || json_type(v) == JSON_NULL)
        return;
    if (json_type(v) == JSON_INT || json_type(v) == JSON_REAL)
        number_cell(b, v);
    else if (json_type(v) == JSON_STR)
        buf_add(b, json_str(v).p, json_str(v).n);
    else
        json_write(b, v, JSON_COMPACT);
}

static void unit_cell(struct buf *b, enum cell_kind kind, int64_t v)
{
    char text[UNIT_TEXT_MAX];

    if (kind == CELL_SIZE ? v <= 0 : v < 0)
        return;
    if (kind == CELL_SIZE)
        size_format(v, text);
    else
        duration_format(v >= 10000 ? v / 1000 * 1000 : v, text);
    buf_adds(b, text);
}

/* "3/8", as numbers or as sizes. */
static void share_cell(struct buf *b, const struct json *row, const struct column *col)
{
    const struct json *used = json_get(row, col->key), *of = json_get(row, col->of);
    char text[UNIT_TEXT_MAX];

    if (col->kind == CELL_SHARE) {
        number_cell(b, used);
        buf_addc(b, '/');
        number_cell(b, of);
        return;
    }
    size_format(used ? json_int(used) : 0, text);
    buf_addf(b, "%s/", text);
    size_format(of ? json_int(of) : 0, text);
    buf_adds(b, text);
}

/* The predicted start of a job that waits, or the predicted end of one that runs. */
static void expected_cell(struct buf *b, const struct json *gpu, int64_t now_ms)
{
    bool waits = text_of(gpu, "wait").n;
    int64_t at = time_of(json_get(gpu, waits ? "start" : "finish"), "at");
    char text[STAMP_TEXT_MAX];

    if (!at)
        return;
    clock_format(at, now_ms, text);
    buf_addf(b, "%s %s", waits ? "starts" : "ends", text);
}

static void size_or(const struct json *v, const char *otherwise, char out[UNIT_TEXT_MAX])
{
    if (json_type(v) == JSON_INT)
        size_format(json_int(v), out);
    else
        snprintf(out, UNIT_TEXT_MAX, "%s", otherwise);
}

/* Jobs that the reader may not see are counted in "runs" only. */
static void gpu_jobs_cell(struct buf *b, const struct json *device, const struct json *jobs)
{
    char used[UNIT_TEXT_MAX], reserved[UNIT_TEXT_MAX];
    int64_t others = int_of(device, "runs") - (int64_t)json_len(jobs);

    for (size_t i = 0; i < json_len(jobs); i++) {
        const struct json *j = json_at(jobs, i);
        size_or(json_get(j, "measured_bytes"), "?", used);
        size_or(json_get(j, "reserved_bytes"), "all", reserved);
        buf_addf(b, "%s%lld %s/%s", i ? ", " : "", (long long)int_of(j, "number"), used, reserved);
    }
    if (others > 0)
        buf_addf(b, "%s%lld of other users", json_len(jobs) ? ", " : "", (long long)others);
}

/* Adds the text of one cell and returns its colour.  A value that is absent gives an empty cell. */
static enum colour cell(struct buf *b, const struct json *row, const struct column *col,
                        int64_t now_ms)
{
    const struct json *v = json_get(row, col->key);
    char text[MAX(AGE_TEXT_MAX, STAMP_TEXT_MAX)] = "";
    struct str word = text_of(row, col->key);

    switch (col->kind) {
    case CELL_TEXT:
    case CELL_STATE:
        buf_add(b, word.p, word.n);
        return col->kind == CELL_STATE ? state_colour(word) : COLOUR_NONE;
    case CELL_DEVICE:
        buf_add(b, word.p, str_eq_c(word, "unseen") ? 0 : word.n);
        return state_colour(word);
    case CELL_PERCENT:
    case CELL_POWER:
        if (v && json_type(v) != JSON_NULL)
            buf_addf(b, "%lld%c", (long long)int_of(row, col->key),
                     col->kind == CELL_POWER ? 'W' : '%');
        return COLOUR_NONE;
    case CELL_KNOWN_SIZE:
        size_or(v, "?", text);
        if (int_of(row, col->of) > 0)
            buf_addf(b, "%s/", text);
        unit_cell(b, CELL_SIZE, int_of(row, col->of));
        return COLOUR_NONE;
    case CELL_GPU_JOBS:
        gpu_jobs_cell(b, row, v);
        return COLOUR_NONE;
    case CELL_NUMBER:
        number_cell(b, v);
        return COLOUR_NONE;
    case CELL_VALUE:
        view_value(b, v);
        return COLOUR_NONE;
    case CELL_EXIT:
        if (waits_again(row))
            return COLOUR_NONE;
        number_cell(b, v);
        return v && json_int(v) == 0 ? COLOUR_DIM : COLOUR_RED;
    case CELL_RUNTIME:
        unit_cell(b, col->kind, job_runtime(row, now_ms));
        return COLOUR_NONE;
    case CELL_DURATION:
    case CELL_SIZE:
        unit_cell(b, col->kind, v ? json_int(v) : -1);
        return COLOUR_NONE;
    case CELL_AGE:
        if (time_of(row, col->key))
            age_format(time_of(row, col->key), now_ms, text);
        buf_adds(b, text);
        return COLOUR_DIM;
    case CELL_PARAMS:
        params_format(b, v);
        return COLOUR_NONE;
    case CELL_COMMAND:
        command_format(b, v);
        return COLOUR_NONE;
    case CELL_NEXT:
        if (json_len(v))
            clock_format(time_in(json_at(v, 0)), now_ms, text);
        buf_adds(b, text);
        return COLOUR_NONE;
    case CELL_SHARE:
    case CELL_SHARE_SIZE:
        share_cell(b, row, col);
        return COLOUR_NONE;
    case CELL_EPOCHS:
        if (int_of(v, "epochs"))
            buf_addf(b, "%lld/%lld", (long long)int_of(v, "done"), (long long)int_of(v, "epochs"));
        return COLOUR_NONE;
    case CELL_EXPECTED:
        expected_cell(b, v, now_ms);
        return COLOUR_DIM;
    case CELL_YES:
        buf_adds(b, v && json_bool(v) ? "yes" : "");
        return COLOUR_NONE;
    }
    return COLOUR_NONE;
}

/* A column with `hide` is shown only when some row has another value there. */
static bool column_shown(const struct json *rows, const struct column *col, int64_t now_ms)
{
    AUTO(buf) struct buf b = {.max = CELL_MAX};

    if (!col->hide || !json_len(rows))
        return !col->hide;
    for (size_t i = 0; i < json_len(rows); i++) {
        buf_reset(&b);
        cell(&b, json_at(rows, i), col, now_ms);
        if (b.n && !str_eq_c(buf_str(&b), col->hide))
            return true;
    }
    return false;
}

void view_table(struct buf *b, const struct json *rows, const struct column *cols, size_t n,
                size_t width, bool colour)
{
    struct table *t = table_new();
    int64_t now = clock_wall(&clock_system);
    AUTO_FREE bool *shown = xcalloc(n, sizeof(*shown));
    AUTO(buf) struct buf text = {.max = CELL_MAX};

    for (size_t k = 0; k < n; k++) {
        bool right = cols[k].kind > CELL_LEFT_LAST;
        shown[k] = column_shown(rows, &cols[k], now);
        if (shown[k])
            table_column(t, cols[k].title, right ? TABLE_RIGHT : TABLE_LEFT, cols[k].shrinks);
    }
    for (size_t i = 0; i < json_len(rows); i++)
        for (size_t k = 0; k < n; k++)
            if (shown[k]) {
                buf_reset(&text);
                enum colour c = cell(&text, json_at(rows, i), &cols[k], now);
                table_cell(t, buf_str(&text), c);
            }
    table_render(t, width, colour, b);
    table_free(t);
}

/* What comes before the next row.  Rows that make a good write are written. */
static void json_row_begins(struct view_pages *v, struct buf *b)
{
    if (b->n > 1 << 16)
        cli_print(b);
    buf_adds(b, v->rows++ ? ",\n" : "[\n");
}

static void json_page(struct view_pages *v, const struct json *rows)
{
    AUTO(buf) struct buf b = {0};

    for (size_t i = 0; i < json_len(rows); i++) {
        json_row_begins(v, &b);
        json_write(&b, json_at(rows, i), JSON_COMPACT);
    }
    cli_print(&b);
}

static void json_end(const struct view_pages *v)
{
    AUTO(buf) struct buf b = {0};

    buf_adds(&b, v->rows ? "\n]\n" : "[]\n");
    cli_print(&b);
}

void view_json(const struct json *rows)
{
    struct view_pages v = {0};

    json_page(&v, rows);
    json_end(&v);
}

/* null is an empty cell; lists and objects are JSON text. */
static void csv_cell(struct table *t, const struct json *v)
{
    if (json_type(v) == JSON_STR) {
        table_cell(t, json_str(v), COLOUR_NONE);
    } else if (json_type(v) == JSON_NULL) {
        table_cell(t, STR(""), COLOUR_NONE);
    } else {
        AUTO_FREE char *text = json_text(v);
        table_cell(t, str_of(text), COLOUR_NONE);
    }
}

/* The line of titles stands before the first page only. */
static void csv_page(struct view_pages *v, const struct json *rows, const struct column *cols,
                     size_t n)
{
    struct table *t = table_new();
    AUTO_FREE const char **keys = xcalloc(2 * n + ARRAY_SIZE(job_csv_keys), sizeof(*keys));
    size_t n_keys = 0;
    AUTO(buf) struct buf b = {0};

    if (cols == job_columns)
        for (; n_keys < ARRAY_SIZE(job_csv_keys); n_keys++)
            keys[n_keys] = job_csv_keys[n_keys];
    for (size_t k = 0; cols != job_columns && k < n; k++) {
        keys[n_keys++] = cols[k].key;
        if (cols[k].of)
            keys[n_keys++] = cols[k].of;
    }
    for (size_t k = 0; k < n_keys; k++)
        table_column(t, keys[k], TABLE_LEFT, false);
    for (size_t i = 0; i < json_len(rows); i++)
        for (size_t k = 0; k < n_keys; k++)
            csv_cell(t, json_get(json_at(rows, i), keys[k]));
    table_render_csv(t, &b);
    if (v->rows) {
        const char *titles_end = memchr(b.p, '\n', b.n);
        buf_consume(&b, (size_t)(titles_end + 1 - b.p));
    }
    v->rows += json_len(rows) + 1;
    cli_print(&b);
    table_free(t);
}

void view_page(struct view_pages *v, const struct json *rows, const struct column *cols, size_t n)
{
    if (cli_json(v->c))
        json_page(v, rows);
    else
        csv_page(v, rows, cols, n);
}

void view_page_text(void *pages, struct str array)
{
    struct view_pages *v = pages;
    AUTO(json_in) struct json_in in = {.text = array};
    struct str one;
    AUTO(buf) struct buf b = {0};

    json_in_next(&in); /* its [ */
    while (json_in_raw(&in, &one) == 1) {
        json_row_begins(v, &b);
        buf_add(&b, one.p, one.n);
    }
    cli_print(&b);
}

void view_pages_end(struct view_pages *v)
{
    if (cli_json(v->c))
        json_end(v);
}

void view_rows(const struct cli *c, const struct json *rows, const struct column *cols, size_t n)
{
    struct view_pages v = {.c = c};
    AUTO(buf) struct buf b = {0};

    if (cli_json(c) || cli_csv(c)) {
        view_page(&v, rows, cols, n);
        view_pages_end(&v);
    } else if (json_len(rows)) {
        view_table(&b, rows, cols, n, c->out.width, c->out.colour);
        cli_print(&b);
    }
}

int view_list(struct cli *c, const char *path, const struct column *cols, size_t n,
              const char *none)
{
    AUTO(json) struct json *reply = NULL;
    struct err e = {0};

    if (cli_get(c, path, &reply, &e) < 0)
        return cli_fail(&e);
    const struct json *rows = json_get(reply, "items");
    view_rows(c, rows, cols, n);
    if (!json_len(rows) && c->err.is_tty && !cli_json(c) && !cli_csv(c))
        cli_say("%s", none);
    return 0;
}

/* ---- outcomes ---- */

bool job_final(const struct json *job)
{
    enum job_state s;

    return job_state_parse(text_of(job, "state"), &s) && job_state_final(s);
}

/* An exit code of more than 255 cannot be passed on; its lowest eight bits are. */
int job_exit_status(const struct json *job)
{
    struct str state = text_of(job, "state");
    const struct json *code = json_get(job, "exit_code");

    if (str_eq_c(state, "succeeded"))
        return 0;
    if (code && json_int(code) > 0)
        return (int)json_int(code) & 255;
    if (str_eq_c(state, "cancelled"))
        return EXIT_CANCELLED;
    /* An end without a status, or with a clean one that was not its own: too late, or never ran. */
    return code ? EXIT_TIMEOUT : EXIT_NOT_RUN;
}

void job_outcome_text(const struct json *job, char *out, size_t n)
{
    struct str state = text_of(job, "state"), reason = text_of(job, "reason");
    const struct json *code = json_get(job, "exit_code");
    char with[40] = "";

    if (str_eq(reason, state))
        reason = STR("");
    if (code && json_int(code) > 0 && !reason.n && !str_eq_c(state, "cancelled"))
        snprintf(with, sizeof(with), " with exit code %d", (int)json_int(code));
    snprintf(out, n, STR_FMT "%s%s" STR_FMT, STR_ARG(state), with, reason.n ? ": " : "",
             STR_ARG(reason));
}

/* cmd_top.c - berth top: the queue, live, on the whole terminal
 *
 * Owns: keys and what they do.  The daemon is asked once a second and after every action.
 */
#include "base/clock.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/list.h"
#include "cli/top.h"
#include "cli/view.h"
#include "io/tty.h"
#include <stdio.h>

enum { ASK_EVERY_MS = 1000, LOG_TAIL = 64 << 10, SHOWN = 200, FILTER_MAX = 400 };

static const char *const sorts[] = {NULL, "-created", "-duration", "-priority", "name", "state"};

/* rows, counts and nodes are owned; the model borrows them for each frame. */
struct top {
    struct cli *c;
    struct top_model m;
    struct json *rows, *counts, *nodes;
    struct buf log;
    char filter[FILTER_MAX], message[300];
    size_t sort;
    char ask; /* what a yes would do: 'c' or 'r' */
    bool over;
};

/* ---- asking ---- */

/* Without a sort order the list has three parts: running, queued, finished. */
static int ask_rows(struct top *t, struct json *rows, struct err *e)
{
    static const int64_t limits[] = {SHOWN, SHOWN, SHOWN};
    const char *filter = t->filter[0] ? t->filter : NULL;
    struct list_query sorted = {filter, NULL, sorts[t->sort], SHOWN};

    return sorts[t->sort] ? list_jobs(t->c, &sorted, rows, NULL, e)
                          : list_overview(t->c, filter, limits, rows, e);
}

/* 0 when the list is empty. */
static int64_t selected_job(const struct top *t)
{
    return int_of(json_at(t->rows, (size_t)t->m.selected), "number");
}

/* The same job stays selected when rows come and go above it. */
static void keep_selected(struct top *t, int64_t job)
{
    for (size_t i = 0; job && i < json_len(t->rows); i++)
        if (int_of(json_at(t->rows, i), "number") == job)
            t->m.selected = (int64_t)i;
}

/* A job without output usually waits: the planner's reason says more than "not found". */
static void say_why_none(struct top *t, const struct err *refusal)
{
    AUTO(json) struct json *j = NULL;
    struct err e = {0};

    if (cli_getf(t->c, &j, &e, "/v1/jobs/%lld/explain", (long long)t->m.log_job) == 0 &&
        text_of(j, "text").n)
        buf_addf(&t->log, "no output yet: " STR_FMT "\n", STR_ARG(text_of(j, "text")));
    else
        buf_addf(&t->log, "%s\n", refusal->text);
}

static void ask_log(struct top *t)
{
    static const char *const tail[] = {"Range: bytes=-65536", NULL};
    AUTO_FREE char *path = xasprintf("/v1/jobs/%lld/logs", (long long)t->m.log_job);
    struct http_response r;
    struct err e = {0};

    buf_reset(&t->log);
    if (cli_fetch(t->c, "GET", path, tail, STR(""), &r, &e) == 0) {
        buf_add(&t->log, r.body.p, r.body.n);
        http_response_done(&r);
    } else {
        say_why_none(t, &e);
    }
    t->m.log = buf_str(&t->log);
}

/* When the daemon does not answer, the last state stays on the screen, with a message. */
static void ask(struct top *t)
{
    const struct list_query everything = {t->filter[0] ? t->filter : NULL, NULL, NULL, -1};
    AUTO(json) struct json *rows = json_new_array(), *counts = NULL, *nodes = NULL;
    int64_t job = json_len(t->rows) ? selected_job(t) : 0;
    struct err e = {0};

    if (list_counts(t->c, &everything, &counts, &e) < 0 ||
        cli_get(t->c, "/v1/nodes", &nodes, &e) < 0 || ask_rows(t, rows, &e) < 0) {
        snprintf(t->message, sizeof(t->message), "%s", e.text);
        return;
    }
    json_free(t->rows);
    json_free(t->counts);
    json_free(t->nodes);
    t->rows = TAKE(rows);
    t->counts = TAKE(counts);
    t->nodes = TAKE(nodes);
    keep_selected(t, job);
    if (t->m.mode == TOP_LOG)
        ask_log(t);
}

/* ---- keys ---- */

/* The user has answered the question with yes. */
static void top_act(struct top *t)
{
    const char *verb = t->ask == 'c' ? "cancel" : "retry";
    int64_t job = selected_job(t);
    AUTO_FREE char *path = xasprintf("/v1/jobs/%lld/%s", (long long)job, verb);
    struct err e = {0};

    if (cli_post(t->c, path, NULL, NULL, &e) < 0)
        snprintf(t->message, sizeof(t->message), "%s", e.text);
    else
        snprintf(t->message, sizeof(t->message), "job %lld: %s", (long long)job,
                 t->ask == 'c' ? "stopping" : "queued again");
}

/* The selected row after this key. */
static int64_t top_moved(const struct top *t, int key)
{
    int64_t at = t->m.selected, page = (int64_t)t->c->out.height - 7,
            last = (int64_t)json_len(t->rows) - 1;
    const struct {
        int key, letter;
        int64_t to;
    } moves[] = {{KEY_UP, 'k', at - 1},
                 {KEY_DOWN, 'j', at + 1},
                 {KEY_PAGE_UP, KEY_PAGE_UP, at - page},
                 {KEY_PAGE_DOWN, KEY_PAGE_DOWN, at + page},
                 {KEY_HOME, 'g', 0},
                 {KEY_END, 'G', last}};

    for (size_t i = 0; i < ARRAY_SIZE(moves); i++)
        if (key == moves[i].key || key == moves[i].letter)
            at = moves[i].to;
    return MAX(0, MIN(at, last));
}

static void key_in_list(struct top *t, int key)
{
    t->message[0] = 0;
    t->m.selected = top_moved(t, key);
    t->over = key == 'q' || key == KEY_ESCAPE;
    if (key == '/' || key == 'h' || key == '?')
        t->m.mode = key == '/' ? TOP_FILTER : TOP_HELP;
    if (key == 's')
        t->sort = (t->sort + 1) % ARRAY_SIZE(sorts);
    if (!json_len(t->rows))
        return;
    if (key == 'l' || key == KEY_ENTER) {
        t->m.mode = TOP_LOG;
        t->m.log_job = selected_job(t);
    } else if (key == 'c' || key == 'r') {
        t->ask = (char)key;
        t->m.mode = TOP_ASK;
        snprintf(t->message, sizeof(t->message), "%s job %lld? y/n",
                 key == 'c' ? "cancel" : "run again", (long long)selected_job(t));
    }
}

static void key_in_filter(struct top *t, int key)
{
    size_t n = strlen(t->filter);

    if (key == KEY_ENTER || key == KEY_ESCAPE) {
        if (key == KEY_ESCAPE)
            t->filter[0] = 0;
        t->m.mode = TOP_LIST;
        t->message[0] = 0;
        t->m.selected = 0;
        /* One character may be several bytes of UTF-8: the continuation bytes go with it. */
    } else if (key == KEY_BACKSPACE && n) {
        while (n > 1 && ((unsigned char)t->filter[n - 1] & 0xc0) == 0x80)
            n--;
        t->filter[n - 1] = 0;
    } else if (key >= ' ' && key < 256 && n + 1 < sizeof(t->filter)) {
        t->filter[n] = (char)key;
        t->filter[n + 1] = 0;
    }
}

/* True when the daemon should be asked again at once. */
static bool on_key(struct top *t, int key)
{
    if (key == KEY_QUIT) {
        t->over = true;
        return false;
    }
    switch (t->m.mode) {
    case TOP_FILTER:
        key_in_filter(t, key);
        return t->m.mode == TOP_LIST;
    case TOP_LOG:
    case TOP_HELP:
        if (key == 'q' || key == KEY_ESCAPE || key == KEY_ENTER || t->m.mode == TOP_HELP)
            t->m.mode = TOP_LIST;
        return false;
    case TOP_ASK:
        t->m.mode = TOP_LIST;
        t->message[0] = 0;
        if (key == 'y' || key == 'Y')
            top_act(t);
        return true;
    default:
        key_in_list(t, key);
        return t->m.mode == TOP_LOG || key == 's';
    }
}

static void draw(struct top *t)
{
    AUTO(buf) struct buf frame = {0};

    t->c->out = term_detect(STDOUT_FILENO);
    t->m.rows = t->rows;
    t->m.counts = t->counts;
    t->m.nodes = json_get(t->nodes, "items");
    t->m.filter = t->filter;
    t->m.message = t->message;
    t->m.sort = sorts[t->sort];
    top_draw(&frame, &t->m, t->c->out.width, t->c->out.height, t->c->out.colour);
    tty_frame(&frame);
}

/* One thread: keys are not read while the daemon is asked. */
static void loop(struct top *t)
{
    int64_t next = 0;

    while (!t->over) {
        int64_t now = clock_mono(&clock_system);
        if (now >= next) {
            ask(t);
            next = clock_mono(&clock_system) + ASK_EVERY_MS;
        }
        draw(t);
        int key = tty_key((int)MAX(next - clock_mono(&clock_system), 0));
        if (key != KEY_NONE && on_key(t, key))
            next = 0;
    }
}

static int top_run(struct cli *c, const void *opts UNUSED, const struct operands *ops)
{
    struct top t = {.c = c};
    AUTO(json) struct json *meta = NULL;
    struct err e = {0};

    if (!c->out.is_tty || !isatty(STDIN_FILENO))
        return cli_refuse(
            "berth top needs a terminal; use berth ls, or berth ls -o json in scripts");
    AUTO_FREE char *filter = filter_text(ops);
    snprintf(t.filter, sizeof(t.filter), "%s", filter ? filter : "");
    t.m.version = c->program->version;
    c->no_reminder = true;
    buf_init(&t.log, 1 << 20);
    /* A first question outside the full screen: what goes wrong is then readable. */
    int rc = cli_get(c, "/v1", &meta, &e);
    if (rc == 0)
        rc = tty_open(&e);
    if (rc == 0)
        loop(&t);
    tty_close();
    json_free(t.rows);
    json_free(t.counts);
    json_free(t.nodes);
    buf_done(&t.log);
    return rc < 0 ? cli_fail(&e) : 0;
}

const struct command cmd_top = {
    BERTH_COMMAND(SECTION_LOOK, "top", "[OPTION…] [FILTER…]", top_run,
                  "watch the queue live on the whole terminal"),
    .description = "Keys: arrows or j k choose, l shows output, c cancels, r retries, / filters, s "
                   "changes the order, q quits.",
    .groups = OPTION_GROUPS(&common_group),
    .examples = EXAMPLES({"berth top", "running, queued and finished jobs, live; ? shows the keys"},
                         {"berth top 'project:mnist'", "only jobs that match a filter"}),
    OPERANDS("filter", 0, SIZE_MAX, COMPLETE_NONE),
};

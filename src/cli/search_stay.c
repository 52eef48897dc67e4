/* search_stay.c - staying with a search until it is over
 *
 * Owns: the live view.  The study is looked at some times a second; on a terminal a few lines are
 * drawn in place, elsewhere a line tells each new best and, now and then, how far the search is.
 * Ctrl-C pauses the search: trials that run go on and their results count, no new one starts.
 */
#include "base/clock.h"
#include "base/util.h"
#include "cli/progress.h"
#include "cli/search.h"
#include "cli/view.h"
#include <math.h>
#include <poll.h>

enum {
    SEARCH_LOOK_MIN_MS = 20,
    SEARCH_LOOK_MAX_MS = 250,
    SEARCH_PAGE = 1000,
    EXIT_PAUSED = 130,
};

int search_change_take(struct cli *c, const char *name, struct json *body, struct json **out,
                       struct err *e)
{
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    AUTO(json) struct json *own = body;
    AUTO(buf) struct buf path = {0};

    resource_path(&path, "studies", name, "");
    return cli_call(c, "PATCH", path.p, headers, own, out, e);
}

struct json *search_paused(bool paused)
{
    struct json *body = json_new_object();

    json_set_take(body, "paused", json_new_bool(paused));
    return body;
}

int search_trials(struct cli *c, const char *name, int64_t after,
                  void (*page)(void *arg, const struct json *items), void *arg, struct err *e)
{
    for (bool more = true; more;) {
        AUTO(buf) struct buf path = {0};
        AUTO(json) struct json *reply = NULL;
        resource_path(&path, "studies", name, "/trials");
        query_add_int(&path, "after", after);
        query_add_int(&path, "limit", SEARCH_PAGE);
        if (cli_get(c, path.p, &reply, e) < 0)
            return -1;
        page(arg, json_get(reply, "items"));
        more = json_get(reply, "next") != NULL && int_of(reply, "next") > after;
        after = int_of(reply, "next");
    }
    return 0;
}

struct curve_load {
    struct search_curve *curve;
    bool minimize;
};

static void load_page(void *arg, const struct json *items)
{
    const struct curve_load *l = arg;

    for (size_t i = 0; i < json_len(items); i++) {
        const struct json *value = json_get(json_at(items, i), "value");
        if (str_eq_c(text_of(json_at(items, i), "state"), "done"))
            search_curve_add(l->curve, value ? json_real(value) : NAN, l->minimize);
    }
}

int search_curve_load(struct cli *c, const struct json *study, struct search_curve *out,
                      struct err *e)
{
    struct curve_load l = {out, search_goal(study, 0).minimize};

    if (search_goals(study) > 1)
        return 0; /* there is no best value to follow */
    return search_trials(c, text_of(study, "name").p, 0, load_page, &l, e);
}

/* ---- the live view ---- */

struct stay {
    struct run_session *s;
    const char *name;
    bool quiet;
    struct search_curve curve;
    struct progress plain; /* the line now and then, where there is no terminal */
    int64_t start_ms, done_at_start, last_best;
    size_t drawn; /* lines of the frame on the terminal */
};

static void frame_wipe(struct stay *y)
{
    if (y->drawn)
        fputs("\r", stderr);
    if (y->drawn > 1)
        fprintf(stderr, "\033[%zuA", y->drawn - 1);
    if (y->drawn)
        fputs("\033[J", stderr);
    y->drawn = 0;
    fflush(stderr);
}

/* At the pace since this command looked first; 0 = not known. */
static int64_t time_left(const struct stay *y, const struct json *study)
{
    int64_t done = search_done_count(study), fresh = done - y->done_at_start;
    int64_t left = int_of(study, "trials") - done;
    int64_t spent = clock_mono(&clock_system) - y->start_ms;

    return fresh > 0 && left > 0 ? (int64_t)((double)spent / (double)fresh * (double)left) : 0;
}

static void draw_frame(struct stay *y, const struct json *study)
{
    const struct term *t = &y->s->c->err;
    AUTO(buf) struct buf b = {0};

    search_frame(&b, study, &y->curve, t->width > 1 ? t->width - 1 : 79, time_left(y, study),
                 t->colour);
    frame_wipe(y);
    fputs(b.p, stderr);
    fflush(stderr);
    y->drawn = 1;
    for (size_t i = 0; i < b.n; i++)
        y->drawn += b.p[i] == '\n';
}

static void say_progress(struct stay *y, const struct json *study)
{
    AUTO(json) struct json *counts = search_counts(study);
    AUTO(buf) struct buf best = {0};
    int64_t mark = search_best_mark(study);

    if (mark && mark != y->last_best) {
        search_best_text(&best, study);
        cli_say("best so far: %s", best.p);
        y->last_best = mark;
    }
    progress_show(&y->plain, counts);
}

/* One value per trial that has ended since the last look; between two looks the best counts. */
static void curve_follow(struct stay *y, const struct json *study)
{
    const struct json *best = json_get(json_get(study, "best"), "value");
    size_t done = (size_t)int_of(json_get(study, "counts"), "done");

    while (best && y->curve.best.n < done)
        search_curve_add(&y->curve, json_real(best), search_goal(study, 0).minimize);
}

static int stay_look(struct stay *y, struct json **out, struct err *e)
{
    if (resource_get(y->s->c, "studies", y->name, "", out, e) < 0)
        return -1;
    curve_follow(y, *out);
    if (y->quiet)
        return 0;
    if (y->s->c->err.is_tty)
        draw_frame(y, *out);
    else
        say_progress(y, *out);
    return 0;
}

/* Ends when the study is over, when somebody pauses it, or at Ctrl-C.  *study is the last record.
 */
static int stay_loop(struct stay *y, struct json **study, struct err *e)
{
    int nap = SEARCH_LOOK_MIN_MS;

    for (;;) {
        struct pollfd p = {y->s->interrupts[0], POLLIN, 0};
        char byte;
        json_free(TAKE(*study));
        if (stay_look(y, study, e) < 0)
            return -1;
        if (!str_eq_c(text_of(*study, "state"), "running"))
            return 0;
        if (poll(&p, 1, nap) > 0 && read(y->s->interrupts[0], &byte, 1) == 1)
            break;
        nap = MIN(nap * 2, SEARCH_LOOK_MAX_MS);
    }
    json_free(TAKE(*study));
    return search_change_take(y->s->c, y->name, search_paused(true), study, e);
}

/* ---- the end ---- */

static void say_end(struct stay *y, const struct json *study)
{
    struct cli *c = y->s->c;
    const struct json *counts = json_get(study, "counts");
    int64_t done = search_done_count(study), failed = int_of(counts, "failed");
    AUTO(buf) struct buf b = {0}, best = {0};
    char spent[UNIT_TEXT_MAX];

    search_best_text(&best, study);
    buf_addf(&b, "%s%s%s\n", c->out.colour ? colour_start(COLOUR_BOLD) : "",
             best.n ? best.p : "no trial has a result", c->out.colour ? colour_end() : "");
    for (size_t i = 0; i < json_len(json_get(study, "front")); i++) {
        search_front_text(&b, study, json_at(json_get(study, "front"), i));
        buf_addc(&b, '\n');
    }
    duration_format(clock_mono(&clock_system) - y->start_ms, spent);
    buf_addf(&b, "%lld trial%s (%lld now, in %s)", (long long)done, plural_end(done),
             (long long)(done - y->done_at_start), spent);
    if (failed)
        buf_addf(&b, ", %lld failed", (long long)failed);
    if (int_of(counts, "pruned"))
        buf_addf(&b, ", %lld stopped early", (long long)int_of(counts, "pruned"));
    buf_addc(&b, '\n');
    cli_print(&b);
    if (json_get(study, "best") && c->err.is_tty)
        cli_say("run the best trial again with: berth search best %s --run", y->name);
}

/* When nothing has a result, the first trial tells what is wrong with all of them. */
static void say_first_failure(struct stay *y)
{
    AUTO(json) struct json *page = NULL;
    struct err e;

    if (resource_get(y->s->c, "studies", y->name, "/trials?limit=1", &page, &e) < 0)
        return;
    const struct json *first = json_at(json_get(page, "items"), 0);
    struct str reason = text_of(first, "reason");
    if (reason.n && int_of(first, "job"))
        cli_say("trial %lld failed: " STR_FMT "; berth logs %lld shows its output",
                (long long)int_of(first, "number"), STR_ARG(reason),
                (long long)int_of(first, "job"));
}

static void say_paused(const struct stay *y, const struct json *study)
{
    int64_t running = int_of(json_get(study, "counts"), "running");

    if (running)
        cli_say("paused; %lld running trial%s end%s in the background and count",
                (long long)running, plural_end(running), running == 1 ? "s" : "");
    else
        cli_say("paused");
    cli_say("the same command, or berth search resume %s, continues the search", y->name);
}

int search_stay(struct run_session *s, const char *name, bool quiet)
{
    struct stay y = {.s = s, .name = name, .quiet = quiet};
    AUTO(json) struct json *study = NULL;
    struct err e = {0};

    y.start_ms = clock_mono(&clock_system);
    progress_init(&y.plain, s->c->err, name, quiet);
    int rc = resource_get(s->c, "studies", name, "", &study, &e);
    if (rc == 0) {
        y.done_at_start = search_done_count(study);
        y.last_best = search_best_mark(study);
        rc = search_curve_load(s->c, study, &y.curve, &e);
    }
    if (rc == 0)
        rc = stay_loop(&y, &study, &e);
    frame_wipe(&y);
    search_curve_done(&y.curve);
    if (rc < 0)
        return cli_fail(&e);
    if (cli_json(s->c))
        cli_print_json(study);
    else if (!quiet)
        say_end(&y, study);
    if (!search_over(study)) {
        say_paused(&y, study);
        return EXIT_PAUSED;
    }
    struct str why = text_of(study, "reason");
    if (why.n && !quiet)
        cli_say(STR_FMT, STR_ARG(why));
    if (search_has_best(study))
        return 0;
    say_first_failure(&y);
    return 1;
}

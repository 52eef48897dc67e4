/* cmd_watch.c - berth watch: changes as they happen, one line each */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"
#include "io/sse.h"
#include <poll.h>

enum { NAP_MS = 50 };

struct watch_opts {
    struct opt_num since;
};
static const struct opt watch_own[] = {
    {"since", 's', OPT_INT, "N", offsetof(struct watch_opts, since),
     "from event number N on (0: from the beginning)"},
};
static const struct opt_group watch_group = OPT_GROUP("Events", watch_own);

struct watching {
    struct cli *c;
    struct buf out;
};

/* One event may be about several jobs: "job 3-7".  Lists and objects in its data are left out. */
static void event_line(struct watching *w, const struct json *ev)
{
    struct str kind = text_of(ev, "kind");
    const struct json *data = json_get(ev, "data");
    int64_t first = int_of(ev, "job"), last = int_of(ev, "last");
    struct str state = str_starts(kind, STR("job.")) ? (struct str){kind.p + 4, kind.n - 4} : kind;
    char at[STAMP_TEXT_MAX];

    stamp_format(time_of(ev, "at"), at);
    buf_addf(&w->out, "%s  ", at + 11);
    colour_addf(&w->out, w->c->out.colour, state_colour(state), "%-12.*s", STR_ARG(state));
    if (first)
        buf_addf(&w->out, " job %lld", (long long)first);
    if (last > first)
        buf_addf(&w->out, "-%lld", (long long)last);
    for (struct json_it it = {0}; json_next(data, &it);) {
        if (!it.val || json_type(it.val) >= JSON_ARRAY)
            continue;
        AUTO_FREE char *text = json_type(it.val) == JSON_STR
                                   ? xstrndup(json_str(it.val).p, json_str(it.val).n)
                                   : json_text(it.val);
        if (*text)
            buf_addf(&w->out, "  %s=%s", it.key, text);
    }
    buf_addc(&w->out, '\n');
}

static bool watch_on_event(void *arg, const struct sse_event *ev)
{
    struct watching *w = arg;
    struct json *j = NULL;
    struct err e;

    if (cli_json(w->c)) {
        buf_addf(&w->out, STR_FMT "\n", STR_ARG(ev->data));
    } else if (json_parse(ev->data, "event", &j, &e) == 0) {
        event_line(w, j);
        json_free(j);
    }
    cli_print(&w->out);
    return true;
}

/* Ends only with an error or a signal.  After a break the stream resumes behind the last event
 * seen. */
static int watch(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct watch_opts *o = opts;
    struct watching w = {.c = c};
    struct sse s;
    struct err e = {0};
    bool resume = o->since.set;

    sse_init(&s, watch_on_event, &w);
    s.last_id = (uint64_t)o->since.v;
    /* Asks first, so that a daemon is there, and again whenever the stream broke. */
    while (cli_get(c, "/v1", NULL, &e) == 0) {
        AUTO(buf) struct buf path = {0};
        int status = 0;
        buf_adds(&path, "/v1/events");
        query_add(&path, "job", ops->n ? ops->p[0] : NULL);
        if (resume)
            query_add_int(&path, "after", (int64_t)s.last_id);
        http_call_stream(c->http, "GET", path.p, NULL, STR(""), &status, sse_feed, &s, &e);
        if (status >= 400 && status < 500) {
            err_set(&e, ERR_NOT_FOUND, "there are no events of job %s", ops->n ? ops->p[0] : "?");
            break;
        }
        resume = resume || s.last_id;
        poll(NULL, 0, NAP_MS);
    }
    sse_done(&s);
    buf_done(&w.out);
    return cli_fail(&e);
}
const struct command cmd_watch = {
    BERTH_COMMAND(SECTION_LOOK, "watch", "[OPTION…] [JOB]", watch, "print changes as they happen"),
    .description =
        "The stream continues across restarts of the daemon without a missed or repeated event.",
    OPTIONS(struct watch_opts, &watch_group, &output_group, &common_group),
    .examples = EXAMPLES(
        {"berth watch", "every change as it happens, until Ctrl-C"},
        {"berth watch 42", "only events of job 42"},
        {"berth watch --since 0 -o json", "the whole history, one JSON object a line, then live"}),
    OPERANDS("job", 0, 1, COMPLETE_JOB),
};

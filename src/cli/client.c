/* client.c - which daemon to speak to, and calls to it
 *
 * Owns: the choice of the daemon (--server, $BERTH_URL, the home's socket, the system daemon's
 * socket when the user has none of their own) and what happens when nobody answers.
 *
 * A call is repeated after a daemon came up.  That is safe: reads change nothing, cancelling twice
 * is cancelling once, and every submission carries an idempotency key.
 */
#include "base/file.h"
#include "base/util.h"
#include "cli/cli.h"
#include "host/host.h"
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

/* TRIES_MAX ends the loop when daemons start and leave again and again. */
enum { TRIES_MAX = 3, SLOW_S = 2 };
#define SYSTEM_DAEMON "unix:/var/lib/berth/sock"

int cli_find_home(struct cli *c, bool whole_machine, struct err *e)
{
    AUTO_FREE char *found = c->opt.home ? xstrdup(c->opt.home) : host_home(whole_machine);

    if (!found || !*found)
        return err_set(e, ERR_INVALID,
                       "the home directory of Berth is unknown: set BERTH_HOME or HOME");
    c->home = path_from_here(found);
    return 0;
}

/* Makes c->http for c->target.  No traffic: a wrong address shows at the first call. */
static int connect_to(struct cli *c, struct err *e)
{
    c->is_unix = !strncmp(c->target, "unix:", 5);
    if (!c->is_unix)
        return cli_connect_url(c, e);
    c->http = http_client_new(c->target, NULL, c->opt.ca_file);
    return 0;
}

/* May be called again: what is known already is kept. */
int cli_open(struct cli *c, struct err *e)
{
    const char *url = c->opt.server ? c->opt.server : getenv("BERTH_URL");

    if (!c->home && cli_find_home(c, false, e) < 0)
        return -1;
    if (c->http)
        return 0;
    if (!c->target)
        c->target = url && *url ? xstrdup(url) : xasprintf("unix:%s/sock", c->home);
    return connect_to(c, e);
}

/* NULL when the token cannot be read. */
struct http_client *cli_connect_again(const struct cli *c)
{
    struct cli copy = *c;
    struct err e;

    copy.http = NULL;
    return connect_to(&copy, &e) < 0 ? NULL : copy.http;
}

/* A user without a home of their own, on a machine with a system daemon, means that one. */
static bool try_system_daemon(struct cli *c)
{
    struct err e;

    if (c->opt.home || c->opt.server || getenv("BERTH_HOME") || getenv("BERTH_URL"))
        return false;
    if (!c->is_unix || !strcmp(c->target, SYSTEM_DAEMON) || !daemon_answers(SYSTEM_DAEMON))
        return false;
    http_client_free(c->http);
    c->http = NULL;
    free(c->target);
    c->target = xstrdup(SYSTEM_DAEMON);
    return connect_to(c, &e) == 0;
}

/* A daemon behind a URL is never started: it may be on another machine. */
static int nobody_answers(struct cli *c, struct err *e)
{
    if (!c->is_unix || !c->unreachable)
        return -1;
    if (c->opt.no_start)
        return err_set(
            e, ERR_UNAVAILABLE,
            "no daemon answers on %s; start a daemon with berth serve, or leave out --no-start",
            c->target + 5);
    return c->unreachable(c, e);
}

/* A signal handler: async-signal-safe functions only. */
static void on_slow(int signo UNUSED)
{
    static const char text[] = "berth: still waiting for the daemon's answer …\n";

    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
}

/* One call; on a terminal a line says so when the answer takes more than two seconds. */
static int call_once(struct cli *c, const char *method, const char *path,
                     const char *const *headers, struct str body, struct http_response *out,
                     struct err *e)
{
    /* follow_deadline uses the same timer.  A timer that is already set is left alone. */
    const struct itimerval soon = {.it_value = {.tv_sec = SLOW_S}}, off = {0};
    const struct sigaction sa = {.sa_handler = on_slow, .sa_flags = SA_RESTART};
    struct itimerval now;
    bool remind = c->err.is_tty && !c->no_reminder && getitimer(ITIMER_REAL, &now) == 0 &&
                  !now.it_value.tv_sec && !now.it_value.tv_usec;

    if (remind) {
        sigaction(SIGALRM, &sa, NULL);
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    *out = (struct http_response){0};
    int rc = http_call(c->http, method, path, headers, body, out, e);
    if (remind)
        setitimer(ITIMER_REAL, &off, NULL);
    if (rc == 0 && out->status >= 400)
        rc = http_response_err(out, e);
    if (rc < 0) {
        http_response_done(out);
        *out = (struct http_response){0};
    }
    return rc;
}

int cli_fetch(struct cli *c, const char *method, const char *path, const char *const *headers,
              struct str body, struct http_response *out, struct err *e)
{
    if (cli_open(c, e) < 0)
        return -1;
    for (int tries = 1;; tries++) {
        if (call_once(c, method, path, headers, body, out, e) == 0)
            return 0;
        /* Also the answer of one that is just leaving. */
        if (e->code != ERR_UNAVAILABLE || tries == TRIES_MAX)
            return -1;
        /* A daemon answers, so the call was cut off by its start or its end: repeat the call. */
        if (daemon_answers(c->target) || try_system_daemon(c))
            continue;
        if (nobody_answers(c, e) < 0)
            return -1;
    }
}

int cli_call(struct cli *c, const char *method, const char *path, const char *const *headers,
             const struct json *body, struct json **out, struct err *e)
{
    AUTO_FREE char *text = body ? json_text(body) : NULL;
    struct http_response r;
    struct json *j = NULL;
    int rc = 0;

    if (cli_fetch(c, method, path, headers, str_of(text), &r, e) < 0)
        return -1;
    if (r.body.n)
        rc = json_parse(buf_str(&r.body), "the daemon's answer", &j, e);
    http_response_done(&r);
    if (rc == 0 && out)
        *out = j;
    else
        json_free(j);
    return rc;
}

int cli_get(struct cli *c, const char *path, struct json **out, struct err *e)
{
    return cli_call(c, "GET", path, NULL, NULL, out, e);
}

int cli_getf(struct cli *c, struct json **out, struct err *e, const char *fmt, ...)
{
    char path[256];

    FORMAT_ARGS(path, fmt);
    return cli_get(c, path, out, e);
}

int cli_post(struct cli *c, const char *path, const struct json *body, struct json **out,
             struct err *e)
{
    static const char *const headers[] = {"Content-Type: application/json", NULL};

    return cli_call(c, "POST", path, headers, body, out, e);
}

void query_add(struct buf *b, const char *key, const char *value)
{
    if (!value)
        return;
    buf_addf(b, "%c%s=", b->p && strchr(b->p, '?') ? '&' : '?', key);
    url_encode(b, str_of(value));
}

void query_add_int(struct buf *b, const char *key, int64_t value)
{
    AUTO_FREE char *text = xasprintf("%lld", (long long)value);

    query_add(b, key, text);
}

void resource_path(struct buf *b, const char *kind, const char *name, const char *rest)
{
    enum { PATH_TEXT_MAX = 1 << 20 };

    buf_init(b, PATH_TEXT_MAX);
    buf_addf(b, "/v1/%s/", kind);
    url_encode(b, str_of(name));
    buf_adds(b, rest);
}

int resource_get(struct cli *c, const char *kind, const char *name, const char *rest,
                 struct json **out, struct err *e)
{
    AUTO(buf) struct buf path = {0};

    resource_path(&path, kind, name, rest);
    return cli_get(c, path.p, out, e);
}

int resource_post(struct cli *c, const char *kind, const char *name, const char *rest)
{
    AUTO(buf) struct buf path = {0};
    struct err e = {0};

    resource_path(&path, kind, name, rest);
    return cli_post(c, path.p, NULL, NULL, &e) < 0 ? cli_fail(&e) : 0;
}

int resource_act(struct cli *c, const char *kind, const struct resource_verb *verbs,
                 const char *user, const struct operands *ops, resource_fn print, const char *usage)
{
    const struct resource_verb *v = verbs;
    int status = 0;

    while (v->verb && (ops->n < 2 || strcmp(v->verb, ops->p[0]) != 0))
        v++;
    if (!v->verb)
        return cli_refuse("%s", usage);
    for (size_t i = 1; i < ops->n && status == 0; i++) {
        AUTO(json) struct json *reply = NULL;
        AUTO(buf) struct buf path = {0};
        struct err e = {0};
        resource_path(&path, kind, ops->p[i], v->rest);
        query_add(&path, "user", user);
        if (cli_call(c, v->method, path.p, NULL, NULL, &reply, &e) < 0)
            return cli_fail(&e);
        status = reply && print ? print(c, v->verb, reply) : 0;
    }
    return status;
}

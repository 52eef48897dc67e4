/* engine.c - a container engine behind its unix socket
 *
 * Owns: where the socket is looked for, one connection per question, and the words of an engine
 * that refuses.  Docker and Podman speak the same interface; paths carry no version, which means
 * the newest one the engine has, and what is asked here is older than any engine still in use.
 */
#include "backend/docker/docker_priv.h"
#include "base/clock.h"
#include "base/util.h"
#include "io/http_exchange.h"
#include "io/unix_addr.h"
#include <ctype.h>
#include <errno.h>
#include <poll.h>

enum { SURVEY_MS = 5000, ID_SHOWN = 12 };

/* ---- where it is ---- */

static int not_unix(const char *given, struct err *e)
{
    return err_set(e, ERR_INVALID,
                   "container engine '%.100s' is not a unix socket; use an address such as "
                   "unix:///run/docker.sock",
                   given);
}

/* The path in "unix:///run/docker.sock", "unix:/run/docker.sock" or "/run/docker.sock". */
static char *socket_path(const char *given, struct err *e)
{
    struct str s = str_of(given), scheme = STR("unix:");

    if (str_starts(s, scheme))
        s = (struct str){s.p + scheme.n, s.n - scheme.n};
    while (s.n > 1 && s.p[0] == '/' && s.p[1] == '/')
        s = (struct str){s.p + 1, s.n - 1};
    if (!s.n || s.p[0] != '/') {
        not_unix(given, e);
        return NULL;
    }
    return xstrndup(s.p, s.n);
}

char *engine_find(const char *given, struct err *e)
{
    char own[2][64];
    const char *usual[] = {"/var/run/docker.sock", "/run/podman/podman.sock", own[0], own[1]};
    const char *host = given && *given ? given : getenv("DOCKER_HOST");

    if (host && *host)
        return socket_path(host, e);
    snprintf(own[0], sizeof(own[0]), "/run/user/%u/docker.sock", (unsigned)getuid());
    snprintf(own[1], sizeof(own[1]), "/run/user/%u/podman/podman.sock", (unsigned)getuid());
    for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
        if (access(usual[i], F_OK) == 0)
            return xstrdup(usual[i]);
    err_set(e, ERR_UNAVAILABLE,
            "no container engine: neither /var/run/docker.sock nor /run/podman/podman.sock is "
            "there; start Docker or Podman, or name its socket with berth serve --engine");
    return NULL;
}

/* ---- one connection ---- */

/* One connection with one request and its answer. */
struct engine_stream {
    int fd;
    struct http_exchange *exchange;
    struct http_exchange_fns fns;
};

static int no_engine(const struct engine *g, struct err *e)
{
    const char *hint = errno == EACCES || errno == EPERM
                           ? "; the user of the job must be allowed to use it (group docker)"
                           : "; is it running?";

    return err_set(e, ERR_UNAVAILABLE, "the container engine does not answer at %.100s (%s)%s",
                   g->path, strerrordesc_np(errno) ?: "unknown error", hint);
}

/* Sends the whole request, blocking; the answer is read later. */
static int stream_request(struct engine_stream **out, const struct engine *g, const char *method,
                          const char *path, const struct json *body, engine_bytes_fn fn, void *arg,
                          struct err *e)
{
    AUTO_FREE char *text = body ? json_text(body) : NULL;
    struct http_request request = {method, path, .body = str_of(text ? text : ""), .close = true};

    if (request.body.n > ENGINE_BODY_MAX)
        return err_set(e, ERR_LIMIT, "the request to the container engine is too long");
    AUTO_FD fd = unix_connect(g->path, 0);
    if (fd < 0)
        return no_engine(g, e);
    struct engine_stream *s = xcalloc(1, sizeof(*s));
    s->fd = TAKE_FD(fd);
    s->fns.body = fn;
    s->exchange = http_exchange_new(&request, &s->fns, arg);
    http_exchange_send(s->exchange, s->fd, NULL);
    *out = s;
    return 0;
}

int engine_stream_open(struct engine_stream **out, const struct engine *g, const char *method,
                       const char *path, engine_bytes_fn fn, void *arg, struct err *e)
{
    return stream_request(out, g, method, path, NULL, fn, arg, e);
}

void engine_stream_free(struct engine_stream *s)
{
    if (!s)
        return;
    close(s->fd);
    http_exchange_free(s->exchange);
    free(s);
}

int engine_stream_fd(const struct engine_stream *s)
{
    return s->fd;
}

int engine_stream_status(const struct engine_stream *s)
{
    return http_exchange_status(s->exchange);
}

int engine_stream_read(struct engine_stream *s, struct err *e)
{
    int more = http_exchange_receive(s->exchange, s->fd, MSG_DONTWAIT, e);

    return more < 0 ? err_wrap(e, "the container engine") : more;
}

/* ---- questions ---- */

static bool collect(void *arg, struct str piece)
{
    return buf_add(arg, piece.p, piece.n);
}

/* `limit_ms` is for the whole answer, not for each piece. */
static int read_whole(struct engine_stream *s, int64_t limit_ms, struct err *e)
{
    int64_t end = clock_mono(&clock_system) + limit_ms;
    int more = 1;

    while (more == 1) {
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        int64_t left = end - clock_mono(&clock_system);
        if (left <= 0)
            return err_set(e, ERR_UNAVAILABLE, "the container engine did not answer within %lld s",
                           (long long)(limit_ms / 1000));
        if (poll(&p, 1, (int)left) > 0)
            more = engine_stream_read(s, e);
    }
    return more;
}

int engine_ask(const struct engine *g, const char *method, const char *path,
               const struct json *body, int64_t limit_ms, int *status, struct json **out,
               struct err *e)
{
    AUTO(buf) struct buf text = {0};
    struct engine_stream *s;
    AUTO(json) struct json *tree = NULL;

    buf_init(&text, ENGINE_BODY_MAX);
    if (stream_request(&s, g, method, path, body, collect, &text, e) < 0)
        return -1;
    int rc = read_whole(s, limit_ms, e);
    *status = engine_stream_status(s);
    engine_stream_free(s);
    if (rc < 0)
        return -1;
    if (text.overflow)
        return err_set(e, ERR_LIMIT, "the container engine answered more than %d MiB to %s",
                       ENGINE_BODY_MAX >> 20, path);
    struct str said = str_trim(buf_str(&text));
    struct err ignored;
    if (said.n && said.p[0] != '{' && said.p[0] != '[') { /* words, as some proxies answer */
        tree = json_new_object();
        AUTO_FREE char *words = xstrndup(said.p, MIN(said.n, 200));
        json_set_str(tree, "message", words);
    } else if (said.n && json_parse(said, "the container engine's answer", &tree, &ignored) < 0) {
        return err_set(e, ERR_UNAVAILABLE, "%s", ignored.text);
    }
    if (out)
        *out = TAKE(tree);
    return 0;
}

void engine_complaint(const struct json *answer, int status, char *out, size_t n)
{
    const struct json *message = json_get(answer, "message");
    struct str s = json_type(message) == JSON_STR ? str_trim(json_str(message)) : STR("");

    if (!s.n) {
        snprintf(out, n, "the container engine answered with status %d", status);
        return;
    }
    size_t used = 0, hex = 0;
    for (size_t i = 0; i < s.n && used + 1 < n; i++) {
        char c = s.p[i];
        hex = isxdigit((unsigned char)c) ? hex + 1 : 0;
        if (hex <= ID_SHOWN) /* of an id of 64 digits the beginning tells enough */
            out[used++] = (unsigned char)c < ' ' || c == 0x7f ? ' ' : c;
    }
    out[used] = 0;
}

/* ERR_UNAVAILABLE is not among them: an engine that answers is there. */
static enum err_code code_of(int status)
{
    switch (status) {
    case 400:
        return ERR_INVALID;
    case 403:
        return ERR_DENIED;
    case 404:
        return ERR_NOT_FOUND;
    case 409:
        return ERR_CONFLICT;
    default:
        return ERR_INTERNAL;
    }
}

int engine_call(const struct engine *g, const char *method, const char *path,
                const struct json *body, struct json **out, struct err *e)
{
    AUTO(json) struct json *answer = NULL;
    char words[240];
    int status;

    if (engine_ask(g, method, path, body, ENGINE_CALL_MS, &status, &answer, e) < 0)
        return -1;
    if ((status < 200 || status > 299) && status != 304) {
        engine_complaint(answer, status, words, sizeof(words));
        return err_set(e, code_of(status), "%s", words);
    }
    if (out)
        *out = TAKE(answer);
    return 0;
}

/* ---- who it is ---- */

static bool list_has_word(const struct json *list, const char *key, const char *word)
{
    for (size_t i = 0; i < json_len(list); i++) {
        const struct json *one = json_at(list, i), *v = key ? json_get(one, key) : one;
        if (json_type(v) == JSON_STR && json_str(v).n >= strlen(word) &&
            memmem(json_str(v).p, json_str(v).n, word, strlen(word)))
            return true;
    }
    return false;
}

int engine_open(struct engine *g, const char *given, struct err *e)
{
    AUTO(json) struct json *version = NULL, *info = NULL;

    *g = (struct engine){.path = engine_find(given, e)};
    if (!g->path)
        return -1;
    if (engine_call(g, "GET", "/version", NULL, &version, e) < 0 ||
        engine_call(g, "GET", "/info", NULL, &info, e) < 0) {
        engine_done(g);
        return -1;
    }
    g->podman = list_has_word(json_get(version, "Components"), "Name", "Podman");
    g->rootless = list_has_word(json_get(info, "SecurityOptions"), NULL, "rootless");
    return 0;
}

void engine_done(struct engine *g)
{
    free(g->path);
    g->path = NULL;
}

int engine_survey(const char *given, struct buf *text, struct err *e)
{
    struct engine g = {.path = engine_find(given, e)};
    AUTO(json) struct json *answer = NULL;
    int status = 0;

    if (!g.path)
        return -1;
    int rc = engine_ask(&g, "GET", "/version", NULL, SURVEY_MS, &status, &answer, e);
    if (rc == 0 && status != 200)
        rc = err_set(e, ERR_UNAVAILABLE,
                     "the server at %.100s is not a container engine; check --engine", g.path);
    if (rc == 0) {
        const struct json *version = json_get(answer, "Version");
        struct str v = json_type(version) == JSON_STR ? json_str(version) : STR("?");
        bool podman = list_has_word(json_get(answer, "Components"), "Name", "Podman");
        buf_addf(text, "%s " STR_FMT " answers at %s", podman ? "Podman" : "Docker", STR_ARG(v),
                 g.path);
    }
    engine_done(&g);
    return rc;
}

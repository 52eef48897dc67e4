/* runner.c - the process that stands for one container
 *
 * Owns: the life of a container from the first question to its removal.  It is the command of an
 * ordinary run, so the shepherd supervises it like any other: limits on time, stops and signals
 * come as signals, its output is the log, its end is the end of the run.
 *
 *   older ones away → image → network → create → attach → start → follow → remove
 *
 * Two connections stay open while it runs: its output, and the question how it ended.  When either
 * breaks without an answer the engine went away; containers may well have survived that (Podman has
 * no daemon, Docker has live-restore), so the process waits for the engine, reads the output again
 * from the beginning, leaves out what it has written, and goes on.
 *
 * The process ends as the container did: same status, same signal.  What an exit status cannot say
 * stands in a file for the supervisor (shepherd/verdict.c).
 */
#include "backend/docker/runner_priv.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/units.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/sysinfo.h>

enum {
    RETRY_MS = 250,      /* an engine that is away is asked again after this, */
    RETRY_MAX_MS = 2000, /* and this at most; */
    PATIENCE_MS = 15000, /* after so long the log says that we wait */
    DRAIN_MS = 15000,    /* output of a container that has ended; then it is read from the log */
    SIGNAL_MS = 10000,   /* to deliver a signal */
    REMOVE_TRIES = 3,
    NOT_STARTED = 125, /* our own status when there is none of the container */
};

/* ---- the log ---- */

/* Never gives up: output that was read from the engine would be lost. */
static void stream_write(int fd, struct str s)
{
    while (s.n > 0) {
        ssize_t n = write(fd, s.p, s.n);
        if (n > 0) {
            s = (struct str){s.p + n, s.n - (size_t)n};
        } else if (errno != EINTR) { /* a full disk: the container waits until there is room */
            struct timespec t = {.tv_nsec = RETRY_MS * 1000000L};
            nanosleep(&t, NULL);
        }
    }
}

void runner_say(const char *fmt, ...)
{
    AUTO(buf) struct buf b = {0};
    va_list ap;

    buf_init(&b, 1 << 16);
    buf_adds(&b, "berth: ");
    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    buf_addc(&b, '\n');
    stream_write(STDERR_FILENO, buf_str(&b));
}

static bool on_output(void *arg, int stream, struct str bytes)
{
    (void)arg;
    stream_write(stream == 2 ? STDERR_FILENO : STDOUT_FILENO, bytes);
    return true;
}

/* ---- the end ---- */

/* Best effort.  Without the file the run counts as exited with our own status. */
static void leave_word(const struct runner *r, const char *kind, const char *name)
{
    AUTO_FREE char *path = path_join(r->f.run_dir, CONTAINER_END_FILE);
    AUTO_FREE char *line = xasprintf("%s %s\n", kind, name);
    AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct err e;

    if (fd >= 0)
        fd_write_all(fd, line, strlen(line), &e);
}

static void remove_container(struct runner *r)
{
    struct err e = {0};

    for (int i = 0; i < REMOVE_TRIES; i++) {
        if (container_remove(&r->g, r->f.name, &e) == 0)
            return;
        struct timespec t = {.tv_sec = 1};
        nanosleep(&t, NULL);
    }
    runner_say("container %s could not be removed: %s; the daemon does it at its next start",
               r->f.name, e.text);
}

void runner_fail(struct runner *r, const char *kind, const char *name, const char *fmt, ...)
{
    char text[1000];

    FORMAT_ARGS(text, fmt);
    runner_say("%s", text);
    leave_word(r, kind, name);
    if (r->g.path && strcmp(kind, "engine") != 0)
        remove_container(r);
    _exit(NOT_STARTED);
}

/* By a signal when that is how the container ended, with its status else. */
static _Noreturn void end_as(int code)
{
    int signo = code > 128 && code <= 128 + SIGRTMAX ? code - 128 : 0;

    if (signo) {
        struct rlimit none = {0, 0};
        sigset_t set;
        setrlimit(RLIMIT_CORE, &none);
        prctl(PR_SET_DUMPABLE, 0);
        signal(signo, SIG_DFL);
        sigemptyset(&set);
        sigaddset(&set, signo);
        raise(signo);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
    _exit(code < 0 || code > 255 ? NOT_STARTED : code);
}

/* ---- signals ---- */

/* A signalfd.  All signals are blocked and read from it, to be passed on to the container,
 * except those that a fault of this process raises. */
static int runner_watch_signals(void)
{
    static const int ours[] = {SIGSEGV, SIGBUS, SIGILL,  SIGFPE, SIGABRT,
                               SIGTRAP, SIGSYS, SIGCHLD, SIGPIPE};
    sigset_t set;

    sigfillset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
        sigdelset(&set, ours[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static bool stop_answer(void *arg, struct str piece)
{
    (void)arg;
    (void)piece;
    return true;
}

/* TERM (or what the image says), the grace, KILL: all of it by the engine. */
static void container_stop(struct runner *r)
{
    AUTO_FREE char *after = xasprintf("/stop?t=%lld", (long long)((r->f.grace_ms + 999) / 1000));
    AUTO_FREE char *path = engine_path("/containers/", r->f.name, after);
    struct err e = {0};

    engine_stream_free(r->stop);
    r->stop = NULL;
    if (engine_stream_open(&r->stop, &r->g, "POST", path, stop_answer, NULL, &e) < 0)
        r->stop = NULL; /* asked again once the engine is back */
}

/* A failure is ignored: the container has just ended, or the engine is away. */
static void pass_on(struct runner *r, int signo)
{
    AUTO_FREE char *after = xasprintf("/kill?signal=%d", signo);
    AUTO_FREE char *path = engine_path("/containers/", r->f.name, after);
    struct err e = {0};
    int status;

    engine_ask(&r->g, "POST", path, NULL, SIGNAL_MS, &status, NULL, &e);
}

void runner_signals(struct runner *r)
{
    struct signalfd_siginfo info;

    while (read(r->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int signo = (int)info.ssi_signo;
        if (!r->started && (signo == SIGTERM || signo == SIGINT || signo == SIGHUP)) {
            remove_container(r);
            end_as(128 + signo);
        }
        if (!r->started)
            continue;
        if (signo != SIGTERM) {
            pass_on(r, signo);
        } else if (!r->stopping) {
            r->stopping = true;
            container_stop(r);
        }
    }
}

/* ---- following ---- */

static bool feed_frames(void *arg, struct str piece)
{
    struct runner *r = arg;

    if (engine_stream_status(r->output) != 200) /* the words of a refusal */
        return buf_add(&r->refusal, piece.p, piece.n);
    return frames_feed(&r->frames, piece);
}

/* The answer is complete only when the stream ends; on_wait reads it then. */
static bool feed_wait(void *arg, struct str piece)
{
    return buf_add(&((struct runner *)arg)->wait_text, piece.p, piece.n);
}

/* The engine's log is read from its beginning; frames_again has what was written before left
 * out. */
static int open_output(struct runner *r, const char *way, struct err *e)
{
    AUTO_FREE char *path = engine_path("/containers/", r->f.name, way);

    engine_stream_free(r->output);
    r->output = NULL;
    r->output_done = false;
    buf_reset(&r->refusal);
    frames_again(&r->frames);
    const char *method = strstr(way, "/attach") ? "POST" : "GET";
    return engine_stream_open(&r->output, &r->g, method, path, feed_frames, r, e);
}

static int open_wait(struct runner *r, struct err *e)
{
    AUTO_FREE char *path = engine_path("/containers/", r->f.name, "/wait?condition=not-running");

    engine_stream_free(r->wait);
    r->wait = NULL;
    buf_reset(&r->wait_text);
    return engine_stream_open(&r->wait, &r->g, "POST", path, feed_wait, r, e);
}

/* Closes everything; runner_reconnect opens it again. */
static void lose_engine(struct runner *r)
{
    engine_stream_free(r->output);
    engine_stream_free(r->wait);
    engine_stream_free(r->stop);
    r->output = r->wait = r->stop = NULL;
    r->output_done = false;
    r->lost = true;
}

/* {"StatusCode":3,"Error":null}; anything else is what an engine says that shuts down. */
static void on_wait(struct runner *r)
{
    AUTO(json) struct json *answer = NULL;
    struct err e;

    engine_stream_free(TAKE(r->wait));
    if (json_parse(str_trim(buf_str(&r->wait_text)), "wait", &answer, &e) == 0) {
        const struct json *code = json_get(answer, "StatusCode");
        if (json_type(code) == JSON_INT && json_int(code) >= 0 && !json_get(answer, "Error"))
            r->code = (int)MIN(json_int(code), 255);
    }
    if (r->code < 0)
        lose_engine(r);
    else
        r->drain_ms = clock_mono(&clock_system) + DRAIN_MS;
}

static void on_output_read(struct runner *r)
{
    struct err e = {0};
    int more = engine_stream_read(r->output, &e);

    if (more == 1)
        return;
    bool whole =
        more == 0 && engine_stream_status(r->output) == 200 && !r->frames.left && !r->frames.head_n;
    engine_stream_free(TAKE(r->output));
    if (whole)
        r->output_done = true;
    else
        lose_engine(r);
}

/* The answer says nothing that the end of the container does not say. */
static void on_stop_read(struct runner *r)
{
    struct err e = {0};

    if (engine_stream_read(r->stop, &e) != 1)
        engine_stream_free(TAKE(r->stop));
}

/* Until something is to do; false: the engine is lost. */
static bool runner_wait(struct runner *r)
{
    struct engine_stream *s[] = {r->output, r->wait, r->stop};
    struct pollfd fds[1 + ARRAY_SIZE(s)] = {{.fd = r->signals, .events = POLLIN}};
    int64_t left = r->drain_ms ? r->drain_ms - clock_mono(&clock_system) : -1;

    for (size_t i = 0; i < ARRAY_SIZE(s); i++)
        fds[1 + i] = (struct pollfd){.fd = s[i] ? engine_stream_fd(s[i]) : -1, .events = POLLIN};
    if (r->drain_ms && left <= 0) { /* its end does not come; what is missing is in the log */
        lose_engine(r);
        return false;
    }
    if (poll(fds, ARRAY_SIZE(fds), (int)left) <= 0)
        return true;
    if (fds[1].revents)
        on_output_read(r);
    if (fds[2].revents && r->wait) {
        struct err e = {0};
        if (engine_stream_read(r->wait, &e) != 1)
            on_wait(r);
    }
    if (fds[3].revents && r->stop)
        on_stop_read(r);
    if (fds[0].revents)
        runner_signals(r);
    return !r->lost;
}

/* Sleeps, but deals with signals at once. */
static void nap(struct runner *r, int64_t ms)
{
    struct pollfd p = {.fd = r->signals, .events = POLLIN};

    if (poll(&p, 1, (int)ms) > 0)
        runner_signals(r);
}

/* Back in touch: 0; the engine is still away: -1 with ERR_UNAVAILABLE. */
static int runner_reconnect(struct runner *r, struct err *e)
{
    AUTO_FREE char *path = engine_path("/containers/", r->f.name, "/json");

    if (engine_call(&r->g, "GET", path, NULL, NULL, e) < 0)
        return -1;
    if (open_output(r, "/logs?follow=1&stdout=1&stderr=1", e) < 0 || open_wait(r, e) < 0)
        return err_set(e, ERR_UNAVAILABLE, "gone again");
    if (r->stopping)
        container_stop(r);
    r->lost = false;
    r->drain_ms = 0;
    return 0;
}

static void find_engine(struct runner *r)
{
    int64_t began = clock_mono(&clock_system), wait = RETRY_MS;
    bool told = false;
    struct err e = {0};

    if (!r->was_started)
        nap(r, RETRY_MS); /* an engine that hangs up on us again and again is not asked faster */
    while (runner_reconnect(r, &e) < 0) {
        if (e.code == ERR_NOT_FOUND)
            runner_fail(r, "gone", r->f.name,
                        "container %s no longer exists: a user or the engine removed it",
                        r->f.name);
        lose_engine(r);
        if (!told && clock_mono(&clock_system) - began > PATIENCE_MS) {
            runner_say("the container engine does not answer; retrying (%s)", e.text);
            told = true;
        }
        nap(r, wait);
        wait = MIN(wait * 2, RETRY_MAX_MS);
    }
}

/* Both are needed: how the container ended, and its output to the end. */
static void container_follow(struct runner *r)
{
    while (r->code < 0 || !r->output_done)
        if (!runner_wait(r))
            find_engine(r);
}

/* ---- starting ---- */

static bool has_words(const char *text, const char *a, const char *b)
{
    return strstr(text, a) && strstr(text, b);
}

static _Noreturn void container_start_failed(struct runner *r, const struct err *e)
{
    const struct json *command = json_get(r->f.doc, "command");
    struct str word = json_len(command) ? json_str(json_at(command, 0)) : STR("");
    AUTO_FREE char *name = xstrndup(word.p ? word.p : "", word.n);

    if (e->code == ERR_UNAVAILABLE)
        runner_fail(r, "engine", "", "%s", e->text);
    if (strstr(e->text, "executable file not found") ||
        has_words(e->text, "exec", "no such file or directory"))
        runner_fail(r, "exec", name, "the command was not found in image %s: %s", r->f.image,
                    e->text);
    runner_fail(r, "container", r->f.image, "the container cannot be started: %s", e->text);
}

static int container_start(struct runner *r, struct err *e)
{
    AUTO_FREE char *path = engine_path("/containers/", r->f.name, "/start");

    return engine_call(&r->g, "POST", path, NULL, NULL, e);
}

/* Its output is ours before it runs: the head of the answer says that the engine is attached. */
static int attach(struct runner *r, struct err *e)
{
    AUTO(json) struct json *words = NULL;
    char text[240];
    int more = 1;

    if (open_output(r, "/attach?stream=1&stdout=1&stderr=1", e) < 0)
        return -1;
    while (more == 1 && engine_stream_status(r->output) != 200) {
        struct pollfd p = {.fd = engine_stream_fd(r->output), .events = POLLIN};
        if (poll(&p, 1, ENGINE_CALL_MS) == 0)
            return err_set(e, ERR_UNAVAILABLE,
                           "the container engine refused to attach to the output");
        more = engine_stream_read(r->output, e);
    }
    if (more == 1)
        return 0;
    if (more < 0)
        return -1;
    json_parse(str_trim(buf_str(&r->refusal)), "refusal", &words, e); /* Podman makes it here */
    engine_complaint(words, engine_stream_status(r->output), text, sizeof(text));
    return err_set(e, ERR_INTERNAL, "%s", text);
}

static void runner_begin(struct runner *r)
{
    struct err e = {0};

    if (r->was_started) { /* its output is read from the beginning */
        r->started = r->lost = true;
        find_engine(r);
        return;
    }
    runner_signals(r); /* last chance to end without having begun */
    int rc = attach(r, &e) < 0 ? -1 : container_start(r, &e);
    if (rc < 0 && setup_without_init(r, &e)) {
        setup_create(r);
        rc = attach(r, &e) < 0 ? -1 : container_start(r, &e);
    }
    if (rc < 0)
        container_start_failed(r, &e);
    r->started = true;
    if (open_wait(r, &e) < 0)
        lose_engine(r);
    if (r->lost)
        find_engine(r);
}

/* ---- all of it ---- */

/* What a status does not tell: whether it ran out of memory. */
static void runner_read_oom(struct runner *r)
{
    AUTO_FREE char *path = engine_path("/containers/", r->f.name, "/json");
    AUTO(json) struct json *about = NULL;
    char limit[UNIT_TEXT_MAX];
    struct err e = {0};

    if (engine_call(&r->g, "GET", path, NULL, &about, &e) < 0)
        return;
    const struct json *oom = json_get(json_get(about, "State"), "OOMKilled");
    bool told = json_type(oom) == JSON_BOOL && json_bool(oom);
    /* Podman does not always notice; nobody else kills a container that was not asked to stop. */
    bool likely = r->g.podman && r->f.mem_bytes && r->code == 128 + SIGKILL && !r->stopping;
    if (r->code == 0 || (!told && !likely))
        return;
    size_format(r->f.mem_bytes, limit);
    runner_say("out of memory: the container %s its limit%s%s",
               told ? "reached" : "was killed, most likely at", r->f.mem_bytes ? " of " : "",
               r->f.mem_bytes ? limit : "");
    leave_word(r, "oom", "");
}

/* Supplementary groups of the submitter, without the primary group, which the container gets as
 * part of its user. */
static void read_groups(struct runner *r)
{
    int n = getgroups(0, NULL);

    if (n <= 0)
        return;
    r->groups = xcalloc((size_t)n, sizeof(gid_t));
    n = getgroups(n, r->groups);
    for (int i = 0; i < n; i++)
        if (r->groups[i] != r->f.gid)
            r->groups[r->n_groups++] = r->groups[i];
}

/* The facts, put together from their pieces. */
/* The caller frees it.  Empty when the environment has no facts, which facts_parse refuses. */
static char *facts_text(void)
{
    AUTO(buf) struct buf b = {0};
    char name[sizeof(CONTAINER_FACTS) + 12];
    const char *piece = getenv(CONTAINER_FACTS);

    buf_init(&b, ENGINE_BODY_MAX);
    for (int i = 1; piece; i++) {
        buf_adds(&b, piece);
        snprintf(name, sizeof(name), CONTAINER_FACTS "%d", i);
        piece = getenv(name);
    }
    return buf_take(&b, NULL);
}

void container_run(void)
{
    struct runner r = {.signals = runner_watch_signals(), .code = -1};
    AUTO_FREE char *text = facts_text();
    struct err e = {0};

    buf_init(&r.wait_text, 1 << 16);
    buf_init(&r.refusal, 1 << 16);
    r.frames.out = on_output;
    if (facts_parse(&r.f, str_of(text), &e) < 0) {
        runner_say("%s", e.text);
        _exit(err_exit_code(e.code));
    }
    read_groups(&r);
    int64_t all_mcpu = get_nprocs() * INT64_C(1000);
    r.f.mcpu = MIN(r.f.mcpu, all_mcpu); /* engines refuse more than there is */
    if (engine_open(&r.g, r.f.engine, &e) < 0)
        runner_fail(&r, "engine", "", "image %s cannot be used: %s", r.f.image, e.text);
    if (volumes_check(&r.f, &e) < 0)
        runner_fail(&r, "container", r.f.image, "%s", e.text);
    setup_evict(&r);
    setup_image(&r);
    setup_network(&r);
    setup_create(&r);
    runner_begin(&r);
    container_follow(&r);
    runner_read_oom(&r);
    remove_container(&r);
    end_as(r.code);
}

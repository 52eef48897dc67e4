/* child.c - the ssh process of a connection
 *
 * Owns: its command line, environment and descriptors.  The user's ssh_config is honoured in full;
 * what is said here is what a connection without a person in front of it needs.  BERTH_SSH names
 * another program to call as ssh.
 *
 * A password or passphrase is in a memory file of ours that the program ssh asks (berth-far again)
 * opens by way of /proc while the connection is made: it is on no command line, in no environment
 * and on no disk.
 */
#include "backend/ssh/ssh_priv.h"
#include "base/file.h"
#include "base/spawn.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

/* Words of one command line or of our part of an environment, with the NULL.  ALIVE_*: seconds
 * and count for ssh's own check of the connection. */
enum { WORDS_MAX = 48, ALIVE_S = 15, ALIVE_COUNT = 3 };

/* ---- our own programs ---- */

/* NULL when there is no such program that can be executed; otherwise the caller frees it. */
static char *program_beside(const char *exe, const char *dir, const char *name)
{
    AUTO_FREE char *copy = xstrdup(exe);
    char *path = xasprintf("%s/%s%s", dirname(copy), dir, name);

    if (access(path, X_OK) == 0)
        return path;
    free(path);
    return NULL;
}

char *child_find(const char *variable, const char *name)
{
    static const char *const dirs[] = {
        "", "../libexec/berth/", "../../bin/", "../far/",
        "../shepherd/" /* the last two: in the build directory */
    };
    const char *said = getenv(variable);
    char exe[4096], *found = NULL;
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    if (said && said[0])
        return xstrdup(said);
    exe[MAX(n, 0)] = 0;
    for (size_t i = 0; n > 0 && i < ARRAY_SIZE(dirs) && !found; i++)
        found = program_beside(exe, dirs[i], name);
    return found;
}

/* ---- words ---- */

struct words {
    char *p[WORDS_MAX];
    size_t n;
};

static void words_add(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void words_add(struct words *w, const char *fmt, ...)
{
    struct buf b;
    va_list ap;

    ASSERT(w->n < WORDS_MAX - 1);
    buf_init(&b, 1 << 20);
    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    w->p[w->n++] = buf_take(&b, NULL);
}

#define option(w, ...) (words_add(w, "-o"), words_add(w, __VA_ARGS__))

static void words_done(struct words *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->p[i]);
}

/* A key that was given is written beside the home under the name of the node: it is no secret. */
static int own_known_hosts(const struct backend *b, char **out, struct err *e)
{
    AUTO_FREE char *dir = path_join(b->home, "nodes"), *name = xstrdup(b->conf.name);

    for (char *p = name; *p; p++)
        if (*p == '/' || *p == '"' || *p == ' ')
            *p = '_';
    AUTO_FREE char *path = xasprintf("%s/%s.known_hosts", dir, name),
                   *line = xasprintf("berth-node %s\n", b->conf.host_key);
    if (dir_make_all(dir, 0700, e) < 0 || file_write_atomic(path, line, strlen(line), 0600, e) < 0)
        return -1;
    *out = TAKE(path);
    return 0;
}

/* With a given key nothing else vouches for the host: the alias makes ssh look it up under a
 * fixed name in a file that holds this key alone. */
static int host_key_words(const struct backend *b, struct words *w, struct err *e)
{
    AUTO_FREE char *own = NULL;

    option(w, "StrictHostKeyChecking=%s", b->conf.accept_new ? "accept-new" : "yes");
    if (b->conf.host_key) {
        if (own_known_hosts(b, &own, e) < 0)
            return -1;
        option(w, "UserKnownHostsFile=\"%s\"", own);
        option(w, "GlobalKnownHostsFile=/dev/null");
        option(w, "HostKeyAlias=berth-node");
    } else if (b->conf.known_hosts) {
        option(w, "UserKnownHostsFile=\"%s\"", b->conf.known_hosts);
    }
    return 0;
}

static int make_words(const struct backend *b, const char *script, struct words *w, struct err *e)
{
    const struct ssh_conf *c = &b->conf;
    bool asks = c->password || c->passphrase;

    words_add(w, "ssh");
    words_add(w, "-T");
    option(w, "BatchMode=%s", asks ? "no" : "yes");
    option(w, "NumberOfPasswordPrompts=1");
    if (host_key_words(b, w, e) < 0)
        return -1;
    option(w, "ConnectTimeout=%lld", (long long)c->connect_timeout_s);
    option(w, "ServerAliveInterval=%d", ALIVE_S);
    option(w, "ServerAliveCountMax=%d", ALIVE_COUNT);
    /* A master that the user opened is used; we do not become one, nor do we forward anything. */
    option(w, "ControlMaster=no");
    option(w, "ClearAllForwardings=yes");
    option(w, "RequestTTY=no");
    option(w, "EscapeChar=none");
    option(w, "LogLevel=ERROR"); /* no banners or greetings among the errors */
    if (c->port)
        words_add(w, "-p%lld", (long long)c->port);
    if (c->user)
        words_add(w, "-l%s", c->user);
    if (c->identity)
        option(w, "IdentityFile=\"%s\"", c->identity);
    words_add(w, "--");
    words_add(w, "%s", c->host);
    words_add(w, "exec sh -c '%s'", script);
    w->p[w->n] = NULL;
    return 0;
}

/* ---- environment ---- */

/* A descriptor of a memory file, or -1 with an error.  The text is wiped from the heap. */
static int make_secrets(const struct ssh_conf *c, struct err *e)
{
    AUTO(json) struct json *j = json_new_object();
    int fd = memfd_create("berth-askpass", MFD_CLOEXEC);

    json_set_str(j, "password", c->password);
    json_set_str(j, "passphrase", c->passphrase);
    char *text = json_text(j);
    if (fd < 0 || fchmod(fd, 0600) < 0 || fd_write_all(fd, text, strlen(text), NULL) < 0) {
        err_sys(e, "cannot pass the password to ssh");
        if (fd >= 0)
            close(TAKE_FD(fd));
    }
    explicit_bzero(text, strlen(text));
    free(text);
    return fd;
}

/* Ours, with messages in English (trouble.c reads them) and, when there is a secret to give, the
 * program that gives it. */
static int make_env(struct backend *b, struct words *own, char ***out, struct err *e)
{
    size_t n = 0;

    words_add(own, "LC_ALL=C");
    if (b->conf.agent)
        words_add(own, "SSH_AUTH_SOCK=%s", b->conf.agent);
    if (b->conf.password || b->conf.passphrase) {
        AUTO_FREE char *far = child_find("BERTH_FAR", "berth-far");
        b->link.child.secrets = make_secrets(&b->conf, e);
        if (b->link.child.secrets < 0)
            return -1;
        words_add(own, "SSH_ASKPASS=%s", far ? far : "");
        words_add(own, "SSH_ASKPASS_REQUIRE=force");
        words_add(own, "DISPLAY=none"); /* older versions ask nobody without one */
        words_add(own, WIRE_ASKPASS "=/proc/%d/fd/%d", (int)getpid(), b->link.child.secrets);
    }
    while (environ[n])
        n++;
    char **all = xcalloc(n + own->n + 1, sizeof(*all));
    size_t at = 0;
    for (size_t i = 0; i < own->n; i++)
        all[at++] = own->p[i];
    for (size_t i = 0; i < n; i++) {
        bool ours = false;
        for (size_t k = 0; k < own->n && !ours; k++)
            ours = !strncmp(environ[i], own->p[k], strcspn(own->p[k], "=") + 1);
        if (!ours)
            all[at++] = environ[i];
    }
    *out = all;
    return 0;
}

/* ---- starting ---- */

/* On failure every descriptor is closed and the process, if there is one, is killed and reaped. */
static int start_with_pipes(struct backend *b, char **argv, char **envp, struct err *e)
{
    const char *said = getenv("BERTH_SSH"), *program = said && said[0] ? said : "ssh";
    int in[2] = {-1, -1}, out[2] = {-1, -1}, errs[2] = {-1, -1}, rc = -1;
    struct ssh_child *c = &b->link.child;

    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(errs, O_CLOEXEC) < 0) {
        err_sys(e, "cannot create pipes for ssh");
    } else {
        c->pid = spawn_alone(program, argv, envp, (int[]){in[0], out[1], errs[1]});
        if (c->pid < 0)
            err_sys(e, "cannot run %s", program);
        c->pidfd = c->pid > 0 ? (int)syscall(SYS_pidfd_open, c->pid, 0) : -1;
        if (c->pid > 0 && c->pidfd < 0)
            err_sys(e, "cannot watch ssh");
        rc = c->pidfd < 0 ? -1 : 0;
    }
    if (rc < 0 && c->pid > 0) {
        kill(c->pid, SIGKILL);
        waitpid(c->pid, NULL, 0);
    }
    c->pid = rc < 0 ? 0 : c->pid;
    int theirs[] = {in[0], out[1], errs[1]}, ours[] = {in[1], out[0], errs[0]};
    for (size_t i = 0; i < 3; i++) {
        if (theirs[i] >= 0)
            close(theirs[i]);
        if (rc < 0 && ours[i] >= 0)
            close(ours[i]);
    }
    if (rc == 0) {
        c->in = in[1];
        c->out = out[0];
        c->errs = errs[0];
    }
    return rc;
}

int child_start(struct backend *b, const char *script, struct err *e)
{
    struct words argv = {0}, own = {0};
    char **envp = NULL;
    int rc = -1;

    if (make_words(b, script, &argv, e) == 0 && make_env(b, &own, &envp, e) == 0)
        rc = start_with_pipes(b, argv.p, envp, e);
    free(envp);
    words_done(&argv);
    words_done(&own);
    if (rc < 0)
        child_close(b);
    return rc;
}

void child_kill(struct backend *b)
{
    if (b->link.child.pid > 0)
        kill(b->link.child.pid, SIGKILL);
}

/* Does not kill: the process must have ended, or been killed, before. */
void child_close(struct backend *b)
{
    struct ssh_child *c = &b->link.child;
    int fds[] = {c->in, c->out, c->errs, c->pidfd, c->secrets};

    watch_free(c->in_watch);
    watch_free(c->out_watch);
    watch_free(c->errs_watch);
    watch_free(c->exit_watch);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    *c = (struct ssh_child){.in = -1, .out = -1, .errs = -1, .pidfd = -1, .secrets = -1};
}

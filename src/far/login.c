/* login.c - the environment of a run on this host
 *
 * A job takes its submitter's environment along.  What names the submitter's machine is replaced by
 * what this login has: who, home, shell, temporary directory.  Programs are looked for where the
 * submitter looked, then where this login looks; our own packages and command are those that came
 * with this program.  Sockets of the submitter's session lead nowhere
 * from here and are left out.
 */
#include "base/arena.h"
#include "base/util.h"
#include "far/far_priv.h"
#include <pwd.h>

static const char *const replaced[] = {
    "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "XDG_RUNTIME_DIR", "HOSTNAME", "MAIL"};
static const char *const left_out[] = {
    "SSH_AUTH_SOCK", "SSH_AGENT_PID",   "SSH_CONNECTION",
    "SSH_CLIENT",    "SSH_TTY",         "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",       "WAYLAND_DISPLAY", "XAUTHORITY",
    "PWD",           "OLDPWD",          "BERTH_HOME",
    "BERTH_SOCKET"};

static bool is_named(const char *entry, const char *name)
{
    size_t n = strlen(name);

    return !strncmp(entry, name, n) && entry[n] == '=';
}

static bool is_among(const char *entry, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_named(entry, names[i]))
            return true;
    return false;
}

/* "a:b" and "b:c" is "a:b:c". */
static char *joined_path(const char *theirs, const char *ours, struct arena *a)
{
    char *all = arena_strdup(a, theirs);

    for (struct str rest = str_of(ours); rest.n > 0;) {
        struct str dir = str_cut(rest, ':', &rest);
        bool there = false;
        for (struct str left = str_of(theirs); left.n > 0 && !there;)
            there = str_eq(str_cut(left, ':', &left), dir);
        if (dir.n && !there)
            all = arena_printf(a, "%s%s" STR_FMT, all, *all ? ":" : "", STR_ARG(dir));
    }
    return all;
}

/* Values that name the run's directory on the daemon's host name the one here. */
static char *moved(char *entry, const char *from, const char *to, struct arena *a)
{
    char *value = strchr(entry, '=');
    size_t n = strlen(from);

    if (!value || n == 0 || strncmp(value + 1, from, n) != 0 ||
        (value[1 + n] != 0 && value[1 + n] != '/'))
        return entry;
    return arena_printf(a, "%.*s=%s%s", (int)(value - entry), entry, to, value + 1 + n);
}

/* Our packages are beside us here. */
static char *python_path(const struct far *f, const char *theirs, struct arena *a)
{
    char *all = arena_strdup(a, "");

    for (struct str rest = str_of(theirs); rest.n > 0;) {
        struct str dir = str_cut(rest, ':', &rest);
        if (f->python_path && str_eq_c(dir, f->python_path)) {
            if (!f->library)
                continue;
            dir = str_of(arena_printf(a, "%s/python", f->library));
        }
        all = arena_printf(a, "%s%s" STR_FMT, all, *all ? ":" : "", STR_ARG(dir));
    }
    return all;
}

/* The value from this login's own environment, else from the password database; NULL when
 * neither has one. */
static const char *login_value(const char *name)
{
    const char *set = getenv(name);
    const struct passwd *pw = set ? NULL : getpwuid(getuid());

    if (set || !pw)
        return set;
    if (!strcmp(name, "USER") || !strcmp(name, "LOGNAME"))
        return pw->pw_name;
    return !strcmp(name, "SHELL") ? pw->pw_shell : NULL;
}

char **login_env(const struct far *f, const struct far_run *r, char *const *envp,
                 const char *submitted_dir, struct arena *a)
{
    const char *set = getenv("PATH"), *ours = set ? set : "/usr/local/bin:/usr/bin:/bin";
    size_t n = 0, at = 0;
    bool path = false;

    if (f->library)
        ours = arena_printf(a, "%s:%s/bin", ours, f->library);

    while (envp[n])
        n++;
    /* Room for all of `envp`, the replaced variables, PATH, BERTH_RUN_DIR, BERTH_SOCKET and one
     * more entry, the NULL at the end. */
    char **out = arena_alloc(a, (n + ARRAY_SIZE(replaced) + 4) * sizeof(*out));
    for (size_t i = 0; i < n; i++) {
        if (is_among(envp[i], replaced, ARRAY_SIZE(replaced)) ||
            is_among(envp[i], left_out, ARRAY_SIZE(left_out)) || is_named(envp[i], "BERTH_RUN_DIR"))
            continue;
        if (is_named(envp[i], "PYTHONPATH")) {
            out[at++] = arena_printf(a, "PYTHONPATH=%s", python_path(f, envp[i] + 11, a));
            continue;
        }
        if (is_named(envp[i], "PATH")) {
            out[at++] = arena_printf(a, "PATH=%s", joined_path(envp[i] + 5, ours, a));
            path = true;
            continue;
        }
        out[at++] = moved(envp[i], submitted_dir, r->run_dir, a);
    }
    for (size_t i = 0; i < ARRAY_SIZE(replaced); i++) {
        const char *value = !strcmp(replaced[i], "HOME") ? f->login : login_value(replaced[i]);
        if (value)
            out[at++] = arena_printf(a, "%s=%s", replaced[i], value);
    }
    if (!path)
        out[at++] = arena_printf(a, "PATH=%s", ours);
    out[at++] = arena_printf(a, "BERTH_RUN_DIR=%s", r->run_dir);
    if (f->sock)
        out[at++] = arena_printf(a, "BERTH_SOCKET=%s", f->sock);
    return out;
}

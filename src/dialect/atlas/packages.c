/* packages.c - installs requirements.txt, or finds the environment that has just that
 *
 * Owns: the calls of Python and pip, and which environment fits.
 *
 * An environment is named by a key of everything that decides what is in it (requirements.h): the
 * interpreter with its own packages, the files, the settings of pip.  If the list is exact and all
 * that was installed is on the list, this key is enough.  Otherwise pip says each time what it
 * would install today (`--dry-run --report`), and that is part of the key.  A pip that cannot say
 * it, and a directory that is installed in place, cost an environment per job.
 *
 * The environment sees the packages of the worker's interpreter through a .pth file: a virtual
 * environment made from another one would see only the base interpreter's.
 */
#include "dialect/atlas/packages.h"
#include "base/file.h"
#include "base/json.h"
#include "base/util.h"
#include "base/vec.h"
#include "dialect/atlas/environments.h"
#include "dialect/atlas/requirements.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

extern char **environ;

enum {
    FACTS_MAX = 4 << 20,
    REPORT_MAX = 256 << 20,
    ATTEMPTS = 3,               /* an index may change between the question and the installation */
    PIP_REPORTS = 22 * 100 + 2, /* the first version with --report */
};

/* Python from 3.11 then does not look for modules in the working directory, where the job's are. */
#define SAFE_PATH "PYTHONSAFEPATH"

/* ---- running Python ---- */

/* Runs a program with the output of this process; its exit status, or -1. */
static int run_program(const char *const *argv)
{
    pid_t pid;
    int status;

    if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ) != 0)
        return -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The same; its output is the text, which is yours. */
static int read_program(const char *const *argv, char **out, size_t *out_n)
{
    posix_spawn_file_actions_t actions;
    struct err e;
    int ends[2], status, rc = -1;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    bool started = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (started)
        rc = fd_read_all(ends[0], FACTS_MAX, out, out_n, &e);
    close(ends[0]);
    while (started && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return rc == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* ---- the worker's interpreter ---- */

/* Prefix, version of pip, the directories with packages and an empty line; then what must be in
 * the key besides: the interpreter and the packages it has. */
static const char facts_script[] =
    "import os, site, sys\n"
    "try:\n"
    "    from pip import __version__ as pip\n"
    "except ImportError:\n"
    "    pip = ''\n"
    "user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []\n"
    "dirs = [d for d in user + site.getsitepackages() if os.path.isdir(d)]\n"
    "print(sys.prefix, pip, *dirs, '', sys.version, sys.executable, sep='\\n')\n"
    "ends = ('.dist-info', '.egg-info', '.egg-link', '.egg', '.pth')\n"
    "for d in dirs:\n"
    "    print(*sorted(n for n in os.listdir(d) if n.endswith(ends)), sep='\\n')\n";

struct worker_python {
    const char *program;
    char *prefix;
    int pip; /* 100 * major + minor; 0 = there is none */
    char *pth;
};

static void worker_python_done(struct worker_python *p)
{
    FREE_EACH(p->prefix, p->pth);
}

static int pip_version(struct str s)
{
    struct str rest, minor;
    int64_t a = 0, b = 0;

    str_to_i64(str_cut(s, '.', &rest), &a);
    minor = str_cut(rest, '.', &rest);
    str_to_i64(minor, &b);
    return (int)(a * 100 + b);
}

/* A line of a .pth file that reads the directory as one of packages, with the .pth files in it. */
static void add_pth_line(struct buf *b, struct str dir)
{
    buf_adds(b, "import site; site.addsitedir('");
    for (size_t i = 0; i < dir.n; i++) {
        if (dir.p[i] == '\\' || dir.p[i] == '\'')
            buf_addc(b, '\\');
        buf_addc(b, dir.p[i]);
    }
    buf_adds(b, "')\n");
}

static int ask_python(struct worker_python *p, struct requirements *r)
{
    const char *const argv[] = {p->program, "-c", facts_script, NULL};
    AUTO_FREE char *text = NULL;
    AUTO(buf) struct buf pth = {0};
    size_t n = 0;

    if (read_program(argv, &text, &n) < 0)
        return -1;
    struct str rest = {text, n};
    struct str prefix = str_cut(rest, '\n', &rest);
    p->prefix = xstrndup(prefix.p, prefix.n);
    p->pip = pip_version(str_cut(rest, '\n', &rest));
    for (struct str dir; (dir = str_cut(rest, '\n', &rest)).n > 0;)
        add_pth_line(&pth, dir);
    p->pth = buf_take(&pth, NULL);
    requirements_add(r, "python", text, n);
    requirements_add(r, "program", p->program, strlen(p->program));
    AUTO_FREE char *settings = path_join(p->prefix, "pip.conf");
    requirements_add_configuration(r, settings);
    return 0;
}

/* ---- pip ---- */

enum { PIP_WORDS = 16 };

/* `report` is where pip writes what it did or would do, or NULL. */
static int run_pip(const char *python, const struct requirements *r, const char *report,
                   bool only_ask)
{
    const char *argv[PIP_WORDS] = {
        python, "-m", "pip", "install", "-r", "requirements.txt", "--disable-pip-version-check"};
    size_t n = 7;

    if (r->local) /* pip's cache knows a source archive of this machine by its path only */
        argv[n++] = "--no-cache-dir";
    if (report) {
        argv[n++] = "--report";
        argv[n++] = report;
    }
    if (only_ask) {
        argv[n++] = "--dry-run";
        argv[n++] = "--quiet";
    }
    return run_program(argv);
}

static int texts_by_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The exact thing that one entry of a report stands for; yours.  Directories of this machine are
 * in the key with their contents, and paths differ from job to job. */
static char *entry_text(const struct json *entry)
{
    const struct json *from = json_get(entry, "download_info"), *what = json_get(entry, "metadata"),
                      *archive = json_get(from, "archive_info"), *vcs = json_get(from, "vcs_info");
    struct str name = json_get_str(what, "name"), version = json_get_str(what, "version"),
               url = json_get_str(from, "url"), hash = json_get_str(archive, "hash"),
               commit = json_get_str(vcs, "commit_id");

    if (json_has(from, "dir_info"))
        url = STR("");
    return xasprintf(STR_FMT " " STR_FMT " " STR_FMT " " STR_FMT, STR_ARG(name), STR_ARG(version),
                     STR_ARG(hash.n > 0 ? hash : url), STR_ARG(commit));
}

/* What pip reported, in one order; yours.  *out_listed: nothing came along that no line names.
 * (`requested` is missing for a package that a line names and another package needs.) */
static int read_report(const struct requirements *r, const char *path, char **out, bool *out_listed)
{
    AUTO_FREE char *text = NULL;
    AUTO(json) struct json *report = NULL;
    AUTO(buf) struct buf all = {0};
    VEC(char *) lines = {0};
    struct err e;
    size_t n;

    if (file_read_all(path, REPORT_MAX, &text, &n, &e) < 0 ||
        json_parse((struct str){text, n}, path, &report, &e) < 0)
        return -1;
    const struct json *list = json_get(report, "install");
    *out_listed = true;
    for (size_t i = 0; i < json_len(list); i++) {
        const struct json *entry = json_at(list, i);
        struct str name = json_get_str(json_get(entry, "metadata"), "name");
        *out_listed &= json_bool(json_get(entry, "requested")) || requirements_names(r, name);
        vec_push(&lines, entry_text(entry));
    }
    if (lines.n > 0)
        qsort(lines.p, lines.n, sizeof(*lines.p), texts_by_order);
    for (size_t i = 0; i < lines.n; i++) {
        buf_addf(&all, "%s\n", lines.p[i]);
        free(lines.p[i]);
    }
    vec_done(&lines);
    *out = buf_take(&all, NULL);
    return 0;
}

/* ---- making ---- */

/* Which directory of the environment has its packages; yours. */
static char *packages_dir(const char *interpreter)
{
    const char *const argv[] = {interpreter, "-c", "import site; print(site.getsitepackages()[0])",
                                NULL};
    char *text = NULL;
    size_t n;

    if (read_program(argv, &text, &n) < 0)
        return NULL;
    text[strcspn(text, "\n")] = 0;
    return text;
}

/* An empty environment that sees what the worker's interpreter sees. */
static int make_empty(const struct worker_python *p, const char *dir, const char *interpreter)
{
    const char *const venv[] = {p->program, "-m", "venv", "--without-pip", dir, NULL};
    const char *const ensure[] = {interpreter, "-m", "ensurepip", NULL};
    AUTO_FREE char *theirs = path_join(p->prefix, "pip.conf"), *ours = path_join(dir, "pip.conf");
    struct err e;

    if (run_program(venv) != 0)
        return -1;
    AUTO_FREE char *packages = packages_dir(interpreter);
    AUTO_FREE char *pth = packages ? path_join(packages, "_worker.pth") : NULL;
    if (!pth || file_write_atomic(pth, p->pth, strlen(p->pth), 0644, &e) < 0)
        return -1;
    if (access(theirs, F_OK) == 0 && symlink(theirs, ours) < 0)
        return -1;
    /* Making pip anew takes ten times as long as the rest, so the worker's own is used if it has
     * one: it installs into the environment it is run in. */
    return p->pip ? 0 : run_program(ensure);
}

struct installation {
    struct worker_python python;
    struct requirements list;
    char *root, *report; /* where the environments are; where pip writes */
    const char *job;
};

/* Makes the environment whose name stands for what `expected` says (NULL: for this job alone).
 * 1 = pip has installed something else. */
static int make_environment(struct installation *in, struct environment *v, const char *expected)
{
    AUTO_FREE char *interpreter = path_join(v->dir, "bin/python"), *got = NULL;
    bool listed;

    if (make_empty(&in->python, v->dir, interpreter) != 0 ||
        run_pip(interpreter, &in->list, expected ? in->report : NULL, false) != 0)
        return -1;
    if (expected &&
        (read_report(&in->list, in->report, &got, &listed) < 0 || strcmp(got, expected) != 0))
        return 1;
    environment_keep(v);
    return 0;
}

static char *name_of(const struct requirements *r)
{
    char key[65];

    requirements_key(r, key);
    return xasprintf(ENVIRONMENT_SHARED "%s", key);
}

/* Directories installed in place, and interpreters whose pip cannot say what it would do. */
static int make_for_job(struct installation *in, struct environment *out)
{
    AUTO_FREE char *name = xasprintf(ENVIRONMENT_OF_JOB "%s", in->job);

    if (environment_get(in->root, name, out) < 0)
        return -1;
    if (out->ready || make_environment(in, out, NULL) == 0)
        return 0;
    environment_drop(out);
    return -1;
}

/* Says that nothing is installed for this job. */
static int say_reused(const struct environment *v)
{
    printf("Using the environment made for these requirements before: %s\n", v->dir);
    fflush(stdout);
    return 0;
}

/* 1 = what pip would install has changed meanwhile. */
static int find_or_make(struct installation *in, struct environment *out)
{
    AUTO_FREE char *exact = name_of(&in->list), *today = NULL;
    struct requirements with = in->list;
    bool listed;
    int rc;

    if (in->list.fixed && environment_use(in->root, exact, out))
        return say_reused(out);
    if (run_pip(in->python.program, &in->list, in->report, true) != 0 ||
        read_report(&in->list, in->report, &today, &listed) < 0)
        return -1;
    requirements_add(&with, "resolved", today, strlen(today));
    AUTO_FREE char *resolved = name_of(&with);
    if (environment_get(in->root, in->list.fixed && listed ? exact : resolved, out) < 0)
        return -1;
    if (out->ready)
        return say_reused(out);
    if ((rc = make_environment(in, out, today)) != 0)
        environment_drop(out);
    return rc;
}

static int install(struct installation *in, struct environment *out)
{
    struct err e;

    if (dir_make_all(in->root, 0755, &e) < 0 || ask_python(&in->python, &in->list) < 0)
        return -1;
    requirements_add_settings(&in->list, environ);
    requirements_read(&in->list, "requirements.txt");
    if (!in->list.editable && in->python.pip >= PIP_REPORTS)
        for (int i = 0; i < ATTEMPTS; i++) {
            int rc = find_or_make(in, out);
            if (rc <= 0)
                return rc;
        }
    return make_for_job(in, out);
}

static void restore_variable(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

char *packages_install(const char *home, const char *id, const char *python)
{
    struct installation in = {.python.program = python, .job = id};
    struct environment v = {.lock = -1};
    AUTO_FREE char *path = xstrdup(getenv("PYTHONPATH")), *safe = xstrdup(getenv(SAFE_PATH));
    char *interpreter = NULL;

    in.root = xasprintf("%s/local_docker_scheduler/environments", home);
    in.report = xasprintf("%s/.report-%s", in.root, id);
    requirements_init(&in.list);
    /* The module of the bundle and the files of the job are none of pip's business. */
    unsetenv("PYTHONPATH");
    setenv(SAFE_PATH, "1", 1);
    if (install(&in, &v) == 0) {
        environment_inherit(&v);
        interpreter = path_join(v.dir, "bin/python");
        v.lock = -1; /* held until the job ends */
    } else {
        printf("Foundations WARNING: requirements.txt could not be installed; the job runs "
               "without them\n");
        fflush(stdout);
    }
    environment_done(&v);
    environments_prune(in.root);
    unlink(in.report);
    restore_variable("PYTHONPATH", path);
    restore_variable(SAFE_PATH, safe);
    worker_python_done(&in.python);
    requirements_done(&in.list);
    FREE_EACH(in.root, in.report);
    return interpreter ? interpreter : xstrdup(python);
}

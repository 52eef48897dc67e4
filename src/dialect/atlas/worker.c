/* worker.c - prepares a working directory and starts what the job is
 *
 * Owns: the lines the standard worker prints.  What requirements.txt becomes is packages.c.
 */
#include "dialect/atlas/worker.h"
#include "archive/cas.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/home.h"
#include "dialect/atlas/packages.h"
#include "dialect/atlas/translate.h"
#include "host/home.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { RULE = 120, MODULE_MAX = 4 << 20, FAILED = 1, CANNOT_RUN = 127 };

/* Flushed line by line: the job writes to the same log through another buffer. */
static void worker_print(const char *line)
{
    printf("%s\n", line);
    fflush(stdout);
}

static void worker_print_rule(void)
{
    char line[RULE + 1];

    memset(line, '=', RULE);
    line[RULE] = 0;
    worker_print(line);
}

static int worker_fail(const struct err *e)
{
    printf("Foundations ERROR: %s\n", e->text);
    fflush(stdout);
    return FAILED;
}

/* ---- requirements ---- */

/* What the start script of the standard worker does before the job. */
static char *start_script(const char *home, const char *id, const char *python)
{
    worker_print_rule();
    if (access("requirements.txt", F_OK) < 0) {
        worker_print("No user requirements found.");
        worker_print_rule();
        return xstrdup(python);
    }
    worker_print("Installing user requirements from requirements.txt.");
    worker_print_rule();
    char *with = packages_install(home, id, python);
    worker_print_rule();
    return with;
}

/* ---- volumes that could not be mounted ---- */

/* The variable is removed afterwards; the job must not see it. */
static void warn_volumes(void)
{
    const char *list = getenv(ATLAS_UNMOUNTED_VARIABLE);

    for (struct str rest = str_of(list); rest.n > 0;) {
        struct str one = str_cut(rest, '\n', &rest);
        printf("Foundations WARNING: volume " STR_FMT
               " is missing: this host cannot mount volumes\n",
               STR_ARG(one));
    }
    fflush(stdout);
    unsetenv(ATLAS_UNMOUNTED_VARIABLE);
}

/* ---- memory ---- */

/* Does the cgroup of this process limit memory to this many bytes or fewer? */
static bool worker_cgroup_limits(int64_t bytes)
{
    AUTO_FREE char *own = NULL, *text = NULL;
    struct err e;
    size_t n;
    int64_t max;

    if (file_read_all("/proc/self/cgroup", 1 << 16, &own, &n, &e) < 0)
        return false;
    for (struct str rest = {own, n}; rest.n > 0;) {
        struct str line = str_cut(rest, '\n', &rest);
        if (!str_starts(line, STR("0::/")))
            continue;
        AUTO_FREE char *path =
            xasprintf("/sys/fs/cgroup/" STR_FMT "/memory.max", (int)(line.n - 4), line.p + 4);
        return file_read_all(path, 64, &text, &n, &e) == 0 &&
               str_to_i64(str_trim((struct str){text, n}), &max) && max <= bytes;
    }
    return false;
}

/* Where no cgroup limits memory, the address space is limited instead. */
static void limit_memory(void)
{
    const char *text = getenv(ATLAS_RAM_VARIABLE);
    int64_t bytes;

    if (text && str_to_i64(str_of(text), &bytes) && bytes > 0 && !worker_cgroup_limits(bytes)) {
        struct rlimit l = {(rlim_t)bytes, (rlim_t)bytes};
        setrlimit(RLIMIT_AS, &l);
    }
    unsetenv(ATLAS_RAM_VARIABLE);
}

/* ---- the module of the job ---- */

/* The package in `from`, which has no directories in it, as the directory `to`. */
static int copy_package(const char *from, const char *to, struct err *e)
{
    DIR *d = opendir(from);
    int rc = d ? dir_make_all(to, 0755, e) : err_sys(e, "cannot open %s", from);

    for (struct dirent *entry; rc == 0 && (entry = readdir(d));) {
        AUTO_FREE char *path = path_join(from, entry->d_name), *copy = path_join(to, entry->d_name);
        AUTO_FREE char *text = NULL;
        struct stat st;
        size_t n;
        if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
            continue;
        rc = file_read_all(path, MODULE_MAX, &text, &n, e);
        if (rc == 0)
            rc = file_write_atomic(copy, text, n, 0644, e);
    }
    if (d)
        closedir(d);
    return rc;
}

/* A bundle of the original's client brings the original's module, which reports to Redis and needs
 * packages that nobody has: ours takes its place. */
static int replace_foreign_module(const char *work, struct err *e)
{
    AUTO_FREE char *theirs = path_join(work, "foundations");
    AUTO_FREE char *init = path_join(theirs, "__init__.py"), *ours = path_join(theirs, "_berth.py");
    AUTO_FREE char *python = home_python_path();

    if (!python || access(init, F_OK) < 0 || access(ours, F_OK) == 0)
        return 0;
    AUTO_FREE char *module = path_join(python, "foundations"), *berth = path_join(python, "berth");
    AUTO_FREE char *beside = path_join(work, "berth");
    if (dir_remove_tree(theirs, e) < 0 || copy_package(module, theirs, e) < 0)
        return -1;
    return access(beside, F_OK) == 0 ? 0 : copy_package(berth, beside, e);
}

/* ---- life ---- */

/* Checks out the bundle and makes the directory that the job may write its archive to. */
static int worker_prepare(const char *home, const char *id, struct err *e)
{
    AUTO_FREE char *contents = path_join(home, ATLAS_DIR_CONTENTS);
    AUTO_FREE char *archive = xasprintf("%s/" ATLAS_DIR_ARCHIVE "/%s", home, id);
    struct cas *cas;

    if (cas_open(contents, &cas, e) < 0)
        return -1;
    AUTO_FREE char *work = xasprintf("%s/" ATLAS_DIR_WORK "/%s", home, id);
    int rc = atlas_check_out(home, cas, id, e);
    if (rc == 0)
        rc = replace_foreign_module(work, e);
    cas_close(cas);
    return rc < 0 ? -1 : dir_make_all(archive, 0755, e);
}

/* Without space on the disk the job waits: it has done nothing yet, so nothing is lost. */
static int worker_prepare_when_possible(const char *home, const char *id, struct err *e)
{
    bool said = false;
    int rc;

    while ((rc = worker_prepare(home, id, e)) < 0 && e->code == ERR_FULL) {
        if (!said)
            printf("Foundations WARNING: the job waits for space on the disk; free some: %s\n",
                   e->text);
        said = true;
        fflush(stdout);
        sleep(1);
    }
    return rc;
}

/* Replaces this process, so signals and the exit status are those of the job. */
static int become(char **words)
{
    limit_memory();
    execvp(words[0], words);
    printf("Foundations ERROR: cannot start %s: %s\n", words[0], strerror(errno));
    fflush(stdout);
    return CANNOT_RUN;
}

/* The standard worker: requirements, then the command with the interpreter in front. */
static int run_script(const char *home, const char *id, char **words)
{
    const char *python = getenv("FOUNDATIONS_PYTHON");
    AUTO_FREE char *with = start_script(home, id, python && *python ? python : "python3");
    size_t n = 0;

    while (words[n])
        n++;
    char **all = xcalloc(n + 2, sizeof(*all));
    all[0] = with;
    memcpy(all + 1, words, n * sizeof(*all));
    int rc = become(all);
    free(all);
    return rc;
}

/* argv is HOME ID MODE -- WORD…; the result is the exit status when no program was started. */
int atlas_worker(char **argv)
{
    struct err e = {0};
    size_t n = 0;

    while (argv[n])
        n++;
    if (n < 4 || strcmp(argv[3], "--") != 0) {
        err_set(&e, ERR_INVALID, "usage: HOME ID MODE -- WORD…");
        return worker_fail(&e);
    }
    const char *home = argv[0], *id = argv[1], *mode = argv[2];
    char **words = argv + 4;
    if (!strcmp(mode, ATLAS_RUN_REFUSE)) {
        worker_print(words[0] ? words[0] : "Foundations ERROR: this job cannot run");
        return FAILED;
    }
    AUTO_FREE char *source = xasprintf("%s/" ATLAS_DIR_WORK "/%s/job_source", home, id);
    if (worker_prepare_when_possible(home, id, &e) < 0)
        return worker_fail(&e);
    if (chdir(source) < 0) {
        err_sys(&e, "cannot enter %s", source);
        return worker_fail(&e);
    }
    warn_volumes();
    if (!strcmp(mode, ATLAS_RUN_SCRIPT))
        return run_script(home, id, words);
    if (!words[0]) {
        err_set(&e, ERR_INVALID, "the job has no command");
        return worker_fail(&e);
    }
    return become(words);
}

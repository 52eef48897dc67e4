/* doctor_checks.c - what can be wrong with a machine or a home
 *
 * Owns: the checks.  None of them changes anything or starts a daemon; each is over in a moment,
 * except the store's, whose time grows with the number of jobs kept.
 */
#include "backend/container.h"
#include "backend/gpu_survey.h"
#include "backend/live_runs.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/doctor.h"
#include "cli/view.h"
#include "host/home.h"
#include "store/store.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/wait.h>

#define MIB (INT64_C(1) << 20)
enum { SLOW_STORE_MIB = 200 };

__attribute__((format(printf, 3, 4))) static void say(struct finding *f, enum health h,
                                                      const char *fmt, ...)
{
    f->health = h;
    FORMAT_ARGS(f->text, fmt);
}

__attribute__((format(printf, 2, 3))) static void remedy(struct finding *f, const char *fmt, ...)
{
    FORMAT_ARGS(f->remedy, fmt);
}

/* A home that others can write to lets them replace the database and the token. */
static void check_home(struct cli *c, struct finding *f)
{
    AUTO_FREE char *secret = home_open_secret(c->home);
    struct stat st;

    if (stat(c->home, &st) < 0 && errno == ENOENT) {
        say(f, HEALTH_OK, "%s does not exist yet; the first command creates it", c->home);
    } else if (stat(c->home, &st) < 0 || access(c->home, R_OK | W_OK | X_OK) < 0) {
        say(f, HEALTH_FAIL, "%s cannot be used: %s", c->home, strerror(errno));
        remedy(f, "change its owner to you (chown), or set BERTH_HOME to a directory of your own");
    } else if (!S_ISDIR(st.st_mode)) {
        say(f, HEALTH_FAIL, "%s is not a directory", c->home);
        remedy(f, "move it away, or set BERTH_HOME");
    } else if (st.st_mode & 022) {
        say(f, HEALTH_FAIL, "%s can be written by others (mode %o)", c->home, st.st_mode & 07777);
        remedy(f, "chmod go-w %s", c->home);
    } else if (secret) {
        say(f, HEALTH_WARN, "%s can be read by others, who can then act as you", secret);
        remedy(f, "chmod 600 %s", secret);
    } else {
        say(f, HEALTH_OK, "%s, mode %o", c->home, st.st_mode & 07777);
    }
}

/* The home, or the nearest directory above it that exists. */
static int stat_place(const char *home, struct statvfs *v)
{
    AUTO_FREE char *path = xstrdup(home);

    while (statvfs(path, v) < 0) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path)
            return statvfs("/", v);
        *slash = 0;
    }
    return 0;
}

/* A file system may run out of inodes before it runs out of bytes. */
static void check_disk(struct cli *c, struct finding *f)
{
    struct statvfs v;
    char text[UNIT_TEXT_MAX];

    if (stat_place(c->home, &v) < 0) {
        say(f, HEALTH_WARN, "free space is unknown: %s", strerror(errno));
        return;
    }
    int64_t bytes = (int64_t)v.f_bavail * (int64_t)v.f_frsize;
    size_format(bytes, text);
    say(f,
        bytes < 50 * MIB     ? HEALTH_FAIL
        : bytes < 1024 * MIB ? HEALTH_WARN
                             : HEALTH_OK,
        "%s free", text);
    if (f->health != HEALTH_OK)
        remedy(f, "free space: berth rm --filter 'ended>0 and not ended>30d', or move BERTH_HOME");
    if (v.f_files && v.f_favail < 10000) {
        say(f, HEALTH_WARN, "%s free, but only %llu more files can be created", text,
            (unsigned long long)v.f_favail);
        remedy(f, "remove old jobs (berth rm): each has at least one file");
    }
}

/* 1 = somebody holds the lock, 0 = nobody, -1 = no such file. */
static int lock_held(const char *path)
{
    /* F_OFD_GETLK asks without taking the lock, so a daemon that starts meanwhile is not disturbed.
     */
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

    if (fd < 0 || fcntl(fd, F_OFD_GETLK, &l) < 0)
        return -1;
    return l.l_type != F_UNLCK;
}

/* The lock tells a daemon that hangs from no daemon at all. */
static void check_daemon(struct cli *c, struct finding *f)
{
    AUTO_FREE char *lock = path_join(c->home, "daemon.lock");
    struct json *meta = NULL;
    struct err e = {0};
    int held = lock_held(lock);

    if (cli_get(c, "/v1", &meta, &e) == 0) {
        struct str version = text_of(meta, "version");
        bool same = str_eq_c(version, c->program->version);
        say(f, same ? HEALTH_OK : HEALTH_WARN, "version " STR_FMT " answers on %s",
            STR_ARG(version), c->target);
        if (!same)
            remedy(f, "this is berth %s: stop the old daemon with SIGTERM; running jobs continue",
                   c->program->version);
        json_free(meta);
    } else if (held == 1) {
        say(f, HEALTH_FAIL, "a daemon holds %s but does not answer: %s", c->home, e.text);
        remedy(
            f,
            "read %s/log; kill the daemon if it hangs: running jobs continue and no data is lost",
            c->home);
    } else {
        say(f, HEALTH_OK, "no daemon runs; commands that need one start it");
    }
}

/* Looks where the backend looks: BERTH_SHEPHERD, beside this program, libexec, the build tree. */
static void check_shepherd(struct cli *c, struct finding *f)
{
    AUTO_FREE char *lock = path_join(c->home, "shepherd/lock");
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    static const char *const places[] = {"berth-shepherd", "../libexec/berth/berth-shepherd",
                                         "../shepherd/berth-shepherd"};

    if (lock_held(lock) == 1) {
        say(f, HEALTH_OK, "runs");
        return;
    }
    program[MAX(n, 0)] = 0;
    const char *said = getenv("BERTH_SHEPHERD");
    if (said && *said) {
        say(f, access(said, X_OK) == 0 ? HEALTH_OK : HEALTH_FAIL,
            "not running; BERTH_SHEPHERD names %s, which can%s be executed", said,
            access(said, X_OK) == 0 ? "" : "not");
        if (f->health == HEALTH_FAIL)
            remedy(f, "correct or unset BERTH_SHEPHERD");
        return;
    }
    char *slash = strrchr(program, '/');
    for (size_t i = 0; slash && i < ARRAY_SIZE(places); i++) {
        *slash = 0;
        AUTO_FREE char *path = path_join(program, places[i]);
        *slash = '/';
        if (access(path, X_OK) == 0) {
            say(f, HEALTH_OK, "not running; %s is started with the first job", path);
            return;
        }
    }
    say(f, HEALTH_FAIL, "berth-shepherd, which starts jobs, is neither beside %s nor in libexec",
        n > 0 ? program : "this program");
    remedy(f, "install the whole package, or set BERTH_SHEPHERD to its path");
}

/* Reads the database file directly, so the check works with and without a daemon. */
static void check_store(struct cli *c, struct finding *f)
{
    AUTO_FREE char *path = path_join(c->home, "berth.db"), *id = path_join(c->home, "id");
    AUTO(buf) struct buf found = {0};
    struct stat st;
    struct err e = {0};
    char size[UNIT_TEXT_MAX];

    if (stat(path, &st) < 0 || st.st_size == 0) {
        if (access(id, F_OK) == 0) {
            say(f, HEALTH_FAIL, "%s is missing or empty, but this home had one", path);
            remedy(f, "berth restore DIR, or start afresh: berth serve --new-database");
        } else {
            say(f, HEALTH_OK, "no jobs yet");
        }
        return;
    }
    if (st.st_size > SLOW_STORE_MIB * MIB && c->err.is_tty)
        cli_say("checking %s, which may take a while …", path);
    buf_init(&found, 1 << 20);
    size_format(st.st_size, size);
    if (store_check(path, &found, &e) < 0) {
        say(f, HEALTH_FAIL, "%s cannot be checked: %s", path, e.text);
        remedy(f, "stop the daemon, keep a copy of the file, restore a berth backup");
    } else if (found.n) {
        struct str rest, first = str_cut(buf_str(&found), '\n', &rest);
        say(f, HEALTH_FAIL, "%s is damaged: %.300s", path, "");
        snprintf(f->text + strlen(f->text), sizeof(f->text) - strlen(f->text), "%.*s",
                 (int)MIN(first.n, 200), first.p);
        remedy(f, "stop the daemon, keep a copy of the file, restore a berth backup");
    } else {
        say(f, HEALTH_OK, "%s, %s, no fault found", path, size);
    }
}

/* Is it a run of a job that the database knows?  The daemon tells, if there is one. */
static void check_run(void *arg, struct run_key key, pid_t supervisor UNUSED, pid_t pid)
{
    struct finding *f = ((void **)arg)[1];
    AUTO_FREE char *path = xasprintf("/v1/jobs/%llu", (unsigned long long)key.job);
    AUTO(json) struct json *job = NULL;
    struct err e = {0};
    struct id id;
    int rc = cli_get(((void **)arg)[0], path, &job, &e);

    if (rc < 0 ? e.code != ERR_NOT_FOUND
               : !key.tag || !id_parse(text_of(job, "id"), &id) || run_tag(id) == key.tag)
        return;
    say(f, HEALTH_WARN, "run %llu.%u (pid %d) belongs to a job that the database does not know",
        (unsigned long long)key.job, key.run, (int)pid);
    remedy(f, "a restore forgot its job; it is left running: 'kill %d' ends it", (int)pid);
}

static void check_runs(struct cli *c, struct finding *f)
{
    AUTO_FREE char *dir = path_join(c->home, "shepherd");
    struct err e = {0};

    say(f, HEALTH_OK, "no run of an unknown job");
    if (live_runs(dir, check_run, (void *[]){c, f}, &e) < 0)
        say(f, HEALTH_WARN, "%s", e.text);
}

/* Limits are enforced where the cgroup of this process can be written, version 1 or 2. */
static void check_cgroups(struct cli *c, struct finding *f)
{
    AUTO_FREE char *text = NULL;
    size_t n;
    struct err e;
    struct str rest, line;

    (void)c;
    if (file_read_all("/proc/self/cgroup", 1 << 16, &text, &n, &e) < 0) {
        say(f, HEALTH_WARN, "this kernel has no cgroups: memory limits are watched, not enforced");
        return;
    }
    for (rest = (struct str){text, n}; rest.n;) {
        line = str_cut(rest, '\n', &rest);
        struct str path, id = str_cut(line, ':', &path), names = str_cut(path, ':', &path);
        bool v2 = str_eq_c(id, "0") && !names.n;
        bool v1 = str_eq_c(names, "memory");
        if (!v2 && !v1)
            continue;
        AUTO_FREE char *dir =
            xasprintf("/sys/fs/cgroup%s" STR_FMT, v1 ? "/memory" : "", STR_ARG(path));
        if (access(dir, W_OK) == 0) {
            say(f, HEALTH_OK, "version %d, %s can be written", v1 ? 1 : 2, dir);
            return;
        }
    }
    say(f, HEALTH_WARN, "no cgroup can be written: memory and CPU limits of jobs are not enforced");
    remedy(f, "run the daemon as a systemd unit with Delegate=yes, or as root");
}

/* A database that is newer than now shows that the clock was set back. */
static void check_clock(struct cli *c, struct finding *f)
{
    AUTO_FREE char *db = path_join(c->home, "berth.db");
    struct timex tx = {0};
    struct stat st;
    int64_t now = clock_wall(&clock_system);

    if (now / 1000 < 1704067200) { /* 2024 */
        say(f, HEALTH_FAIL, "the clock is years behind");
        remedy(f, "set the clock; recorded times of jobs are wrong until then");
    } else if (stat(db, &st) == 0 && st.st_mtime > now / 1000 + 60) {
        say(f, HEALTH_WARN, "the clock was set back: the newest record lies in the future");
        remedy(f, "times of recent jobs are wrong; delays and limits do not depend on the clock");
    } else if (adjtimex(&tx) < 0 || (tx.status & STA_UNSYNC)) {
        say(f, HEALTH_OK, "set, but not synchronised by NTP");
    } else {
        say(f, HEALTH_OK, "synchronised by NTP");
    }
}

/* These libraries are loaded at run time, so the program starts without them. */
static bool opens(const char *library)
{
    void *h = dlopen(library, RTLD_LAZY | RTLD_LOCAL);

    if (h)
        dlclose(h);
    return h;
}

static void check_libraries(struct cli *c, struct finding *f)
{
    static const struct {
        const char *file, *instead, *package, *use;
    } libs[] = {
        {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl4", "--server http://…"},
        {"libssl.so.3", NULL, "libssl3", "--tls-cert"},
        {"libarchive.so.13", NULL, "libarchive13", "foundations"},
    };
    AUTO(buf) struct buf found, install;

    (void)c;
    buf_init(&found, sizeof(f->text));
    buf_init(&install, sizeof(f->remedy));
    for (size_t i = 0; i < ARRAY_SIZE(libs); i++) {
        bool here = opens(libs[i].file) || (libs[i].instead && opens(libs[i].instead));
        buf_addf(&found, "%s%s %s", i ? ", " : "", libs[i].file, here ? "found" : "missing");
        if (!here)
            buf_addf(&install, "%s %s for %s", install.n ? "," : "install", libs[i].package,
                     libs[i].use);
    }
    say(f, install.n ? HEALTH_WARN : HEALTH_OK, "%s", found.p);
    if (install.n)
        remedy(f, "%s", install.p);
}

/* What a program prints, without a shell; false when it cannot be run. */
static bool capture(char *const argv[], char *out, size_t size)
{
    posix_spawn_file_actions_t fa;
    int p[2], status = 0;
    pid_t pid;

    if (pipe2(p, O_CLOEXEC) < 0)
        return false;
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, p[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&fa, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int rc = posix_spawnp(&pid, argv[0], &fa, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    close(p[1]);
    size_t n = 0;
    for (ssize_t got = 1; rc == 0 && got > 0 && n + 1 < size; n += (size_t)MAX(got, 0))
        got = read(p[0], out + n, size - 1 - n);
    out[n] = 0;
    close(p[0]);
    return rc == 0 && waitpid(pid, &status, 0) == pid && status == 0 && n > 0;
}

/* A warning, not a failure: jobs in other languages need no Python. */
static void check_python(struct cli *c, struct finding *f)
{
    char *argv[] = {(char *)"python3", (char *)"-c",
                    (char *)"import sys; print('%d.%d' % sys.version_info[:2])", NULL};
    char out[64];
    int major = 0, minor = 0;

    (void)c;
    if (!capture(argv, out, sizeof(out)) || sscanf(out, "%d.%d", &major, &minor) != 2) {
        say(f, HEALTH_WARN, "python3 is not in PATH; only jobs in other languages will run");
        remedy(f, "install python3, or submit from a shell that has it");
    } else if (major < 3 || minor < 8) {
        say(f, HEALTH_WARN, "python %d.%d is older than 3.8, which `import berth` needs", major,
            minor);
        remedy(f, "install Python 3.8 or newer");
    } else {
        say(f, HEALTH_OK, "python %d.%d", major, minor);
    }
}

static void check_limits(struct cli *c, struct finding *f)
{
    struct rlimit files = {0}, procs = {0};

    (void)c;
    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_NPROC, &procs);
    say(f, HEALTH_OK, "%llu files, %lld processes", (unsigned long long)files.rlim_cur,
        procs.rlim_cur == RLIM_INFINITY ? -1LL : (long long)procs.rlim_cur);
    if (procs.rlim_cur == RLIM_INFINITY)
        say(f, HEALTH_OK, "%llu files, any number of processes",
            (unsigned long long)files.rlim_cur);
    if (files.rlim_cur < 1024) {
        f->health = HEALTH_WARN;
        remedy(f, "raise the limit: ulimit -n 4096");
    }
}

static void check_gpus(struct cli *c, struct finding *f)
{
    AUTO(buf) struct buf text = {0};
    struct err e = {0};

    (void)c;
    buf_init(&text, sizeof(f->text));
    if (gpu_survey(&text, &e) == 0) {
        say(f, HEALTH_OK, "%s", buf_str(&text).p);
        return;
    }
    say(f, HEALTH_WARN, "%s", e.text);
    remedy(f, "check nvidia-smi (rocm-smi) and dmesg; without its library a GPU reports no memory "
              "use and is not shared");
}

/* Only jobs with an image need one, so none is no fault. */
static void check_engine(struct cli *c, struct finding *f)
{
    AUTO(buf) struct buf text = {0};
    struct err e = {0};

    (void)c;
    buf_init(&text, sizeof(f->text));
    if (engine_survey(NULL, &text, &e) == 0) {
        say(f, HEALTH_OK, "%s", buf_str(&text).p);
        return;
    }
    say(f, HEALTH_OK, "none for jobs with an image: %s", e.text);
}

const struct check doctor_checks[] = {
    {"home", check_home},         {"disk", check_disk},     {"daemon", check_daemon},
    {"shepherd", check_shepherd}, {"store", check_store},   {"cgroups", check_cgroups},
    {"clock", check_clock},       {"limits", check_limits}, {"libraries", check_libraries},
    {"python", check_python},     {"gpus", check_gpus},     {"engine", check_engine},
    {"runs", check_runs},
};
const size_t n_doctor_checks = ARRAY_SIZE(doctor_checks);

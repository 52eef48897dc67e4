/* doctor.c - what can be wrong with a machine or a home
 *
 * Owns: the checks.  None of them changes anything or starts a daemon; each is over in a moment,
 * except the store's, whose time grows with the number of jobs kept.
 */
#include "host/doctor.h"
#include "backend/container.h"
#include "backend/gpu_survey.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/units.h"
#include "base/util.h"
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

void finding_say(struct finding *f, enum health h, const char *fmt, ...)
{
    f->health = h;
    FORMAT_ARGS(f->text, fmt);
}

void finding_remedy(struct finding *f, const char *fmt, ...)
{
    FORMAT_ARGS(f->remedy, fmt);
}

/* A home that others can write to lets them replace the database and the token. */
static void check_home(const struct doctor_ask *a, struct finding *f)
{
    AUTO_FREE char *secret = home_open_secret(a->home);
    struct stat st;

    if (stat(a->home, &st) < 0 && errno == ENOENT) {
        finding_say(f, HEALTH_OK, "%s does not exist yet; the first command creates it", a->home);
    } else if (stat(a->home, &st) < 0 || access(a->home, R_OK | W_OK | X_OK) < 0) {
        finding_say(f, HEALTH_FAIL, "%s cannot be used: %s", a->home, strerror(errno));
        finding_remedy(
            f, "change its owner to you (chown), or set BERTH_HOME to a directory of your own");
    } else if (!S_ISDIR(st.st_mode)) {
        finding_say(f, HEALTH_FAIL, "%s is not a directory", a->home);
        finding_remedy(f, "move it away, or set BERTH_HOME");
    } else if (st.st_mode & 022) {
        finding_say(f, HEALTH_FAIL, "%s can be written by others (mode %o)", a->home,
                    st.st_mode & 07777);
        finding_remedy(f, "chmod go-w %s", a->home);
    } else if (secret) {
        finding_say(f, HEALTH_WARN, "%s can be read by others, who can then act as you", secret);
        finding_remedy(f, "chmod 600 %s", secret);
    } else {
        finding_say(f, HEALTH_OK, "%s, mode %o", a->home, st.st_mode & 07777);
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
static void check_disk(const struct doctor_ask *a, struct finding *f)
{
    struct statvfs v;
    char text[UNIT_TEXT_MAX];

    if (stat_place(a->home, &v) < 0) {
        finding_say(f, HEALTH_WARN, "free space is unknown: %s", strerror(errno));
        return;
    }
    int64_t bytes = (int64_t)v.f_bavail * (int64_t)v.f_frsize;
    size_format(bytes, text);
    finding_say(f,
                bytes < 50 * MIB     ? HEALTH_FAIL
                : bytes < 1024 * MIB ? HEALTH_WARN
                                     : HEALTH_OK,
                "%s free", text);
    if (f->health != HEALTH_OK)
        finding_remedy(
            f, "free space: berth rm --filter 'ended>0 and not ended>30d', or move BERTH_HOME");
    if (v.f_files && v.f_favail < 10000) {
        finding_say(f, HEALTH_WARN, "%s free, but only %llu more files can be created", text,
                    (unsigned long long)v.f_favail);
        finding_remedy(f, "remove old jobs (berth rm): each has at least one file");
    }
}

int file_lock_held(const char *path, pid_t *out_pid)
{
    /* F_OFD_GETLK asks without taking the lock, so a daemon that starts meanwhile is not disturbed.
     */
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

    if (fd < 0 || fcntl(fd, F_OFD_GETLK, &l) < 0)
        return -1;
    if (l.l_type != F_UNLCK && out_pid)
        *out_pid = l.l_pid;
    return l.l_type != F_UNLCK;
}

/* Looks where the backend looks: BERTH_SHEPHERD, beside this program, libexec, the build tree. */
static void check_shepherd(const struct doctor_ask *a, struct finding *f)
{
    AUTO_FREE char *lock = path_join(a->home, "shepherd/lock");
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    static const char *const places[] = {"berth-shepherd", "../libexec/berth/berth-shepherd",
                                         "../shepherd/berth-shepherd"};

    if (file_lock_held(lock, NULL) == 1) {
        finding_say(f, HEALTH_OK, "runs");
        return;
    }
    program[MAX(n, 0)] = 0;
    const char *said = getenv("BERTH_SHEPHERD");
    if (said && *said) {
        finding_say(f, access(said, X_OK) == 0 ? HEALTH_OK : HEALTH_FAIL,
                    "not running; BERTH_SHEPHERD names %s, which can%s be executed", said,
                    access(said, X_OK) == 0 ? "" : "not");
        if (f->health == HEALTH_FAIL)
            finding_remedy(f, "correct or unset BERTH_SHEPHERD");
        return;
    }
    char *slash = strrchr(program, '/');
    for (size_t i = 0; slash && i < ARRAY_SIZE(places); i++) {
        *slash = 0;
        AUTO_FREE char *path = path_join(program, places[i]);
        *slash = '/';
        if (access(path, X_OK) == 0) {
            finding_say(f, HEALTH_OK, "not running; %s is started with the first job", path);
            return;
        }
    }
    finding_say(f, HEALTH_FAIL,
                "berth-shepherd, which starts jobs, is neither beside %s nor in libexec",
                n > 0 ? program : "this program");
    finding_remedy(f, "install the whole package, or set BERTH_SHEPHERD to its path");
}

/* Reads the database file directly, so the check works with and without a daemon. */
static void check_store(const struct doctor_ask *a, struct finding *f)
{
    AUTO_FREE char *path = path_join(a->home, "berth.db"), *id = path_join(a->home, "id");
    AUTO(buf) struct buf found = {0};
    struct stat st;
    struct err e = {0};
    char size[UNIT_TEXT_MAX];

    if (stat(path, &st) < 0 || st.st_size == 0) {
        if (access(id, F_OK) == 0) {
            finding_say(f, HEALTH_FAIL, "%s is missing or empty, but this home had one", path);
            finding_remedy(f, "berth restore DIR, or start afresh: berth serve --new-database");
        } else {
            finding_say(f, HEALTH_OK, "no jobs yet");
        }
        return;
    }
    if (st.st_size > SLOW_STORE_MIB * MIB && a->slow)
        a->slow(path);
    buf_init(&found, 1 << 20);
    size_format(st.st_size, size);
    if (store_check(path, &found, &e) < 0) {
        finding_say(f, HEALTH_FAIL, "%s cannot be checked: %s", path, e.text);
        finding_remedy(f, "stop the daemon, keep a copy of the file, restore a berth backup");
    } else if (found.n) {
        struct str rest, first = str_cut(buf_str(&found), '\n', &rest);
        finding_say(f, HEALTH_FAIL, "%s is damaged: %.300s", path, "");
        snprintf(f->text + strlen(f->text), sizeof(f->text) - strlen(f->text), "%.*s",
                 (int)MIN(first.n, 200), first.p);
        finding_remedy(f, "stop the daemon, keep a copy of the file, restore a berth backup");
    } else {
        finding_say(f, HEALTH_OK, "%s, %s, no fault found", path, size);
    }
}

/* Limits are enforced where the cgroup of this process can be written, version 1 or 2. */
static void check_cgroups(const struct doctor_ask *a, struct finding *f)
{
    AUTO_FREE char *text = NULL;
    size_t n;
    struct err e;
    struct str rest, line;

    (void)a;
    if (file_read_all("/proc/self/cgroup", 1 << 16, &text, &n, &e) < 0) {
        finding_say(f, HEALTH_WARN,
                    "this kernel has no cgroups: memory limits are watched, not enforced");
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
            finding_say(f, HEALTH_OK, "version %d, %s can be written", v1 ? 1 : 2, dir);
            return;
        }
    }
    finding_say(f, HEALTH_WARN,
                "no cgroup can be written: memory and CPU limits of jobs are not enforced");
    finding_remedy(f, "run the daemon as a systemd unit with Delegate=yes, or as root");
}

/* A database that is newer than now shows that the clock was set back. */
static void check_clock(const struct doctor_ask *a, struct finding *f)
{
    AUTO_FREE char *db = path_join(a->home, "berth.db");
    struct timex tx = {0};
    struct stat st;
    int64_t now = clock_wall(&clock_system);

    if (now / 1000 < 1704067200) { /* 2024 */
        finding_say(f, HEALTH_FAIL, "the clock is years behind");
        finding_remedy(f, "set the clock; recorded times of jobs are wrong until then");
    } else if (stat(db, &st) == 0 && st.st_mtime > now / 1000 + 60) {
        finding_say(f, HEALTH_WARN, "the clock was set back: the newest record lies in the future");
        finding_remedy(
            f, "times of recent jobs are wrong; delays and limits do not depend on the clock");
    } else if (adjtimex(&tx) < 0 || (tx.status & STA_UNSYNC)) {
        finding_say(f, HEALTH_OK, "set, but not synchronised by NTP");
    } else {
        finding_say(f, HEALTH_OK, "synchronised by NTP");
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

static void check_libraries(const struct doctor_ask *a, struct finding *f)
{
    static const struct {
        const char *file, *instead, *package, *use;
    } libs[] = {
        {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl4", "--server http://…"},
        {"libssl.so.3", NULL, "libssl3", "--tls-cert"},
        {"libarchive.so.13", NULL, "libarchive13", "foundations"},
    };
    AUTO(buf) struct buf found, install;

    (void)a;
    buf_init(&found, sizeof(f->text));
    buf_init(&install, sizeof(f->remedy));
    for (size_t i = 0; i < ARRAY_SIZE(libs); i++) {
        bool here = opens(libs[i].file) || (libs[i].instead && opens(libs[i].instead));
        buf_addf(&found, "%s%s %s", i ? ", " : "", libs[i].file, here ? "found" : "missing");
        if (!here)
            buf_addf(&install, "%s %s for %s", install.n ? "," : "install", libs[i].package,
                     libs[i].use);
    }
    finding_say(f, install.n ? HEALTH_WARN : HEALTH_OK, "%s", found.p);
    if (install.n)
        finding_remedy(f, "%s", install.p);
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
static void check_python(const struct doctor_ask *a, struct finding *f)
{
    char *argv[] = {(char *)"python3", (char *)"-c",
                    (char *)"import sys; print('%d.%d' % sys.version_info[:2])", NULL};
    char out[64];
    int major = 0, minor = 0;

    (void)a;
    if (!capture(argv, out, sizeof(out)) || sscanf(out, "%d.%d", &major, &minor) != 2) {
        finding_say(f, HEALTH_WARN,
                    "python3 is not in PATH; only jobs in other languages will run");
        finding_remedy(f, "install python3, or submit from a shell that has it");
    } else if (major < 3 || minor < 8) {
        finding_say(f, HEALTH_WARN, "python %d.%d is older than 3.8, which `import berth` needs",
                    major, minor);
        finding_remedy(f, "install Python 3.8 or newer");
    } else {
        finding_say(f, HEALTH_OK, "python %d.%d", major, minor);
    }
}

static void check_limits(const struct doctor_ask *a, struct finding *f)
{
    struct rlimit files = {0}, procs = {0};

    (void)a;
    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_NPROC, &procs);
    finding_say(f, HEALTH_OK, "%llu files, %lld processes", (unsigned long long)files.rlim_cur,
                procs.rlim_cur == RLIM_INFINITY ? -1LL : (long long)procs.rlim_cur);
    if (procs.rlim_cur == RLIM_INFINITY)
        finding_say(f, HEALTH_OK, "%llu files, any number of processes",
                    (unsigned long long)files.rlim_cur);
    if (files.rlim_cur < 1024) {
        f->health = HEALTH_WARN;
        finding_remedy(f, "raise the limit: ulimit -n 4096");
    }
}

static void check_gpus(const struct doctor_ask *a, struct finding *f)
{
    AUTO(buf) struct buf text = {0};
    struct err e = {0};

    (void)a;
    buf_init(&text, sizeof(f->text));
    if (gpu_survey(&text, &e) == 0) {
        finding_say(f, HEALTH_OK, "%s", buf_str(&text).p);
        return;
    }
    finding_say(f, HEALTH_WARN, "%s", e.text);
    finding_remedy(
        f, "check nvidia-smi (rocm-smi) and dmesg; without its library a GPU reports no memory "
           "use and is not shared");
}

/* Only jobs with an image need one, so none is no fault. */
static void check_engine(const struct doctor_ask *a, struct finding *f)
{
    AUTO(buf) struct buf text = {0};
    struct err e = {0};

    (void)a;
    buf_init(&text, sizeof(f->text));
    if (engine_survey(NULL, &text, &e) == 0) {
        finding_say(f, HEALTH_OK, "%s", buf_str(&text).p);
        return;
    }
    finding_say(f, HEALTH_OK, "none for jobs with an image: %s", e.text);
}

const struct doctor_check doctor_checks[] = {
    {"home", check_home},     {"disk", check_disk},           {"shepherd", check_shepherd},
    {"store", check_store},   {"cgroups", check_cgroups},     {"clock", check_clock},
    {"limits", check_limits}, {"libraries", check_libraries}, {"python", check_python},
    {"gpus", check_gpus},     {"engine", check_engine},
};
const size_t n_doctor_checks = ARRAY_SIZE(doctor_checks);

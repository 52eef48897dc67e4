/* home.c - the directory everything lives in: where it is, who holds it, its secrets
 *
 * Exactly one host works on a home.  The lock is a classic record lock: it belongs to the process,
 * goes with it however it dies, and supervisors can look at it without taking it.  An
 * open-file-description lock would live on in a child that was killed between fork and exec.  The
 * known trap, that closing any descriptor of the file drops it, is avoided by opening the file
 * once.
 */
#include "host/home.h"
#include "base/file.h"
#include "base/rand.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

char *host_home(bool system_wide)
{
    const char *home = getenv("BERTH_HOME"), *data = getenv("XDG_DATA_HOME");

    if (home && *home)
        return xstrdup(home);
    if (system_wide)
        return xstrdup("/var/lib/berth");
    if (data && *data == '/')
        return path_join(data, "berth");
    home = getenv("HOME");
    return path_join(home && *home ? home : "/", ".local/share/berth");
}

/* Directories of runs that an earlier version, or a daemon of one user, made for all to list. There
 * is one for each thousand jobs. */
static void home_close_listings(const char *runs)
{
    DIR *d = opendir(runs);
    struct stat st;

    for (struct dirent *n; d && (n = readdir(d));)
        if (n->d_name[0] != '.' && fstatat(dirfd(d), n->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(st.st_mode) && (st.st_mode & 0777) != 0711)
            fchmodat(dirfd(d), n->d_name, 0711, 0);
    if (d)
        closedir(d);
}

int home_prepare(const char *home, bool multi_user, struct err *e)
{
    /* Others must reach the socket and their own run directories, but not list or read the rest. */
    mode_t mode = multi_user ? 0711 : 0700;
    AUTO_FREE char *runs = path_join(home, "runs");

    if (home[0] != '/')
        return err_set(e, ERR_INVALID, "BERTH_HOME must be an absolute path, not \"%s\"", home);
    if (dir_make_all(home, mode, e) < 0 || dir_make_all(runs, mode, e) < 0)
        return err_wrap(e, "preparing %s", home);
    if (multi_user && (chmod(home, mode) < 0 || chmod(runs, mode) < 0))
        return err_sys(e, "cannot open %s to other users", home);
    if (multi_user)
        home_close_listings(runs);
    return 0;
}

int home_lock(const char *home, int *out_fd, struct err *e)
{
    AUTO_FREE char *path = path_join(home, "daemon.lock");
    AUTO_FD fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

    if (fd < 0)
        return err_sys(e, "cannot open %s", path);
    if (fcntl(fd, F_SETLK, &lock) < 0) {
        if (errno == EAGAIN || errno == EACCES) {
            err_set(e, ERR_CONFLICT,
                    "another berth already serves %s; use that one, or set BERTH_HOME", home);
            e->sys = EAGAIN;
            return -1;
        }
        return err_sys(e, "cannot lock %s", path);
    }
    *out_fd = TAKE_FD(fd);
    return 0;
}

/* Reads the first n bytes of the file (at most 64), or makes a file of n random bytes or hex
 * digits.  `out` gets no NUL.  A file that is too short is an error: a new secret would make the
 * tokens of running jobs invalid, so the user decides. */
static int load_or_make(const char *path, size_t n, bool hex, char *out, struct err *e)
{
    uint8_t raw[64];
    AUTO_FREE char *text = NULL;
    size_t len;

    if (access(path, F_OK) == 0) {
        if (file_read_all(path, 1024, &text, &len, e) < 0)
            return err_wrap(e, "reading %s", path);
        if (len < n)
            return err_set(e, ERR_INVALID,
                           "%s is too short; remove it and restart to make a new one", path);
        memcpy(out, text, n);
        return 0;
    }
    random_bytes(raw, sizeof(raw));
    for (size_t i = 0; i < n; i++)
        out[i] = hex ? "0123456789abcdef"[raw[i] & 15] : (char)raw[i];
    return file_write_atomic(path, out, n, 0600, e);
}

int home_secrets(const char *home, struct home_secrets *out, struct err *e)
{
    AUTO_FREE char *secret = path_join(home, "secret"), *token = path_join(home, "token");

    out->token[sizeof(out->token) - 1] = '\0';
    if (load_or_make(secret, sizeof(out->secret), false, (char *)out->secret, e) < 0)
        return -1;
    return load_or_make(token, sizeof(out->token) - 1, true, out->token, e);
}

int home_id_read(const char *home, char out[STORE_ID_MAX], struct err *e)
{
    AUTO_FREE char *path = path_join(home, "id"), *text = NULL;
    size_t n;

    out[0] = 0;
    if (access(path, F_OK) < 0 && errno == ENOENT)
        return 0;
    if (file_read_all(path, 1024, &text, &n, e) < 0)
        return err_wrap(e, "reading %s", path);
    if (strspn(text, "0123456789abcdef") != STORE_ID_MAX - 1)
        return err_set(e, ERR_INVALID,
                       "%s is damaged; remove it, and the next start writes it again from berth.db",
                       path);
    snprintf(out, STORE_ID_MAX, "%.*s", STORE_ID_MAX - 1, text);
    return 0;
}

int home_id_write(const char *home, const char *id, struct err *e)
{
    AUTO_FREE char *path = path_join(home, "id"), *line = xasprintf("%s\n", id);

    return file_write_atomic(path, line, strlen(line), 0600, e);
}

/* Is this directory one for PYTHONPATH, with the package `berth` in it? */
static bool is_package(const char *dir)
{
    AUTO_FREE char *init = path_join(dir, "berth/__init__.py");

    return access(init, R_OK) == 0;
}

/* Installed: PREFIX/share/berth/python beside PREFIX/bin.  In a source tree: python/ some levels
 * up. */
char *home_python_path(void)
{
    char exe[4096];
    const char *set = getenv("BERTH_PYTHON");
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    if (set && *set)
        return xstrdup(set);
    if (n <= 0)
        return NULL;
    exe[n] = '\0';
    for (int up = 0; up < 6; up++) {
        char *slash = strrchr(exe, '/');
        if (!slash || slash == exe)
            return NULL;
        *slash = '\0';
        AUTO_FREE char *shared = path_join(exe, "share/berth/python"),
                       *source = path_join(exe, "python");
        if (is_package(shared))
            return TAKE(shared);
        if (is_package(source))
            return TAKE(source);
    }
    return NULL;
}

char *home_open_secret(const char *home)
{
    AUTO_FREE char *token = path_join(home, "token"), *secret = path_join(home, "secret");
    struct stat st;

    return xstrdup(stat(token, &st) == 0 && st.st_mode & 077    ? token
                   : stat(secret, &st) == 0 && st.st_mode & 077 ? secret
                                                                : NULL);
}

/* volumes.c - may the submitter use the directories that the engine is to mount?
 *
 * Owns: the check of the sources of mounts.
 *
 * An engine mounts as root, and makes directories that do not exist.  The runner of a container has
 * the rights of the job's user, so it asks before it tells the engine: nobody gets a directory into
 * a container that they could not enter themselves.  The path is resolved here, since the engine
 * would follow a link with root's rights.  Only for users other than the daemon's own.
 */
#include "backend/docker/docker_priv.h"
#include "base/user_rights.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

/* The name of what `fd` is, without links, if the user may enter or read it; 0, or errno. */
static int fd_real_path(int fd, char out[PATH_MAX])
{
    char link[32];
    struct stat st, now;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n <= 0 || fstat(fd, &st) < 0 || access(link, S_ISDIR(st.st_mode) ? X_OK : R_OK) < 0)
        return errno;
    out[n] = '\0';
    return lstat(out, &now) == 0 && st.st_dev == now.st_dev && st.st_ino == now.st_ino &&
                   !strchr(out, ':')
               ? 0
               : EINVAL;
}

/* "HOST:TARGET[:ro]" with the real path of HOST; the caller frees it.  NULL with an error. */
static char *volume_check(struct str text, struct err *e)
{
    struct str rest, host = str_cut(text, ':', &rest);
    AUTO_FREE char *path = xstrndup(host.p, host.n);
    char real[PATH_MAX];

    AUTO_FD fd = user_open(path, O_PATH, NULL);
    errno = fd < 0 ? errno : fd_real_path(fd, real);
    if (errno) {
        err_sys(e, "user %u cannot mount %s", (unsigned)geteuid(), path);
        return NULL;
    }
    return xasprintf("%s:" STR_FMT, real, STR_ARG(rest));
}

int volumes_check(struct facts *f, struct err *e)
{
    const struct json *n = json_get(f->doc, "check_mounts"), *list = json_get(f->doc, "mounts");

    if (json_type(n) != JSON_INT || json_int(n) <= 0)
        return 0;
    struct json *checked = json_new_array();
    for (size_t i = 0; i < json_len(list); i++) {
        struct str text = json_str(json_at(list, i));
        AUTO_FREE char *own = (int64_t)i < json_int(n) ? volume_check(text, e) : NULL;
        if (!own && (int64_t)i < json_int(n)) {
            json_free(checked);
            return -1;
        }
        json_push_take(checked, json_new_str(own ? str_of(own) : text));
    }
    json_set_take(f->doc, "mounts", checked);
    return 0;
}

/* access.c - may this user read or write a directory, and whose is a connection?
 *
 * A daemon that serves several users is root and could read everything, so the question must be
 * asked with the user's rights.  On Linux the identity that file access is judged by belongs to a
 * thread: a worker takes the user's for one system call and its own back.  The plain calls are
 * needed; the C library's would change every thread of the process.
 *
 * A connection over TCP says nothing about its user, but on one host the kernel lists both ends of
 * it with their owners.  It shows 0, which is root, for ends that nobody holds any more, so only an
 * established one counts, and root's is looked at twice: what was closed in between is not
 * established the second time.
 */
#include "base/util.h"
#include "dialect/gpu/dialect_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { GROUPS_MAX = 1024, TCP_ESTABLISHED_STATE = 1 };

static int groups_of(uint32_t uid, uint32_t gid, gid_t out[GROUPS_MAX])
{
    char text[4096];
    struct passwd pw, *found = NULL;
    int n = GROUPS_MAX;

    if (getpwuid_r(uid, &pw, text, sizeof(text), &found) != 0 || !found ||
        getgrouplist(pw.pw_name, gid, out, &n) < 0) {
        out[0] = gid;
        return 1;
    }
    return n;
}

/* 0, or errno. */
static int ask(const char *path, int mode)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return errno;
    if (!S_ISDIR(st.st_mode))
        return ENOTDIR;
    /* AT_EACCESS: by the identity files are judged by now.  An old kernel cannot say: the start
     * will. */
    if (syscall(SYS_faccessat2, AT_FDCWD, path, mode, AT_EACCESS) < 0 && errno != ENOSYS)
        return errno;
    return 0;
}

static int ask_as(const char *path, int mode, uint32_t uid, uint32_t gid)
{
    gid_t theirs[GROUPS_MAX], ours[GROUPS_MAX];
    int n = groups_of(uid, gid, theirs), had = getgroups(GROUPS_MAX, ours);

    if (had < 0 || syscall(SYS_setgroups, n, theirs) < 0)
        return 0; /* not allowed to ask: the start will tell */
    syscall(SYS_setfsgid, gid);
    syscall(SYS_setfsuid, uid);
    int sys = ask(path, mode);
    syscall(SYS_setfsuid, 0);
    syscall(SYS_setfsgid, getegid());
    syscall(SYS_setgroups, had, ours);
    return sys;
}

int gpu_dir_check(const char *path, uint32_t uid, uint32_t gid, int may, struct err *e)
{
    int mode = X_OK | (may & GPU_MAY_READ ? R_OK : 0) | (may & GPU_MAY_WRITE ? W_OK : 0);
    int sys = geteuid() == 0 && uid != 0 ? ask_as(path, mode, uid, gid) : ask(path, mode);

    if (sys == 0)
        return 0;
    if (sys == EACCES)
        return err_set(e, ERR_INVALID, "'%.120s': you may not %s it", path,
                       may & GPU_MAY_WRITE ? "write to" : "read");
    return err_set(e, ERR_INVALID, "'%.120s': %s", path,
                   sys == ENOENT    ? "there is no such directory"
                   : sys == ENOTDIR ? "is not a directory"
                                    : strerrordesc_np(sys));
}

/* ---- connections ---- */

/* "0100007F:1F90" or 32 digits for IPv6: words as this host has them in memory. */
static bool end_parse(struct str text, struct in6_addr *addr, uint16_t *port)
{
    struct str rest, words = str_cut(text, ':', &rest);
    size_t n = words.n / 8;
    char part[9] = "";

    *addr = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    if ((n != 1 && n != 4) || words.n % 8 || rest.n != 4)
        return false;
    for (size_t i = 0; i < n; i++) {
        memcpy(part, words.p + 8 * i, 8);
        addr->s6_addr32[n == 1 ? 3 : i] = (uint32_t)strtoul(part, NULL, 16);
    }
    memcpy(part, rest.p, 4);
    part[4] = 0;
    *port = (uint16_t)strtoul(part, NULL, 16);
    return true;
}

/* One line of /proc/net/tcp: is it the peer's end, established?  Then its user. */
static bool line_is(const char *line, const struct http_peer *p, uint32_t *out)
{
    char local[48], remote[48];
    unsigned state, uid;
    struct in6_addr a, b;
    uint16_t a_port, b_port;

    return sscanf(line, " %*[^:]: %47s %47s %x %*s %*s %*s %u", local, remote, &state, &uid) == 4 &&
           state == TCP_ESTABLISHED_STATE && end_parse(str_of(local), &a, &a_port) &&
           end_parse(str_of(remote), &b, &b_port) && a_port == p->from_port &&
           b_port == p->to_port && memcmp(&a, &p->from, sizeof(a)) == 0 &&
           memcmp(&b, &p->to, sizeof(b)) == 0 && ((*out = uid), true);
}

static bool table_find(const char *path, const struct http_peer *p, uint32_t *out)
{
    char line[512];
    bool found = false;
    FILE *f = fopen(path, "re");

    while (f && !found && fgets(line, sizeof(line), f))
        found = line_is(line, p, out);
    if (f)
        fclose(f);
    return found;
}

static bool owner_find(const struct http_peer *p, uint32_t *out)
{
    return table_find("/proc/net/tcp", p, out) || table_find("/proc/net/tcp6", p, out);
}

bool gpu_peer_uid(const struct http_peer *p, uint32_t *out)
{
    uint32_t uid = 0, again = 0;

    if (!p->local || !owner_find(p, &uid))
        return false;
    if (uid == 0 && (!owner_find(p, &again) || again != 0))
        return false;
    *out = uid;
    return true;
}

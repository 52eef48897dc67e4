/* cas_known.c - files whose content is known from their inode
 *
 * cas_check_out writes down device, inode, size and both times of every file it makes, and what is
 * in it.  While a file still has all of them, nobody wrote to it: the change time cannot be set by
 * hand.  Two writes within one tick of the kernel's clock would have the same time, so a check-out
 * ends only when that tick is over; and a file system whose times have no nanoseconds is not
 * trusted.  A record counts until the next boot: after a crash of the machine a file may have lost
 * what was never synced.
 *
 * The record is found by the directory that was checked out or one directly in it, whatever they
 * are called now, or by one above `src`.
 */
#include "archive/cas_priv.h"
#include "base/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>

enum { LEVELS_UP = 8, RECORD_MAX = 1 << 30, BOOT_ID = 64, NAMES_MAX = 32 };
enum { RECORD_DAYS = 7 }; /* then a job that still runs has its files read again */

struct known_file {
    int64_t size, mtime_ns, ctime_ns;
    char hash[CAS_HEX];
};

static int64_t ctime_ns(const struct stat *st)
{
    return (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
}

/* A record is named by device and inode, which stay when the directory is renamed. */
static void record_name(const struct stat *dir, char out[64])
{
    snprintf(out, 64, "%llx-%llx", (unsigned long long)dir->st_dev,
             (unsigned long long)dir->st_ino);
}

/* After a reboot inodes may have lost unsynced data, so a record carries the id of the boot. */
static void boot_id(char out[BOOT_ID])
{
    AUTO_FREE char *text = NULL;
    size_t n = 0;

    if (file_read_all("/proc/sys/kernel/random/boot_id", BOOT_ID - 1, &text, &n, NULL) < 0)
        n = 0;
    while (n > 0 && text[n - 1] == '\n')
        n--;
    snprintf(out, BOOT_ID, "%.*s", (int)n, text ? text : "");
}

/* ---- writing ---- */

void known_note(struct buf *record, const struct stat *st, const char *hash)
{
    if (st->st_ctim.tv_nsec != 0)
        buf_addf(record, "%llu %lld %lld %lld %s\n", (unsigned long long)st->st_ino,
                 (long long)st->st_size, (long long)stat_mtime_ns(st), (long long)ctime_ns(st),
                 hash);
}

/* Until the clock that stamps files shows another time than those just made. */
static void wait_for_tick(void)
{
    struct timespec start, now, pause = {0, 1000000};

    clock_gettime(CLOCK_REALTIME_COARSE, &start);
    for (int i = 0; i < 50; i++) {
        nanosleep(&pause, NULL);
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
        if (now.tv_sec != start.tv_sec || now.tv_nsec != start.tv_nsec)
            return;
    }
}

/* The names of a record: of the directory itself, and of those directly in it. */
static void known_list_names(int dir, struct buf *out)
{
    int list = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = list < 0 ? NULL : fdopendir(list);
    char name[64];
    struct stat st;
    int n = 0;

    for (struct dirent *entry; d && n < NAMES_MAX && (entry = readdir(d));) {
        if (strcmp(entry->d_name, "..") == 0 ||
            fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
            continue;
        record_name(&st, name);
        buf_addf(out, "%s%s", n++ ? " " : "", name);
    }
    if (d)
        closedir(d);
}

/* Written under a temporary name and renamed; not synced, because a record is only a shortcut. */
static int known_write_text(const char *path, const struct buf *text, struct err *e)
{
    AUTO_FREE char *temp = xasprintf("%s.new", path);
    AUTO_FD fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_sys(e, "cannot create %s", temp);
    if (fd_write_all(fd, text->p, text->n, e) == 0 && rename(temp, path) == 0)
        return 0;
    unlink(temp);
    return err_set(e, ERR_INTERNAL, "cannot write %s", path);
}

static void record_text(struct buf *text, const char *names, const struct buf *record)
{
    char boot[BOOT_ID];

    boot_id(boot);
    buf_addf(text, "%s\n%s\n", boot, names);
    buf_add(text, record->p ? record->p : "", record->n);
}

int known_write(const char *path, const char *names, const struct buf *record, struct err *e)
{
    AUTO(buf) struct buf text = {0};

    record_text(&text, names, record);
    return known_write_text(path, &text, e);
}

int known_save(struct cas *c, int dir, const struct buf *record, struct err *e)
{
    AUTO(buf) struct buf text = {0}, names = {0};
    int rc = 0;

    known_list_names(dir, &names);
    record_text(&text, names.p ? names.p : "", record);
    wait_for_tick();
    for (struct str rest = buf_str(&names); rest.n > 0 && rc == 0;) {
        struct str name = str_cut(rest, ' ', &rest);
        AUTO_FREE char *path = xasprintf("%s/known/" STR_FMT, c->dir, STR_ARG(name));
        rc = known_write_text(path, &text, e);
    }
    return rc;
}

/* ---- reading ---- */

/* A line that cannot be read is skipped: its file will be hashed again. */
static void load_line(struct known *k, struct str line)
{
    int64_t inode;
    struct known_file f;

    if (!str_to_i64(str_cut(line, ' ', &line), &inode) ||
        !str_to_i64(str_cut(line, ' ', &line), &f.size) ||
        !str_to_i64(str_cut(line, ' ', &line), &f.mtime_ns) ||
        !str_to_i64(str_cut(line, ' ', &line), &f.ctime_ns) || line.n != CAS_HEX - 1)
        return;
    memcpy(f.hash, line.p, CAS_HEX - 1);
    f.hash[CAS_HEX - 1] = '\0';
    struct known_file *kept = xmalloc(sizeof(*kept));
    *kept = f;
    free(map_u64_del(&k->by_inode, (uint64_t)inode));
    map_u64_put(&k->by_inode, (uint64_t)inode, kept);
}

/* A record of an earlier boot counts as found, so the search above `src` ends, but nothing of it is
 * used. */
bool known_read(struct known *k, const char *path)
{
    AUTO_FREE char *text = NULL;
    char boot[BOOT_ID];
    size_t n;

    if (file_read_all(path, RECORD_MAX, &text, &n, NULL) < 0)
        return false;
    struct str rest = {text, n};
    boot_id(boot);
    if (!str_eq_c(str_cut(rest, '\n', &rest), boot) || !boot[0])
        return true;
    struct str names = str_cut(rest, '\n', &rest);
    k->names = xstrndup(names.p, names.n);
    while (rest.n > 0)
        load_line(k, str_cut(rest, '\n', &rest));
    return true;
}

static char *path_in(const char *records, const struct stat *dir)
{
    char name[64];

    record_name(dir, name);
    return path_join(records, name);
}

char *known_path(const char *records, const char *dir)
{
    struct stat st;

    return stat(dir, &st) < 0 ? NULL : path_in(records, &st);
}

void known_load(struct known *k, struct cas *c, const char *src)
{
    AUTO_FREE char *records = path_join(c->dir, "known");
    AUTO_FD fd = open(src, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st, first;

    *k = (struct known){0};
    if (fd < 0 || fstat(fd, &first) < 0)
        return;
    for (int i = 0; i < LEVELS_UP; i++) {
        if (fstat(fd, &st) < 0 || st.st_dev != first.st_dev)
            return;
        AUTO_FREE char *path = path_in(records, &st);
        if (known_read(k, path))
            return;
        int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (up < 0)
            return;
        close(fd);
        fd = up;
    }
}

void known_done(struct known *k)
{
    size_t it = 0;
    uint64_t inode;
    void *file;

    while (map_u64_next(&k->by_inode, &it, &inode, &file))
        free(file);
    map_u64_done(&k->by_inode);
    free(k->names);
}

/* Inodes are those of one file system: known_load stays on that of `src`, and so does the caller
 * of this by comparing st_dev before. */
const char *known_hash(const struct known *k, const struct stat *st)
{
    const struct known_file *f = map_u64_get(&k->by_inode, st->st_ino);

    if (!f || f->size != st->st_size || f->mtime_ns != stat_mtime_ns(st) ||
        f->ctime_ns != ctime_ns(st))
        return NULL;
    return f->hash;
}

void known_forget(struct cas *c, const struct known *k)
{
    for (struct str rest = str_of(k->names); rest.n > 0;) {
        struct str name = str_cut(rest, ' ', &rest);
        AUTO_FREE char *copy = xstrndup(name.p, name.n);
        unlinkat(c->known, copy, 0);
    }
}

/* Is a record of this boot and not too old? */
static bool still_good(int dir, const char *name, const char *boot)
{
    AUTO_FD fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char text[BOOT_ID] = "";
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || read(fd, text, sizeof(text) - 1) < 0)
        return false;
    text[strcspn(text, "\n")] = '\0';
    return strcmp(text, boot) == 0 && time(NULL) - st.st_mtime < RECORD_DAYS * 86400;
}

void known_clean(const char *records)
{
    int fd = open(records, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    char boot[BOOT_ID];

    boot_id(boot);
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (entry->d_name[0] != '.' && !still_good(fd, entry->d_name, boot))
            unlinkat(fd, entry->d_name, 0);
    if (d)
        closedir(d);
}

/* contents.c - what the files of a directory hold
 *
 * A record for each directory, named by its device and inode, says what was hashed the last time
 * (cas_known.c has its form and tells when it may be trusted).  A file goes into it only when it
 * was last changed well before it was read: whoever writes to it later gives it another change
 * time.
 */
#include "archive/cas_priv.h"
#include "archive/contents_priv.h"
#include "archive/walk_priv.h"
#include "base/file.h"
#include <fcntl.h>
#include <stdio.h>
#include <time.h>

/* Files below SMALLEST are sent whole.  A file that changed less than SETTLED_S ago is not
 * recorded: a later write could give it the same change time. */
enum { SMALLEST = 4096, SETTLED_S = 2 };

/* One file that was hashed.  `there`: the receiver has the content, so only the hash is sent. */
struct content {
    struct stat st; /* when it was hashed */
    char hash[CAS_HEX];
    bool there;
};
/* `records` NULL = nothing is remembered between two runs of the program. */
struct contents {
    char *records;
    VEC(struct content *) list;
    struct map_u64 by_inode;
};

struct contents *contents_new(const char *records)
{
    struct contents *c = xcalloc(1, sizeof(*c));

    if (records && dir_make_all(records, 0700, NULL) == 0)
        c->records = xstrdup(records);
    return c;
}

void contents_free(struct contents *c)
{
    if (!c)
        return;
    vec_free_each(&c->list, free);
    map_u64_done(&c->by_inode);
    free(c->records);
    free(c);
}

size_t contents_count(const struct contents *c)
{
    return c->list.n;
}

const char *contents_hash(const struct contents *c, size_t i)
{
    return c->list.p[i]->hash;
}

void contents_set_there(struct contents *c, size_t i)
{
    c->list.p[i]->there = true;
}

/* Size and both times equal: nobody wrote to the file in between, since users cannot set the
 * change time. */
static bool unchanged(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

const char *contents_find(const struct contents *c, const struct stat *st)
{
    const struct content *f = c ? map_u64_get(&c->by_inode, st->st_ino) : NULL;

    return f && f->there && unchanged(&f->st, st) ? f->hash : NULL;
}

/* Two files on two file systems may have one inode number: then only the second is found by
 * contents_find, and the first is sent as a whole. */
static void contents_push(struct contents *c, const struct stat *st, const char *hash)
{
    struct content *f = xcalloc(1, sizeof(*f));

    f->st = *st;
    memcpy(f->hash, hash, CAS_HEX);
    vec_push(&c->list, f);
    map_u64_put(&c->by_inode, st->st_ino, f);
}

/* 1 = hashed; 0 = the file cannot be read or changes meanwhile, and the packer will warn about it;
 * -1 = cancelled. */
static int hash_file(const struct walk_entry *at, struct watch *w, char hash[CAS_HEX],
                     struct err *e)
{
    AUTO_FD fd = openat(at->dir, at->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    struct err why = {0};
    int64_t size;

    if (fd < 0 || fstat(fd, &st) < 0 || !unchanged(&st, &at->st))
        return 0;
    if (copy_hashed(fd, -1, w, hash, &size, &why) < 0) {
        if (why.code != ERR_BUSY)
            return 0;
        *e = why; // cancelled
        return -1;
    }
    return fstat(fd, &st) == 0 && unchanged(&st, &at->st);
}

/* State of one contents_add.  `record` is written back in place of the old record. */
struct adding {
    struct contents *c;
    struct known known;
    struct buf record;
    dev_t dev;
    bool news; /* there is something to write down */
    time_t now;
};

/* The hash comes from the record when the file is unchanged, else from reading the file. */
static int add_file(struct adding *a, const struct walk_entry *at, struct watch *w, struct err *e)
{
    const char *known = at->st.st_dev == a->dev ? known_hash(&a->known, &at->st) : NULL;
    char hash[CAS_HEX];

    if (known) {
        memcpy(hash, known, CAS_HEX);
    } else {
        int rc = hash_file(at, w, hash, e);
        if (rc <= 0)
            return rc;
    }
    contents_push(a->c, &at->st, hash);
    if (at->st.st_dev != a->dev || a->now - at->st.st_ctime < SETTLED_S)
        return 0;
    known_note(&a->record, &at->st, hash);
    a->news |= !known;
    return 0;
}

/* The first entry of a walk is the directory itself; its device is the one that the record is
 * about. */
static int add_all(struct adding *a, struct walk *walk, struct watch *w, struct err *e)
{
    struct walk_entry at;
    int rc;

    while ((rc = walk_next(walk, &at, e)) > 0) {
        if (!*at.path)
            a->dev = at.st.st_dev;
        rc = S_ISREG(at.st.st_mode) && at.st.st_size >= SMALLEST ? add_file(a, &at, w, e) : 0;
        if (rc < 0 || (rc = watch_add(w, at.st.st_size, 1, e)) < 0)
            break;
    }
    return rc;
}

int contents_add(struct contents *c, const char *dir, const struct ignore *ig,
                 const struct archive_watch *w, struct err *e)
{
    struct archive_watch quiet = w ? *w : (struct archive_watch){0};
    struct adding a = {.c = c, .now = time(NULL)};
    AUTO_FREE char *path = c->records ? known_path(c->records, dir) : NULL;
    struct watch watch;
    struct walk *walk;

    quiet.warn = NULL; // what is left out is told when it is packed
    watch_init(&watch, &quiet);
    if (walk_open(dir, ig, &watch, &walk, e) < 0)
        return -1;
    if (path)
        known_read(&a.known, path);
    int rc = add_all(&a, walk, &watch, e);
    walk_free(walk);
    if (rc == 0 && path && a.news && known_write(path, "", &a.record, NULL) == 0)
        known_clean(c->records);
    known_done(&a.known);
    buf_done(&a.record);
    return rc;
}

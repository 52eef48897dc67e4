/* db.c - one SQLite connection: settings, prepared statements, errors in our words
 *
 * Owns: how the file is opened, the cache of statements, the mapping of SQLite's results to
 * struct err.
 *
 * The file is made with mode 0600 before SQLite sees it; SQLite gives the WAL the same mode.
 * wal_autocheckpoint is off: the writer thread decides when to checkpoint (writer.c). secure_delete
 * is a Debian default that rewrites every freed page with zeros, which doubles the cost of removing
 * jobs and guards nothing here: the file is private to its owner.
 */
#include "base/util.h"
#include "store/db_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

enum { BUSY_TIMEOUT_MS = 5000 };

/* 4 MiB of pages for the writer, 1 MiB for a reader; the rest is the kernel's page cache.  Mapping
 * the file was tried: no faster here, but one list by an unindexed column left 130 MB resident with
 * 1.2 million jobs, and an I/O error in a mapping is a signal, not an error. */
static const char common_sql[] = "PRAGMA temp_store=MEMORY;"
                                 "PRAGMA mmap_size=0;"
                                 "PRAGMA trusted_schema=OFF;";
static const char writer_sql[] = "PRAGMA synchronous=FULL;"
                                 "PRAGMA foreign_keys=ON;"
                                 "PRAGMA cache_size=-2048;"
                                 "PRAGMA wal_autocheckpoint=0;"
                                 "PRAGMA journal_size_limit=16777216;"
                                 "PRAGMA secure_delete=OFF;";
static const char reader_sql[] = "PRAGMA query_only=ON;"
                                 "PRAGMA cache_size=-1024;";

/* What the last failed call on one of the two files said. */
static int errno_of_file(struct db *d, int which)
{
    sqlite3_file *f = NULL;
    int sys = 0;

    if (sqlite3_file_control(d->h, "main", which, &f) != SQLITE_OK || !f || !f->pMethods)
        return 0;
    f->pMethods->xFileControl(f, SQLITE_FCNTL_LAST_ERRNO, &sys);
    return sys;
}

/* SQLite reads errno when it has rolled back, and rolling back may have changed it.  It knows a
 * full disk by itself, but not a quota, so the files are asked for that one. */
static int fail_errno(struct db *d)
{
    if (sqlite3_extended_errcode(d->h) == SQLITE_IOERR_WRITE &&
        (errno_of_file(d, SQLITE_FCNTL_JOURNAL_POINTER) == EDQUOT ||
         errno_of_file(d, SQLITE_FCNTL_FILE_POINTER) == EDQUOT))
        return EDQUOT;
    return sqlite3_system_errno(d->h);
}

static int fail_text(struct db *d, int sys, struct err *e)
{
    int rc = sqlite3_extended_errcode(d->h);
    const char *text = sqlite3_errmsg(d->h);

    switch (rc & 0xff) {
    case SQLITE_FULL:
        return err_set(e, ERR_FULL,
                       "no space left for the job store under %s; free some and try again",
                       d->path);
    case SQLITE_IOERR:
        if (sys == ENOSPC || sys == EDQUOT)
            return err_set(e, ERR_FULL,
                           "no space left for the job store under %s; free some and try again",
                           d->path);
        return err_set(e, ERR_UNAVAILABLE,
                       "cannot read or write the job store %s: %s (%d); check the disk and try "
                       "again",
                       d->path, text, rc);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(e, ERR_UNAVAILABLE,
                       "the job store %s is locked by another program; close it and try again",
                       d->path);
    case SQLITE_CONSTRAINT:
        return err_set(e, ERR_CONFLICT, "the job store %s refuses the change: %s", d->path, text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return err_set(e, ERR_INTERNAL,
                       "the job store %s is damaged (%s); run `berth doctor`, or restore a backup",
                       d->path, text);
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
        return err_set(e, ERR_DENIED, "cannot write the job store %s: %s; check its permissions",
                       d->path, text);
    case SQLITE_NOMEM:
        return err_set(e, ERR_UNAVAILABLE, "out of memory in the job store %s", d->path);
    default:
        return err_set(e, ERR_INTERNAL, "job store %s: %s (%d)", d->path, text, rc);
    }
}

int db_fail(struct db *d, struct err *e)
{
    int sys = fail_errno(d), kind = sqlite3_errcode(d->h) & 0xff;

    fail_text(d, sys, e);
    if (e && (kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN || kind == SQLITE_FULL))
        e->sys = kind == SQLITE_FULL ? ENOSPC : kind == SQLITE_IOERR && !sys ? EIO : sys;
    return -1;
}

/* SQLite would give a new file a mode that lets others read it, as far as the umask allows. */
static int create_private(const char *path, struct err *e)
{
    AUTO_FD fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_sys(e, "cannot create the job store %s", path);
    return 0;
}

/* SQLite does not fail when it cannot use a log, it stays in its old mode: so the answer is
 * compared. */
static int use_wal(struct db *d, struct err *e)
{
    sqlite3_stmt *st = NULL;
    bool wal;

    if (sqlite3_prepare_v2(d->h, "PRAGMA journal_mode=WAL", -1, &st, NULL) != SQLITE_OK)
        return db_fail(d, e);
    int rc = sqlite3_step(st);
    wal = rc == SQLITE_ROW && !strcmp((const char *)sqlite3_column_text(st, 0), "wal");
    sqlite3_finalize(st);
    if (rc != SQLITE_ROW)
        return db_fail(d, e);
    if (!wal)
        return err_set(e, ERR_UNAVAILABLE,
                       "the file system of %s cannot hold a write-ahead log; put $BERTH_HOME on a "
                       "local disk",
                       d->path);
    return 0;
}

/* SQLite counts every allocation under one mutex unless told not to, before its first use. */
static void configure(void)
{
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

int db_open(struct db *d, const char *path, enum db_mode mode, struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bool memory = !strcmp(path, ":memory:");
    struct stat st;

    pthread_once(&once, configure);
    *d = (struct db){.path = xstrdup(path)};
    if (!memory && mode == DB_WRITER && create_private(path, e) < 0)
        goto fail;
    if (!memory && mode == DB_READER && stat(path, &st) < 0) {
        err_sys(e, "cannot open the job store %s", path);
        goto fail;
    }
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    if (sqlite3_open_v2(path, &d->h, flags, NULL) != SQLITE_OK) {
        db_fail(d, e);
        goto fail;
    }
    sqlite3_busy_timeout(d->h, BUSY_TIMEOUT_MS);
    if (mode == DB_WRITER && !memory && use_wal(d, e) < 0)
        goto fail;
    if (db_exec(d, common_sql, e) < 0 ||
        db_exec(d, mode == DB_WRITER ? writer_sql : reader_sql, e) < 0)
        goto fail;
    return 0;
fail:
    db_done(d);
    return -1;
}

void db_done(struct db *d)
{
    for (size_t i = 0; i < DB_STATEMENTS; i++) {
        sqlite3_finalize(d->cache[i].st);
        free(d->cache[i].text);
    }
    if (d->h)
        sqlite3_close(d->h);
    free(d->path);
    *d = (struct db){0};
}

int db_exec(struct db *d, const char *sql, struct err *e)
{
    return sqlite3_exec(d->h, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_fail(d, e);
}

/* Marks the statement as used last and makes it ready to be bound. */
static sqlite3_stmt *use(struct db *d, struct db_statement *s)
{
    s->used = ++d->clock;
    d->last = (size_t)(s - d->cache);
    sqlite3_reset(s->st);
    return s->st;
}

/* The entry to be replaced: one that is empty (its `used` is 0), or the one not used for longest.
 */
static struct db_statement *oldest(struct db *d)
{
    struct db_statement *best = &d->cache[0];

    for (size_t i = 1; i < DB_STATEMENTS; i++)
        if (d->cache[i].used < best->used)
            best = &d->cache[i];
    return best;
}

/* Compiles into the oldest entry.  When the text is wrong the cache stays as it was. */
static struct db_statement *compile(struct db *d, const char *sql, struct err *e)
{
    struct db_statement *s = oldest(d);
    sqlite3_stmt *st = NULL;

    if (sqlite3_prepare_v3(d->h, sql, -1, SQLITE_PREPARE_PERSISTENT, &st, NULL) != SQLITE_OK) {
        db_fail(d, e);
        return NULL;
    }
    sqlite3_finalize(s->st);
    free(s->text);
    *s = (struct db_statement){.st = st};
    return s;
}

static sqlite3_stmt *db_prepare_text(struct db *d, const char *literal, struct err *e)
{
    /* A submission steps one statement a hundred thousand times. */
    if (d->cache[d->last].literal == literal)
        return use(d, &d->cache[d->last]);
    for (size_t i = 0; i < DB_STATEMENTS; i++)
        if (d->cache[i].literal == literal)
            return use(d, &d->cache[i]);
    struct db_statement *s = compile(d, literal, e);

    if (!s)
        return NULL;
    s->literal = literal;
    return use(d, s);
}

static sqlite3_stmt *prepare_text(struct db *d, const char *sql, struct err *e)
{
    for (size_t i = 0; i < DB_STATEMENTS; i++)
        if (d->cache[i].text && !strcmp(d->cache[i].text, sql))
            return use(d, &d->cache[i]);
    struct db_statement *s = compile(d, sql, e);

    if (!s)
        return NULL;
    s->text = xstrdup(sql);
    return use(d, s);
}

/* SQLITE_STATIC: SQLite keeps a pointer, so a text must live until the statement is done.  An id is
 * made on the stack here and is therefore copied. */
static void bind_one(sqlite3_stmt *st, int i, const struct db_arg *a)
{
    uint8_t id[16];

    switch (a->type) {
    case ARG_NONE:
    case ARG_NULL:
        sqlite3_bind_null(st, i);
        break;
    case ARG_INT:
        sqlite3_bind_int64(st, i, a->i);
        break;
    case ARG_REAL:
        sqlite3_bind_double(st, i, a->d);
        break;
    case ARG_TEXT:
        sqlite3_bind_text(st, i, a->s.p ? a->s.p : "", (int)a->s.n, SQLITE_STATIC);
        break;
    case ARG_BLOB:
        sqlite3_bind_blob(st, i, a->s.p, (int)a->s.n, SQLITE_STATIC);
        break;
    case ARG_ID:
        id_to_bytes(a->id, id);
        sqlite3_bind_blob(st, i, id, sizeof(id), SQLITE_TRANSIENT);
        break;
    }
}

static sqlite3_stmt *bind_all(sqlite3_stmt *st, const struct db_arg *args, size_t n)
{
    if (!st)
        return NULL;
    /* Every parameter gets a value, so none is left from the last use. */
    ASSERT((size_t)sqlite3_bind_parameter_count(st) == n);
    for (size_t i = 0; i < n; i++)
        bind_one(st, (int)i + 1, &args[i]);
    return st;
}

sqlite3_stmt *db_query_args(struct db *d, struct err *e, const char *sql, const struct db_arg *args,
                            size_t n)
{
    return d ? bind_all(db_prepare_text(d, sql, e), args, n) : NULL;
}

sqlite3_stmt *db_query_text(struct db *d, struct err *e, const char *sql, const struct db_arg *args,
                            size_t n)
{
    return bind_all(prepare_text(d, sql, e), args, n);
}

int db_run_args(struct db *d, struct err *e, const char *sql, const struct db_arg *args, size_t n)
{
    sqlite3_stmt *st = db_query_args(d, e, sql, args, n);
    int rc;

    while ((rc = db_step(d, st, e)) == 1)
        ;
    return rc;
}

void db_forget_text(struct db *d, const char *sql)
{
    for (size_t i = 0; i < DB_STATEMENTS; i++) {
        struct db_statement *s = &d->cache[i];
        if (!s->text || strcmp(s->text, sql))
            continue;
        sqlite3_finalize(s->st);
        free(s->text);
        *s = (struct db_statement){0};
    }
}

int db_step(struct db *d, sqlite3_stmt *st, struct err *e)
{
    if (!st)
        return -1;
    int rc = sqlite3_step(st);

    if (rc == SQLITE_ROW)
        return 1;
    if (rc != SQLITE_DONE)
        db_fail(d, e);
    sqlite3_reset(st);
    return rc == SQLITE_DONE ? 0 : -1;
}

int db_int(struct db *d, const char *literal, int64_t *out, struct err *e)
{
    sqlite3_stmt *st = db_query(d, e, literal);
    int rc = db_step(d, st, e);
    if (rc < 0)
        return -1;
    if (rc == 0)
        return err_set(e, ERR_INTERNAL, "job store %s: no row for: %s", d->path, literal);
    *out = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return 0;
}

/* The devices of a run are a text, or in older rows a bit mask. */
static struct gpu_set column_gpus(sqlite3_stmt *st, int mask, int text)
{
    struct gpu_set set = gpu_set_of_mask(column_u64(st, mask));

    if (sqlite3_column_type(st, text) != SQLITE_NULL)
        gpu_set_parse(column_str(st, text), &set);
    return set;
}

static void column_need(sqlite3_stmt *st, int i, struct resources *r)
{
    r->mcpu = sqlite3_column_int64(st, i);
    r->mem_bytes = sqlite3_column_int64(st, i + 1);
    r->gpus = sqlite3_column_int(st, i + 2);
    r->slots = sqlite3_column_int(st, i + 3);
}

static void column_stats(sqlite3_stmt *st, int i, struct series_stats *s)
{
    s->n = column_u64(st, i);
    s->step_min = sqlite3_column_int64(st, i + 1);
    s->step_max = sqlite3_column_int64(st, i + 2);
    s->at_min = sqlite3_column_int64(st, i + 3);
    s->at_max = sqlite3_column_int64(st, i + 4);
    s->min = sqlite3_column_double(st, i + 5);
    s->max = sqlite3_column_double(st, i + 6);
    s->low_step = sqlite3_column_int64(st, i + 7);
    s->high_step = sqlite3_column_int64(st, i + 8);
    s->first = sqlite3_column_double(st, i + 9);
    s->sum = sqlite3_column_double(st, i + 10);
    s->counted = column_u64(st, i + 11);
}

/* Reads one value that begins at column i; the result is the number of columns it took. */
static int column_read(sqlite3_stmt *st, int i, const struct db_column *c)
{
    switch (c->type) {
    case COL_BOOL:
        *(bool *)c->to = sqlite3_column_int(st, i);
        return 1;
    case COL_I32:
    case COL_U32:
        *(uint32_t *)c->to = (uint32_t)sqlite3_column_int64(st, i);
        return 1;
    case COL_I64:
    case COL_U64:
        *(uint64_t *)c->to = column_u64(st, i);
        return 1;
    case COL_REAL:
        *(double *)c->to = sqlite3_column_double(st, i);
        return 1;
    case COL_STR:
        *(struct str *)c->to = column_str(st, i);
        return 1;
    case COL_ID:
        *(struct id *)c->to = column_id(st, i);
        return 1;
    case COL_GPUS:
        *(struct gpu_set *)c->to = column_gpus(st, i, i + 1);
        return 2;
    case COL_NEED:
        column_need(st, i, c->to);
        return 4;
    case COL_STATS:
        break;
    }
    column_stats(st, i, c->to);
    return 12;
}

void db_row_read(sqlite3_stmt *st, const struct db_column *c, size_t n)
{
    for (int i = 0; n--; c++)
        i += column_read(st, i, c);
}

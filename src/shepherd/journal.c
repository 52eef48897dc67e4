/* journal.c - appending, finding and reading records
 *
 * A write of 128 bytes to a file opened with O_APPEND is one step for every other process on this
 * host, so appenders need no lock.  Damage comes from outside: a power cut that left a longer size
 * than data, a full disk that took half a record, somebody's editor.  Therefore nothing is believed
 * without magic and checksum, and records are looked for at every byte, not only at multiples of
 * 128.
 */
#include "shepherd/journal.h"
#include "base/hash.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

enum {
    CHUNK_BYTES = 64 << 10,
    SCAN_BYTES = 4096, /* on the stack of a supervisor; mostly nothing is there to be read */
    CRC_FROM = offsetof(struct journal_record, job),
};

/* The form counts too, so that no damage makes one form of the other. */
static uint32_t record_crc(const struct journal_record *r)
{
    return crc32c(r->magic == JOURNAL_MAGIC_PLAIN ? 0 : r->magic, (const char *)r + CRC_FROM,
                  JOURNAL_RECORD_BYTES - CRC_FROM);
}

void journal_set_name(struct journal_record *r, const char *text)
{
    size_t n = strlen(text), room = sizeof(r->name);

    memset(r->name, 0, room);
    if (n <= room) {
        memcpy(r->name, text, n);
    } else {
        memcpy(r->name, "...", 3);
        memcpy(r->name + 3, text + n - (room - 3), room - 3);
    }
}

/* Text of `stage`; a number from a newer version reads as START_OK, "could not start". */
static const char *stage_text(uint32_t stage, bool missing)
{
    static const char *const texts[][2] = {
#define X(stage, text, missing) {text, missing},
        START_STAGE_LIST(X)
#undef X
    };
    const char *const *row = texts[stage < ARRAY_SIZE(texts) ? stage : START_OK];

    return missing && row[1] ? row[1] : row[0];
}

void journal_failure_text(const struct journal_record *r, char *out, size_t n)
{
    const struct str name = {r->name, strnlen(r->name, sizeof(r->name))};
    const struct str why = str_of(strerrordesc_np(r->sys) ?: "unknown error");
    struct str rest = str_of(stage_text(r->stage, r->sys == ENOENT));
    size_t used = 0;

    /* What does not fit is cut off, as snprintf would. */
    while (rest.n && used + 1 < n) {
        const bool is_name = str_starts(rest, STR("{name}"));
        const bool is_why = str_starts(rest, STR("{why}"));
        const struct str piece = is_name ? name : is_why ? why : (struct str){rest.p, 1};
        const size_t skip = is_name ? strlen("{name}") : is_why ? strlen("{why}") : 1;
        const size_t take = MIN(piece.n, n - 1 - used);

        memcpy(out + used, piece.p, take);
        used += take;
        rest = (struct str){rest.p + skip, rest.n - skip};
    }
    if (n)
        out[used] = '\0';
}

void journal_file_name(uint32_t generation, char out[JOURNAL_FILE_MAX])
{
    snprintf(out, JOURNAL_FILE_MAX, "journal-%08" PRIu32, generation);
}

bool journal_file_parse(const char *name, uint32_t *out)
{
    struct str s = str_of(name), prefix = STR("journal-");
    int64_t n;

    if (!str_starts(s, prefix))
        return false;
    s.p += prefix.n;
    s.n -= prefix.n;
    if (s.n < 8 || s.p[0] == '-' || s.p[0] == '+' || !str_to_i64(s, &n) || n <= 0 || n > UINT32_MAX)
        return false;
    *out = (uint32_t)n;
    return true;
}

int journal_append(int fd, struct journal_record *r)
{
    ssize_t n;

    r->magic = r->tag ? JOURNAL_MAGIC_TAGGED : JOURNAL_MAGIC_PLAIN;
    r->crc = record_crc(r);
    do {
        n = write(fd, r, sizeof(*r));
    } while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof(*r))
        return 0;
    if (n >= 0)
        errno = ENOSPC;
    return -1;
}

int journal_reserve(int fd, uint64_t bytes)
{
    return fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes);
}

/* The name of an earlier version reached to the end of the record, where the tag is now. */
static void take_plain(struct journal_record *r)
{
    char name[sizeof(r->name) + sizeof(r->tag) + 1] = "";

    memcpy(name, r->name, sizeof(r->name));
    memcpy(name + sizeof(r->name), &r->tag, sizeof(r->tag));
    r->tag = 0;
    if (name[sizeof(r->name)])
        journal_set_name(r, name);
}

/* Are these bytes a record?  They are copied to *out in any case. */
static bool record_at(const char *p, struct journal_record *out)
{
    memcpy(out, p, sizeof(*out));
    if ((out->magic != JOURNAL_MAGIC_PLAIN && out->magic != JOURNAL_MAGIC_TAGGED) ||
        record_crc(out) != out->crc || out->kind < JOURNAL_STARTED || out->kind > JOURNAL_VOID)
        return false;
    if (out->magic == JOURNAL_MAGIC_PLAIN)
        take_plain(out);
    return true;
}

size_t journal_find(const void *p, size_t n, struct journal_record *out, size_t *skip)
{
    static const char magic[] = {'B', 'R', 'J'}; /* with which both begin */
    const char *base = p;
    size_t at = 0;

    while (n - at >= JOURNAL_RECORD_BYTES) {
        if (memcmp(base + at, magic, sizeof(magic)) == 0 && record_at(base + at, out)) {
            *skip = at;
            return at + JOURNAL_RECORD_BYTES;
        }
        const char *next = memmem(base + at + 1, n - at - 1, magic, sizeof(magic));
        if (!next) {
            /* The last two bytes may be the beginning of a magic; what is shorter than a record
             * may be the beginning of one only if it begins with a magic. */
            at = MAX(at + 1, n - (sizeof(magic) - 1));
            break;
        }
        at = (size_t)(next - base);
    }
    *skip = at;
    return 0;
}

void journal_reader_init(struct journal_reader *r, int fd, uint64_t offset)
{
    *r = (struct journal_reader){.fd = fd, .offset = offset, .good_end = offset};
}

void journal_reader_done(struct journal_reader *r)
{
    free(r->chunk);
    r->chunk = NULL;
    r->pos = r->n = 0;
}

/* More bytes into the chunk, what is unread first.  1 = got some, 0 = end of file, -1 = error. */
static int reader_fill(struct journal_reader *r, struct err *e)
{
    if (!r->chunk)
        r->chunk = xmalloc(CHUNK_BYTES);
    memmove(r->chunk, r->chunk + r->pos, r->n - r->pos);
    r->n -= r->pos;
    r->pos = 0;
    ssize_t got;
    do {
        got = pread(r->fd, r->chunk + r->n, CHUNK_BYTES - r->n, (off_t)(r->offset + r->n));
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return err_sys(e, "cannot read the journal of runs");
    r->short_read = (size_t)got < CHUNK_BYTES - r->n;
    r->n += (size_t)got;
    return got > 0;
}

int journal_read(struct journal_reader *r, struct journal_record *out, struct err *e)
{
    for (;;) {
        size_t skip = 0, used = 0;

        if (r->n > r->pos)
            used = journal_find(r->chunk + r->pos, r->n - r->pos, out, &skip);
        r->pos += used ? used : skip;
        r->offset += used ? used : skip;
        r->skipped += skip;
        if (used) {
            r->good_end = r->offset;
            return 1;
        }
        int got = r->short_read ? 0 : reader_fill(r, e);
        if (got <= 0) {
            r->short_read = false;
            if (r->n == r->pos)
                journal_reader_done(r); /* an idle journal holds no memory */
            return got;
        }
    }
}

int journal_scan(int fd, uint64_t offset, struct run_key k, struct journal_record *out_started)
{
    char chunk[SCAN_BYTES];
    struct journal_record rec;
    size_t have = 0;
    int seen = 0;

    for (;;) {
        ssize_t got = pread(fd, chunk + have, sizeof(chunk) - have, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            return seen;
        offset += (uint64_t)got;
        have += (size_t)got;
        size_t pos = 0, used, skip;
        while (have > pos && (used = journal_find(chunk + pos, have - pos, &rec, &skip)) > 0) {
            pos += used;
            if (!journal_record_is(&rec, k))
                continue;
            seen |= 1 << rec.kind;
            if (rec.kind == JOURNAL_STARTED && out_started)
                *out_started = rec;
        }
        if (have > pos)
            pos += skip;
        if (have < sizeof(chunk))
            return seen; /* a short read: that was the end */
        memmove(chunk, chunk + pos, have - pos);
        have -= pos;
    }
}

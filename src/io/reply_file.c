/* reply_file.c - regular files as replies: whole, one range, or not changed
 *
 * The file is read in pieces on worker threads, the next one when the client took the last, so a
 * log of any size costs one piece of memory and never stops the loop.  What a reply promised with
 * Content-Length it keeps: bytes appended meanwhile are left out, and if the file shrank the
 * connection is closed short, which the client can tell.
 */
#include "io/http_priv.h"
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

enum { PIECE_BYTES = 256 * 1024 };

struct file_job {
    struct http_job job;
    struct loop *loop;
    int fd;
    bool reading; /* on a worker thread */
    bool failed;
    uint64_t at, left;
    char *piece;
    size_t piece_n;
    struct buf head; /* goes out with the first piece */
};

static void file_free(struct file_job *j)
{
    close(j->fd);
    free(j->piece);
    buf_done(&j->head);
    free(j);
}

/* While the worker reads, the job must stay; file_piece_read frees it then. */
static void file_drop(struct http_job *job)
{
    struct file_job *j = (struct file_job *)job;

    job->r = NULL;
    if (!j->reading)
        file_free(j);
}

/* On a worker thread.  A file that became shorter than promised counts as a failure. */
static void file_read_piece(void *arg)
{
    struct file_job *j = arg;
    size_t want = (size_t)MIN(j->left, (uint64_t)PIECE_BYTES);

    j->piece = xmalloc(want);
    j->piece_n = 0;
    while (j->piece_n < want) {
        ssize_t n =
            pread(j->fd, j->piece + j->piece_n, want - j->piece_n, (off_t)(j->at + j->piece_n));
        if (n <= 0) {
            j->failed = true;
            return;
        }
        j->piece_n += (size_t)n;
    }
}

static void file_piece_read(void *arg);

static void file_next_piece(struct file_job *j)
{
    j->reading = true;
    work_submit(j->loop, file_read_piece, file_piece_read, j);
}

static void file_drained(struct http_job *job)
{
    struct file_job *j = (struct file_job *)job;

    if (!j->reading)
        file_next_piece(j);
}

static void file_piece_read(void *arg)
{
    struct file_job *j = arg;
    struct http_req *r = j->job.r;

    j->reading = false;
    if (!r || j->failed) {
        if (r) {
            r->job = NULL;
            http_conn_close(r->c);
        }
        file_free(j);
        return;
    }
    struct http_conn *c = r->c;
    uv_buf_t out[2] = {{.base = j->head.p, .len = j->head.n},
                       {.base = j->piece, .len = j->piece_n}};
    unsigned first = j->head.n > 0 ? 0 : 1;
    j->at += j->piece_n;
    j->left -= j->piece_n;
    bool last = j->left == 0;
    if (last)
        r->job = NULL;
    http_send(c, out + first, 2 - first, TAKE(j->piece));
    buf_done(&j->head);
    if (last) {
        file_free(j);
        http_conn_finish(c);
    } else if (c->phase != CONN_CLOSED && !c->out.first) {
        file_next_piece(j);
    }
}

/* Headers that describe the file; true when the client has it already. */
static bool describe(struct http_req *r, const struct stat *st, char etag[64])
{
    char date[32];
    time_t since;
    struct str known = http_header(r, "if-none-match");
    struct str dated = http_header(r, "if-modified-since");

    snprintf(etag, 64, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 ".%lx\"", (uint64_t)st->st_ino,
             (uint64_t)st->st_size, (uint64_t)st->st_mtim.tv_sec,
             (unsigned long)st->st_mtim.tv_nsec);
    http_date_format(st->st_mtim.tv_sec, date);
    http_reply_header(r, "ETag", etag);
    http_reply_header(r, "Last-Modified", date);
    http_reply_header(r, "Accept-Ranges", "bytes");
    if (known.p)
        return http_etag_matches(known, str_of(etag));
    return dated.p && http_date_parse(dated, &since) && st->st_mtim.tv_sec <= since;
}

/* A range counts only if the client's copy is of this very file. */
static bool range_wanted(struct http_req *r, const char *etag)
{
    struct str cond = http_header(r, "if-range");

    return !cond.p || str_eq_c(cond, etag);
}

static void reply_short(struct http_req *r, int status, const char *code, const char *why)
{
    AUTO(buf) struct buf body = {0};

    http_error_body(&body, code, why);
    http_reply(r, status, "application/json", buf_str(&body));
}

static void send_file(struct http_req *r, int status, const char *type, int fd, uint64_t from,
                      uint64_t n)
{
    struct http_conn *c = r->c;

    if (!http_reply_claim(r)) {
        close(fd);
        return;
    }
    struct buf *b = http_head_begin(r, status, type, (int64_t)n);
    http_head_end(r, b);
    if (n == 0 || r->method == HTTP_HEAD) {
        uv_buf_t out = {.base = b->p, .len = b->n};
        close(fd);
        http_send(c, &out, 1, NULL);
        http_conn_finish(c);
        return;
    }
    struct file_job *j = xcalloc(1, sizeof(*j));
    j->job = (struct http_job){.r = r, .drop = file_drop, .drained = file_drained};
    j->loop = r->srv->loop;
    j->fd = fd;
    j->at = from;
    j->left = n;
    buf_add(&j->head, b->p, b->n);
    r->job = &j->job;
    file_next_piece(j);
}

void http_reply_fd_take(struct http_req *r, int fd, const char *content_type)
{
    AUTO_FD owned = fd;
    struct stat st;
    char etag[64], text[64];
    uint64_t from = 0, to = 0;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        reply_short(r, 404, "not_found", "there is no such file");
        return;
    }
    uint64_t size = (uint64_t)st.st_size;
    if (describe(r, &st, etag)) {
        http_reply(r, 304, NULL, STR(""));
        return;
    }
    struct str range = http_header(r, "range");
    int part = range.p && range_wanted(r, etag) ? http_range_parse(range, size, &from, &to) : 0;
    if (part < 0) {
        snprintf(text, sizeof(text), "bytes */%" PRIu64, size);
        http_reply_header(r, "Content-Range", text);
        reply_short(r, 416, "invalid", "the range lies outside of the file");
    } else if (part > 0) {
        snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from, to, size);
        http_reply_header(r, "Content-Range", text);
        send_file(r, 206, content_type, TAKE_FD(owned), from, to - from + 1);
    } else {
        send_file(r, 200, content_type, TAKE_FD(owned), 0, size);
    }
}

/* logs.c - GET /v1/jobs/{job}/logs: the output of a run, whole, in part (Range) or as it comes
 *
 * A log that has lost its middle to its limit may have a hole there, which nobody wants to be sent:
 * asked for whole, it is sent piece by piece and without it.
 */
#include "api/api_priv.h"
#include "api/follow.h"
#include <errno.h>
#include <sys/stat.h>

/* `hole`: the middle of the log was cut out.  offset < 0 counts from the end of the log.  fd is -1
 * until the file is open. */
struct logs_call {
    bool err_stream, follow, hole;
    int64_t run, offset;
    struct job_facts f;
    int fd;
};

static void logs_free(void *data)
{
    struct logs_call *d = data;

    if (d->fd >= 0)
        close(d->fd);
}

/* The run that is asked for: the one of the token, the one of the query, or the last one. */
static int logs_check_run(struct call *c, struct logs_call *d)
{
    unsigned long long job = d->f.seq;

    if (c->who.token.job != 0 && d->run == 0)
        d->run = c->who.token.run;
    if (d->run == 0)
        d->run = d->f.attempt;
    if (d->run > d->f.attempt)
        return err_set(&c->err, ERR_NOT_FOUND, "job %llu has had %u run%s; there is no run %lld",
                       job, d->f.attempt, d->f.attempt == 1 ? "" : "s", (long long)d->run);
    if (d->run == 0 && !d->follow)
        return err_set(&c->err, ERR_NOT_FOUND,
                       "job %llu has not run yet; 'berth explain %llu' says why", job, job);
    return 0;
}

/* Was the middle of the file cut out?  File systems without holes answer no. */
static bool has_hole(int fd)
{
    struct stat st;
    off_t hole = fstat(fd, &st) == 0 ? lseek(fd, 0, SEEK_HOLE) : -1;

    lseek(fd, 0, SEEK_SET);
    return hole >= 0 && hole < st.st_size;
}

/* Worker thread: finds the run and opens its file. */
static int logs_run(struct call *c)
{
    struct logs_call *d = c->data;
    const struct core *core = call_api(c)->conf.core;
    struct run_key key;
    AUTO_FREE char *path = NULL;

    if (job_ref_arg(c, &d->f) < 0 || logs_check_run(c, d) < 0)
        return -1;
    if (d->follow)
        return 0;
    /* Paths are made of the home alone, which never changes: safe to ask from here. */
    key = core_run_key(core, d->f.seq, d->f.id, (uint32_t)d->run);
    path = d->err_stream ? core_err_path(core, key) : core_log_path(core, key);
    d->fd = log_file_open(path);
    if (d->fd >= 0) {
        d->hole = has_hole(d->fd);
        return 0;
    }
    if (errno != ENOENT)
        return err_sys(&c->err, "cannot open the log of job %llu", (unsigned long long)key.job);
    return err_set(&c->err, ERR_NOT_FOUND,
                   d->err_stream
                       ? "run %u of job %llu has no separate log of stderr; request "
                         "stream=out, which holds both streams"
                       : "run %u of job %llu has not written its log yet, or the file was "
                         "removed, as berth serve --retain does with old ones",
                   key.run, (unsigned long long)key.job);
}

/* Loop thread.  A request with Range gets the bytes of the file as they are, with the hole. */
static void logs_then(struct call *c)
{
    struct logs_call *d = c->data;
    struct http_req *r;

    if (d->follow && call_stream_check(c) < 0)
        return;
    r = call_take_req(c);
    if (!r) {
        call_free(c);
        return;
    }
    if (d->follow || (d->hole && !http_header(r, "range").p))
        follow_open(call_api(c)->follows, r,
                    core_run_key(call_api(c)->conf.core, d->f.seq, d->f.id, (uint32_t)d->run),
                    d->err_stream, d->follow ? d->offset : 0, !d->follow);
    else
        http_reply_fd_take(r, TAKE_FD(d->fd), "text/plain; charset=utf-8");
    call_free(c);
}

/* run 0 = not given.  A number that is given must be at least 1. */
static int logs_params(struct call *c, struct logs_call *d)
{
    const char *stream = call_param(c, "stream"), *follow = call_param(c, "follow");

    if (stream && strcmp(stream, "out") != 0 && strcmp(stream, "err") != 0)
        return err_set(&c->err, ERR_INVALID, "stream=%.20s: must be out or err", stream);
    d->err_stream = stream && !strcmp(stream, "err");
    d->follow = follow && strcmp(follow, "0") != 0;
    if (call_param_int(c, "run", 0, 1, UINT32_MAX, &d->run, &c->err) < 0)
        return -1;
    return call_param_int(c, "offset", 0, INT64_MIN / 2, INT64_MAX / 2, &d->offset, &c->err);
}

void logs_get(struct call *c)
{
    struct logs_call *d = call_alloc(c, sizeof(*d));

    d->fd = -1;
    c->data = d;
    c->free_data = logs_free;
    if (logs_params(c, d) < 0)
        call_fail(c, &c->err);
    else
        call_work(c, logs_run, logs_then);
}

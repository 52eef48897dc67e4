/* wire.c - what the library of a job sends
 *
 * Owns: the reading of bytes that any process of the host may have sent.
 *
 * The library of old and ours send the same keys to the same paths; ours adds some.  Keys that are
 * not known are skipped, known ones must hold what they should: numbers that are finite and not
 * negative.  A GPU memory of 0 says "not measured" and is passed on as that.
 */
#include "dialect/gpu/wire.h"
#include "base/json.h"
#include "base/util.h"
#include <math.h>

/* The number under `key`, or `absent`.  Text is read as far as it is a number ("1536 MiB"). */
static int report_number(const struct json *body, const char *key, double min, double absent,
                         double *out, struct err *e)
{
    const struct json *j = json_get(body, key);
    enum json_type t = json_type(j);
    double v = absent;

    if (t == JSON_STR) {
        struct str rest, word = str_cut(str_trim(json_str(j)), ' ', &rest);
        if (!str_to_double(word, &v))
            v = absent;
    } else if (t == JSON_INT || t == JSON_REAL) {
        v = json_real(j);
    } else if (j) {
        return err_set(e, ERR_INVALID, "%s must be a number", key);
    }
    if (v != absent && (!isfinite(v) || v < min || v > 1e15))
        return err_set(e, ERR_INVALID, "%s must be a finite number, %g or more", key, min);
    *out = v;
    return 0;
}

/* Limits keep the products below from overflowing. */
static int read_profile(const struct json *body, struct core_profile *out, struct err *e)
{
    double mean, epoch, mem, count, gpus, numgpu, rank, local;

    if (report_number(body, "meandur", 0, 0, &mean, e) < 0 ||
        report_number(body, "epochDur", 0, 0, &epoch, e) < 0 ||
        report_number(body, "gpumem", 0, 0, &mem, e) < 0 ||
        report_number(body, "iternum", 0, -1, &count, e) < 0 ||
        report_number(body, "numgpu", 0, 0, &numgpu, e) < 0 ||
        report_number(body, "gpus", 0, numgpu, &gpus, e) < 0 ||
        report_number(body, "rank", 0, -1, &rank, e) < 0 ||
        report_number(body, "local_rank", -1, -1, &local, e) < 0)
        return -1;
    if (mem > 1e9 || gpus > 1e6 || rank > 1e6 || local > 1e6)
        return err_set(e, ERR_INVALID, "a number in the profile is out of range");
    *out = (struct core_profile){.mean_step_s = mean,
                                 .epoch_s = epoch,
                                 .mem_bytes = (int64_t)(mem * (1 << 20)),
                                 .iterations = (int64_t)count,
                                 .gpus = (int32_t)gpus,
                                 .rank = (int32_t)rank,
                                 .local_rank = (int32_t)local};
    return 0;
}

/* A count that is missing is an error: without it nothing can be acknowledged. */
static int read_epoch(const struct json *body, int64_t *out, struct err *e)
{
    double v;

    if (report_number(body, "done", 0, -1, &v, e) < 0)
        return -1;
    if (v < 0 || v != floor(v))
        return err_set(e, ERR_INVALID, "done must be the number of epochs that are complete");
    *out = (int64_t)v;
    return 0;
}

int gpu_report_read(enum gpu_message m, struct str body, struct gpu_report *out, struct err *e)
{
    struct gpu_report r = {0};
    AUTO(json) struct json *j = NULL;

    if (body.n > GPU_BODY_MAX)
        return err_set(e, ERR_INVALID, "the body is larger than 64 KiB");
    /* The other messages say all by their path; a body is ignored. */
    if (m != GPU_MESSAGE_PROFILE && m != GPU_MESSAGE_EPOCH) {
        *out = r;
        return 0;
    }
    if (json_parse(body, "body", &j, e) < 0) {
        e->code = ERR_INVALID; /* nested too deep is no better than broken */
        return -1;
    }
    if (json_type(j) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "the body must be a JSON object");
    if (m == GPU_MESSAGE_EPOCH ? read_epoch(j, &r.done, e) < 0 : read_profile(j, &r.profile, e) < 0)
        return -1;
    *out = r;
    return 0;
}

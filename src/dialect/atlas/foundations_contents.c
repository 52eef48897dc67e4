/* foundations_contents.c - what the scheduler has already need not be sent
 *
 * The files of a bundle are hashed, and the scheduler is asked which of these contents it lacks.
 * One that does not know the question (the original, an older one) gets everything, as before; it
 * is asked about nothing first, so that nothing is hashed in vain.  What was hashed is noted in the
 * home, so that a sweep over one directory reads it once.
 */
#include "archive/bundle.h"
#include "base/file.h"
#include "base/json.h"
#include "base/util.h"
#include "dialect/atlas/foundations.h"

static int hash_all(struct contents *c, const struct bundle *b, const struct archive_watch *w,
                    struct err *e)
{
    for (size_t i = 0; i < b->count; i++) {
        const struct bundle_part *part = &b->parts[i];
        if (part->tree && contents_add(c, part->tree, part->ignore, w, e) < 0)
            return -1;
    }
    return 0;
}

static int contents_ask_missing(struct foundations *f, struct contents *c)
{
    AUTO(json) struct json *body = contents_question(c);
    AUTO(json) struct json *answer = NULL;
    struct http_response r = {0};
    struct err ignored = {0}; /* whatever it is: the upload that follows will tell */
    int rc = found_call(f, "POST", "/job_bundle/contents", body, &r, &ignored);

    if (rc == 0)
        rc = json_parse(buf_str(&r.body), "the scheduler's answer", &answer, &ignored);
    int64_t there = rc == 0 ? contents_take_answer(c, answer) : -1;
    if (there >= 0 && contents_count(c))
        found_step(f, "the scheduler has %lld of %zu contents", (long long)there,
                   contents_count(c));
    http_response_done(&r);
    return there < 0 ? -1 : 0;
}

/* The first call asks about nothing, to learn whether the scheduler knows the question. */
int found_contents_ask(struct foundations *f, const struct bundle *b, const struct archive_watch *w,
                       struct contents **out, struct err *e)
{
    AUTO_FREE char *records = path_join(f->home, "cache/contents");
    struct contents *c = contents_new(records);
    int rc = 0;

    if (contents_ask_missing(f, c) == 0 && (rc = hash_all(c, b, w, e)) == 0 &&
        contents_ask_missing(f, c) == 0)
        *out = TAKE(c);
    contents_free(c);
    return rc < 0 && e->code == ERR_BUSY ? -1 : 0;
}

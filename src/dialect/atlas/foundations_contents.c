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
#include "base/map.h"
#include "base/util.h"
#include "dialect/atlas/foundations.h"

enum { ASK_MAX = 50000 }; /* hashes in one question of less than 4 MB */

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

/* At most ASK_MAX hashes; contents beyond that are sent. */
static struct json *question(const struct contents *c)
{
    struct json *body = json_new_object(), *list = json_new_array();

    for (size_t i = 0; i < MIN(contents_count(c), (size_t)ASK_MAX); i++)
        json_push_take(list, json_new_str(str_of(contents_hash(c, i))));
    json_set_take(body, "contents", list);
    return body;
}

/* 0 = the answer was read: what it does not name is there. */
static int take_answer(struct foundations *f, struct contents *c, const struct json *answer)
{
    const struct json *missing =
        json_type(answer) == JSON_OBJECT ? json_get(answer, "missing") : NULL;
    struct map_str set = {0};
    size_t there = 0, n = MIN(contents_count(c), (size_t)ASK_MAX);

    if (json_type(missing) != JSON_ARRAY)
        return -1;
    for (size_t i = 0; i < json_len(missing); i++)
        map_str_put(&set, json_str(json_at(missing, i)), c);
    for (size_t i = 0; i < n; i++) {
        if (map_str_get(&set, str_of(contents_hash(c, i))))
            continue;
        contents_set_there(c, i);
        there++;
    }
    map_str_done(&set);
    if (n)
        found_step(f, "the scheduler has %zu of %zu contents", there, contents_count(c));
    return 0;
}

static int contents_ask_missing(struct foundations *f, struct contents *c)
{
    AUTO(json) struct json *body = question(c);
    AUTO(json) struct json *answer = NULL;
    struct http_response r = {0};
    struct err ignored = {0}; /* whatever it is: the upload that follows will tell */
    int rc = found_call(f, "POST", "/job_bundle/contents", body, &r, &ignored);

    if (rc == 0)
        rc = json_parse(buf_str(&r.body), "the scheduler's answer", &answer, &ignored);
    if (rc == 0)
        rc = take_answer(f, c, answer);
    http_response_done(&r);
    return rc;
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

/* contents_ask.c - "which of these contents do you lack?": question and answer as JSON
 *
 * A question has at most ASK_MAX hashes; contents beyond that are sent as if the receiver lacked
 * them.
 */
#include "archive/cas.h"
#include "archive/contents.h"
#include "base/buf.h"
#include "base/json_out.h"
#include "base/map.h"
#include "base/util.h"

enum { ASK_MAX = 50000 }; /* hashes in one question of less than 4 MB */

struct json *contents_question(const struct contents *c)
{
    struct json *body = json_new_object(), *list = json_new_array();

    for (size_t i = 0; i < MIN(contents_count(c), (size_t)ASK_MAX); i++)
        json_push_take(list, json_new_str(str_of(contents_hash(c, i))));
    json_set_take(body, "contents", list);
    return body;
}

int64_t contents_take_answer(struct contents *c, const struct json *answer)
{
    const struct json *missing =
        json_type(answer) == JSON_OBJECT ? json_get(answer, "missing") : NULL;
    struct map_str set = {0};
    int64_t there = 0;

    if (json_type(missing) != JSON_ARRAY)
        return -1;
    for (size_t i = 0; i < json_len(missing); i++)
        map_str_put(&set, json_str(json_at(missing, i)), c);
    for (size_t i = 0; i < MIN(contents_count(c), (size_t)ASK_MAX); i++) {
        if (map_str_get(&set, str_of(contents_hash(c, i))))
            continue;
        contents_set_there(c, i);
        there++;
    }
    map_str_done(&set);
    return there;
}

int contents_answer(struct cas *c, const struct json *question, struct buf *out, struct err *e)
{
    const struct json *list = json_get(question, "contents");

    if (json_type(list) != JSON_ARRAY)
        return err_set(e, ERR_INVALID, "'contents' must be a list of hashes");
    jw_object(out, NULL);
    jw_array(out, "missing");
    for (size_t i = 0; i < json_len(list); i++) {
        const struct json *hash = json_at(list, i);
        if (json_type(hash) != JSON_STR || !cas_is_hash(json_str(hash).p))
            return err_set(e, ERR_INVALID, "contents[%zu] is not a hash of 64 digits 0-9 a-f", i);
        if (!cas_has_content(c, json_str(hash).p))
            jw_str(out, NULL, json_str(hash));
    }
    jw_end_array(out);
    jw_end_object(out);
    buf_addc(out, '\n');
    return 0;
}

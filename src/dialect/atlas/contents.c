/* contents.c - POST /job_bundle/contents: which of these contents are missing?
 *
 * {"contents": [hash, …]} is answered by {"missing": [hash, …]}.  The client then sends a bundle
 * that holds the missing contents and names the others by their hash (archive/contents.h), so a
 * directory that was submitted before costs only a list.  Every caller who may ask may also read
 * every archive, so the answer reveals nothing.
 */
#include "base/json_out.h"
#include "base/util.h"
#include "dialect/atlas/atlas_priv.h"

static int ask_work(struct call *c)
{
    AUTO(json) struct json *body = call_json_body(c);
    const struct json *list = json_get(body, "contents");

    if (!body)
        return -1;
    if (json_type(list) != JSON_ARRAY)
        return err_set(&c->err, ERR_INVALID, "'contents' must be a list of hashes");
    jw_object(&c->out, NULL);
    jw_array(&c->out, "missing");
    for (size_t i = 0; i < json_len(list); i++) {
        const struct json *hash = json_at(list, i);
        if (json_type(hash) != JSON_STR || !cas_is_hash(json_str(hash).p))
            return err_set(&c->err, ERR_INVALID, "contents[%zu] is not a hash of 64 digits 0-9 a-f",
                           i);
        if (!cas_has_content(call_atlas(c)->cas, json_str(hash).p))
            jw_str(&c->out, NULL, json_str(hash));
    }
    jw_end_array(&c->out);
    jw_end_object(&c->out);
    buf_addc(&c->out, '\n');
    return 0;
}

void atlas_contents_ask(struct call *c)
{
    atlas_work(c, ask_work, NULL);
}

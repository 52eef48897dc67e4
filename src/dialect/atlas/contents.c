/* contents.c - POST /job_bundle/contents: which of these contents are here?
 *
 * {"contents": [hash, …]} is answered by {"missing": [hash, …]}.  A client that asks sends a bundle
 * which names the others by their hash (archive/contents.h): a directory that was submitted before
 * costs a list.  Whoever may ask may also read every archive, so the answer gives nothing away.
 */
#include "base/util.h"
#include "dialect/atlas/atlas_priv.h"

static int ask_work(struct call *c)
{
    struct json *body = call_json_body(c);
    const struct json *list = body ? json_get(body, "contents") : NULL;
    int rc = 0;

    if (body && json_type(list) != JSON_ARRAY)
        rc = err_set(&c->err, ERR_INVALID, "'contents' must be a list of hashes");
    buf_adds(&c->out, "{\"missing\":[");
    for (size_t i = 0, n = 0; rc == 0 && i < json_len(list); i++) {
        const struct json *hash = json_at(list, i);
        if (json_type(hash) != JSON_STR || !cas_is_hash(json_str(hash).p))
            rc = err_set(&c->err, ERR_INVALID, "contents[%zu] is no hash: 64 digits 0-9 a-f", i);
        else if (!cas_has_content(call_atlas(c)->cas, json_str(hash).p))
            buf_addf(&c->out, "%s\"%s\"", n++ ? "," : "", json_str(hash).p);
    }
    buf_adds(&c->out, "]}\n");
    json_free(body);
    return body ? rc : -1;
}

void atlas_contents_ask(struct call *c)
{
    atlas_work(c, ask_work, NULL);
}

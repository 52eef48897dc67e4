/* contents.c - POST /job_bundle/contents: which of these contents are missing?
 *
 * {"contents": [hash, …]} is answered by {"missing": [hash, …]}.  The client then sends a bundle
 * that holds the missing contents and names the others by their hash (archive/contents.h), so a
 * directory that was submitted before costs only a list.  Every caller who may ask may also read
 * every archive, so the answer reveals nothing.
 */
#include "archive/contents.h"
#include "dialect/atlas/atlas_priv.h"

static int ask_work(struct call *c)
{
    AUTO(json) struct json *body = call_json_body(c);

    return body ? contents_answer(call_atlas(c)->cas, body, &c->out, &c->err) : -1;
}

void atlas_contents_ask(struct call *c)
{
    atlas_work(c, ask_work, NULL);
}

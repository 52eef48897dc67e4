/* link.c - what both links read alike */
#include "dialect/hyperctl/link.h"
#include "cli/view.h"

bool hyper_event_read(struct str kind, const struct json *data, struct hyper_event *out)
{
    static const struct str prefix = {"job.", 4};
    const struct json *code = json_get(data, "exit_code");

    if (!str_starts(kind, prefix) ||
        !job_state_parse((struct str){kind.p + prefix.n, kind.n - prefix.n}, &out->state))
        return false;
    out->exit_code = code ? (int)json_int(code) : -1;
    out->run = (uint32_t)int_of(data, "run");
    out->node = text_of(data, "node");
    out->reason = text_of(data, "reason");
    return true;
}

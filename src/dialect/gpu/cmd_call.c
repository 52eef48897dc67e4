/* cmd_call.c - what the four commands of the GPU scheduler share */
#include "base/util.h"
#include "dialect/gpu/cmd.h"
#include <stdio.h>

int gpu_fail(const char *command, const struct err *e, int status)
{
    fprintf(stderr, "%s: %s\n", command, e->text[0] ? e->text : "unknown error");
    return status;
}

int gpu_call_status(const struct err *e, int otherwise)
{
    return e->code == ERR_UNAVAILABLE ? GPU_EXIT_UNREACHABLE : otherwise;
}

int gpu_job_get(struct cli *c, const char *ref, struct json **out, struct err *e)
{
    AUTO(buf) struct buf path = {0};

    buf_init(&path, 1 << 16);
    buf_adds(&path, "/gpu-scheduler/jobs/");
    /* The text of the user must not become another path or a query. */
    url_encode(&path, str_of(ref));
    return cli_get(c, path.p, out, e);
}

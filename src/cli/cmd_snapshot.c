/* cmd_snapshot.c - berth snapshot get, and berth __checkout, which starts a run in its snapshot */
#include "archive/snapshot.h"
#include "archive/unpack.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include <errno.h>

enum { CANNOT_RUN = 127, ANSWER_MAX = 1 << 20 };

/* The bytes go to the archive, or, of a failure, to the text that says why. */
struct fetching {
    struct unpack *unpack;
    int status;
    struct http_response failed;
    struct err e;
    int rc;
};

static bool snapshot_on_bytes(void *arg, struct str piece)
{
    struct fetching *f = arg;

    if (f->status >= 400)
        return buf_add(&f->failed.body, piece.p, piece.n);
    f->rc = unpack_feed(f->unpack, piece.p, piece.n, &f->e);
    return f->rc == 0;
}

static int snapshot_get(struct cli *c, const char *job, const char *dir, struct err *e)
{
    const struct unpack_conf conf = {.top = SNAPSHOT_TOP, .outside_links = true};
    AUTO(buf) struct buf path = {0};
    struct fetching f = {0};

    buf_init(&path, ANSWER_MAX);
    buf_init(&f.failed.body, ANSWER_MAX);
    job_path(&path, job, "/snapshot");
    int rc = cli_get(c, "/v1", NULL, e); /* finds the daemon */
    if (rc == 0)
        rc = unpack_open_dir(dir, &conf, &f.unpack, e);
    if (rc == 0)
        rc = http_call_stream(c->http, "GET", path.p, NULL, STR(""), &f.status, snapshot_on_bytes,
                              &f, e);
    if (rc == 0 && f.status >= 400) {
        f.failed.status = f.status;
        rc = http_response_err(&f.failed, e);
    } else if (rc == 0 && f.rc < 0) {
        *e = f.e;
        rc = -1;
    }
    if (rc == 0)
        rc = unpack_finish(f.unpack, e);
    unpack_free(f.unpack);
    http_response_done(&f.failed);
    return rc;
}

static int snapshot_run(struct cli *c, const void *opts, const struct operands *ops)
{
    struct err e = {0};

    (void)opts;
    if (strcmp(ops->p[0], "get") != 0) {
        cli_say("berth snapshot has no action '%.40s'; write berth snapshot get JOB DIR",
                ops->p[0]);
        return err_exit_code(ERR_INVALID);
    }
    if (snapshot_get(c, ops->p[1], ops->p[2], &e) < 0)
        return cli_fail(&e);
    return 0;
}

const struct command cmd_snapshot = {
    USAGE(SECTION_LOOK, "snapshot", "get JOB DIR"),
    .summary = "get back the directory that a job was submitted with",
    .description =
        "berth submit --snapshot keeps a copy of the working directory, and each run starts in a "
        "copy of that. This command writes the directory, as the job got it, to DIR, which must "
        "not exist. A snapshot is removed with the last job that names it.",
    .groups = OPTION_GROUPS(&common_group),
    .examples = EXAMPLES({"berth snapshot get 42 /tmp/code-of-42", "the exact code of job 42"}),
    OPERANDS("action", 3, 3, COMPLETE_CHOICES),
    .choices = "get",
    .run = snapshot_run,
};

/* STORE ID DIR SUB -- WORD…: replaces this process by the command, so that signals and the exit
 * status are those of the job. */
static int checkout(struct cli *c, const void *opts, const struct operands *ops)
{
    size_t first = ops->n > 4 && !strcmp(ops->p[4], "--") ? 5 : 4;
    struct err e = {0};

    (void)c;
    (void)opts;
    if (first >= ops->n || snapshot_enter(ops->p[0], ops->p[1], ops->p[2], ops->p[3], &e) < 0) {
        cli_say("%s", first < ops->n ? e.text : "__checkout needs a command");
        return CANNOT_RUN;
    }
    execvp(ops->p[first], (char *const *)(ops->p + first));
    cli_say("cannot start %s: %s", ops->p[first], strerror(errno));
    return CANNOT_RUN;
}

const struct command cmd_checkout = {
    USAGE(SECTION_RUN, "__checkout", "STORE ID DIR SUB COMMAND [ARGUMENT…]"),
    .summary = "start a run in a copy of its snapshot",
    .flags = COMMAND_HIDDEN | COMMAND_STARTS,
    .groups = OPTION_GROUPS(NULL),
    OPERANDS("store", 5, SIZE_MAX, COMPLETE_NONE),
    .run = checkout,
};

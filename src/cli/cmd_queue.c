/* cmd_queue.c - berth queue: pause, resume and list queues */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"

static int queue_list(struct cli *c)
{
    static const struct column cols[] = {
        {"QUEUE", "name", CELL_TEXT, true, NULL},
        {"PAUSED", "paused", CELL_YES, false, NULL},
        {"QUEUED", "queued", CELL_NUMBER, false, ""},
        {"RUNNING", "running", CELL_NUMBER, false, ""},
    };

    return view_list(c, "/v1/queues", cols, ARRAY_SIZE(cols), "no queues yet");
}

static int queue(struct cli *c, const void *opts UNUSED, const struct operands *ops)
{
    /* Without operands the queues are listed; without a name the queue "default" is meant. */
    const char *verb = ops->n ? ops->p[0] : "list";
    const char *name = ops->n > 1 ? ops->p[1] : "default";

    if (!strcmp(verb, "list"))
        return queue_list(c);
    if (strcmp(verb, "pause") != 0 && strcmp(verb, "resume") != 0)
        return cli_refuse(
            "berth queue has no action '%.40s'; the actions are list, pause and resume", verb);
    int rc = resource_post(c, "queues", name, *verb == 'p' ? "/pause" : "/resume");
    if (rc == 0 && c->err.is_tty)
        cli_say(!strcmp(verb, "pause")
                    ? "queue %s is paused: running jobs continue, no new jobs start"
                    : "queue %s is resumed",
                name);
    return rc;
}
const struct command cmd_queue = {
    BERTH_COMMAND(SECTION_CHANGE, "queue", "[list]\npause|resume [NAME]", queue,
                  "pause, resume and list queues"),
    .description =
        "A job's queue is set at submission with --queue; without it the queue is \"default\".",
    .groups = OPTION_GROUPS(&output_group, &common_group),
    .examples = EXAMPLES({"berth queue pause", "start no new jobs; running jobs continue"},
                         {"berth queue resume", "go on"},
                         {"berth queue pause night", "pause only the queue 'night'"},
                         {"berth queue list", "list all queues"}),
    OPERANDS("action", 0, 2, COMPLETE_CHOICES),
    .choices = "list|pause|resume",
};

/* cmd_explain.c - berth explain: why a job waits, and what would let it start */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"

/* The text about an ended job names the job itself; the text about an active job does not. */
static void explain_text(struct buf *b, const struct json *j, const char *ref)
{
    struct str text = text_of(j, "text"), remedy = text_of(j, "remedy");
    int64_t ahead = int_of(j, "ahead");

    if (job_final(j)) {
        buf_addf(b, STR_FMT "\n", STR_ARG(text));
    } else {
        buf_addf(b, "job %s is " STR_FMT "%s" STR_FMT "\n", ref, STR_ARG(text_of(j, "state")),
                 text.n ? ": " : "", STR_ARG(text));
    }
    if (remedy.n)
        buf_addf(b, STR_FMT "\n", STR_ARG(remedy));
    if (ahead > 0)
        buf_addf(b, "%lld job%s ahead of it\n", (long long)ahead, ahead == 1 ? " is" : "s are");
}

static int explain(struct cli *c, const void *opts UNUSED, const struct operands *ops)
{
    AUTO(buf) struct buf out = {0};
    AUTO(json) struct json *all = json_new_array();
    struct err e = {0};

    for (size_t i = 0; i < ops->n; i++) {
        struct json *j = NULL;
        if (resource_get(c, "jobs", ops->p[i], "/explain", &j, &e) < 0) {
            cli_print(&out);
            return cli_fail(&e);
        }
        explain_text(&out, j, ops->p[i]);
        json_push_take(all, j);
    }
    if (cli_json(c))
        view_json(all);
    else
        cli_print(&out);
    return 0;
}
const struct command cmd_explain = {
    BERTH_COMMAND(SECTION_LOOK, "explain", "[OPTION…] JOB…", explain,
                  "show why a job is queued and what would let it start"),
    .description = "The reason comes from the scheduler: the function that decides also explains.",
    .groups = OPTION_GROUPS(&output_group, &common_group),
    .examples = EXAMPLES({"berth explain 42", "why job 42 is queued, and what would let it start"}),
    OPERANDS("job", 1, SIZE_MAX, COMPLETE_JOB),
};

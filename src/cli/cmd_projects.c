/* cmd_projects.c - berth projects: every project and the states of its jobs */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"

static int projects(struct cli *c, const void *opts UNUSED, const struct operands *ops UNUSED)
{
    static const struct column cols[] = {
        {"PROJECT", "name", CELL_TEXT, true, NULL},
        {"JOBS", "total", CELL_NUMBER, false, ""},
        {"QUEUED", "queued", CELL_NUMBER, false, NULL},
        {"RUNNING", "running", CELL_NUMBER, false, NULL},
        {"SUCCEEDED", "succeeded", CELL_NUMBER, false, NULL},
        {"FAILED", "failed", CELL_NUMBER, false, NULL},
        {"CANCELLED", "cancelled", CELL_NUMBER, false, "0"},
        {"LOST", "lost", CELL_NUMBER, false, "0"},
    };

    return view_list(c, "/v1/projects", cols, ARRAY_SIZE(cols),
                     "no projects yet; create one with berth submit --project NAME");
}
const struct command cmd_projects = {
    BERTH_COMMAND(SECTION_LOOK, "projects", "[OPTION…]", projects,
                  "list projects and the states of their jobs"),
    .groups = OPTION_GROUPS(&output_group, &common_group),
    .examples = EXAMPLES({"berth projects", "every project and the states of its jobs"}),
};

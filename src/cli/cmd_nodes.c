/* cmd_nodes.c - berth nodes: where jobs run and how full it is */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"

enum { TEXT_MAX = 1 << 20 };

struct nodes_opts {
    const char *drain, *undrain;
};
static const struct opt node_opts[] = {
    {"drain", 0, OPT_TEXT, "NODE", offsetof(struct nodes_opts, drain),
     "let it finish what runs, start nothing new", COMPLETE_NONE, NULL},
    {"undrain", 0, OPT_TEXT, "NODE", offsetof(struct nodes_opts, undrain), "start jobs on it again",
     COMPLETE_NONE, NULL},
};
static const struct opt_group node_group = {"Nodes", node_opts, ARRAY_SIZE(node_opts), false};
static const struct opt_group *const node_groups[] = {&node_group, &output_group, &common_group,
                                                      NULL};

static int drain(struct cli *c, const char *name, const char *verb)
{
    AUTO(buf) struct buf path = {0};
    struct err e = {0};

    buf_init(&path, TEXT_MAX);
    buf_adds(&path, "/v1/nodes/");
    url_encode(&path, str_of(name));
    buf_addf(&path, "/%s", verb);
    return cli_post(c, path.p, NULL, NULL, &e) < 0 ? cli_fail(&e) : 0;
}

static int nodes(struct cli *c, const void *opts, const struct operands *ops)
{
    static const struct column cols[] = {
        {"NODE", "name", CELL_TEXT, true, NULL, NULL},
        {"RUNNING", "running", CELL_NUMBER, false, NULL, NULL},
        {"SLOTS", "used_slots", CELL_SHARE, false, NULL, "slots"},
        {"CPUS", "used_cpus", CELL_SHARE, false, NULL, "cpus"},
        {"MEMORY", "used_mem_bytes", CELL_SHARE_SIZE, false, NULL, "mem_bytes"},
        {"GPUS", "used_gpus", CELL_SHARE, false, "0/0", "gpus"},
        {"DRAINED", "drained", CELL_YES, false, "", NULL},
    };
    const struct nodes_opts *o = opts;

    (void)ops;
    if (o->drain)
        return drain(c, o->drain, "drain");
    if (o->undrain)
        return drain(c, o->undrain, "undrain");
    return view_list(c, "/v1/nodes", cols, ARRAY_SIZE(cols), "no nodes");
}
static const struct example nodes_examples[] = {
    {"berth nodes", "slots, CPUs, memory and GPUs, and what is used of them"},
    {"berth nodes --drain $(hostname)", "before maintenance: finish what runs, start nothing"},
    {NULL, NULL},
};
const struct command cmd_nodes = {
    .name = "nodes",
    .summary = "show where jobs run and how full it is",
    .synopsis = "[OPTION…]",
    .section = SECTION_LOOK,
    .groups = node_groups,
    .opts_size = sizeof(struct nodes_opts),
    .examples = nodes_examples,
    .run = nodes,
};

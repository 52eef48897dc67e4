/* cmd_nodes.c - berth nodes: where jobs run, how full it is, and who is on which GPU */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"

struct nodes_opts {
    const char *drain, *undrain;
};
static const struct opt node_opts[] = {
    {"drain", 0, OPT_TEXT, "NODE", offsetof(struct nodes_opts, drain),
     "let running jobs finish on this node, start no new jobs"},
    {"undrain", 0, OPT_TEXT, "NODE", offsetof(struct nodes_opts, undrain),
     "start jobs on this node again"},
};
static const struct opt_group node_group = OPT_GROUP("Nodes", node_opts);

static const struct column node_columns[] = {
    {"NODE", "name", CELL_TEXT, true, NULL, NULL},
    {"RUNNING", "running", CELL_NUMBER, false, NULL, NULL},
    {"SLOTS", "used_slots", CELL_SHARE, false, NULL, "slots"},
    {"CPUS", "used_cpus", CELL_SHARE, false, NULL, "cpus"},
    {"MEMORY", "used_mem_bytes", CELL_SHARE_SIZE, false, NULL, "mem_bytes"},
    {"GPUS", "used_gpus", CELL_SHARE, false, "0/0", "gpus"},
    {"STATE", "state", CELL_STATE, false, "", NULL},
    {"RESERVED", "reserved", CELL_YES, false, "", NULL},
    {"TROUBLE", "trouble", CELL_TEXT, true, "", NULL},
};
static const struct column gpu_columns[] = {
    {"GPU", "index", CELL_NUMBER, false, NULL, NULL},
    {"NAME", "kind", CELL_TEXT, true, NULL, NULL},
    {"STATE", "state", CELL_DEVICE, false, "", NULL},
    {"LOAD", "busy_percent", CELL_PERCENT, false, "", NULL},
    {"MEMORY", "used_bytes", CELL_KNOWN_SIZE, false, "", "mem_bytes"},
    {"FOREIGN", "foreign_bytes", CELL_SIZE, false, "", NULL},
    {"POWER", "power_w", CELL_POWER, false, "", NULL},
    {"JOBS (USED/RESERVED)", "jobs", CELL_GPU_JOBS, true, "", NULL},
    {"REASON", "reason", CELL_TEXT, true, "", NULL},
};

/* Nothing for a node without GPUs. */
static void add_gpus(const struct cli *c, struct buf *out, const struct json *node)
{
    const struct json *devices = json_get(node, "devices");

    if (json_len(devices)) {
        buf_adds(out, "\n");
        view_table(out, devices, gpu_columns, ARRAY_SIZE(gpu_columns), c->out.width, c->out.colour);
    }
}

static int nodes_show(struct cli *c)
{
    AUTO(buf) struct buf out = {0};
    AUTO(json) struct json *reply = NULL;
    struct err e = {0};

    if (cli_get(c, "/v1/nodes", &reply, &e) < 0)
        return cli_fail(&e);
    const struct json *nodes = json_get(reply, "items");
    view_table(&out, nodes, node_columns, ARRAY_SIZE(node_columns), c->out.width, c->out.colour);
    for (size_t i = 0; i < json_len(nodes); i++)
        add_gpus(c, &out, json_at(nodes, i));
    cli_print(&out);
    return 0;
}

static int nodes(struct cli *c, const void *opts, const struct operands *ops UNUSED)
{
    const struct nodes_opts *o = opts;

    if (o->drain)
        return resource_post(c, "nodes", o->drain, "/drain");
    if (o->undrain)
        return resource_post(c, "nodes", o->undrain, "/undrain");
    if (cli_json(c) || cli_csv(c))
        return view_list(c, "/v1/nodes", node_columns, ARRAY_SIZE(node_columns), "no nodes");
    return nodes_show(c);
}
const struct command cmd_nodes = {
    BERTH_COMMAND(SECTION_LOOK, "nodes", "[OPTION…]", nodes, "list the nodes with their load"),
    .description =
        "A reserved node runs only jobs that name it. Below each node there is a line for each "
        "GPU: load, memory in use, memory of processes that are not jobs, and the jobs on the GPU "
        "with their used and reserved memory. A lost or excluded GPU gets no jobs.",
    OPTIONS(struct nodes_opts, &node_group, &output_group, &common_group),
    .examples =
        EXAMPLES({"berth nodes", "slots, CPUs, memory, and the load and jobs of each GPU"},
                 {"berth nodes -o json", "the same for programs, with the UUIDs of the GPUs"},
                 {"berth nodes --drain $(hostname)",
                  "before maintenance: let running jobs finish, start no new jobs"}),
};

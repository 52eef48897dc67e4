/* cmd_nodes.c - berth nodes: where jobs run, how full it is, and who is on which GPU */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"
#include <stdio.h>

struct nodes_opts {
    const char *drain, *undrain;
};
static const struct opt node_opts[] = {
    {"drain", 0, OPT_TEXT, "NODE", offsetof(struct nodes_opts, drain),
     "let running jobs finish on this node, start no new jobs"},
    {"undrain", 0, OPT_TEXT, "NODE", offsetof(struct nodes_opts, undrain),
     "start jobs on this node again"},
};
static const struct opt_group node_group = {"Nodes", node_opts, ARRAY_SIZE(node_opts), false};

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
    {"STATE", "state", CELL_STATE, false, "", NULL},
    {"LOAD", "load", CELL_TEXT, false, "", NULL},
    {"MEMORY", "memory", CELL_TEXT, false, "", NULL},
    {"FOREIGN", "foreign_bytes", CELL_SIZE, false, "", NULL},
    {"POWER", "power", CELL_TEXT, false, "", NULL},
    {"JOBS (USED/RESERVED)", "on_it", CELL_TEXT, true, "", NULL},
    {"REASON", "reason", CELL_TEXT, true, "", NULL},
};

/* ---- GPUs ---- */

static void size_or(const struct json *j, const char *key, const char *otherwise,
                    char out[UNIT_TEXT_MAX])
{
    const struct json *v = json_get(j, key);

    if (json_type(v) == JSON_INT)
        size_format(json_int(v), out);
    else
        snprintf(out, UNIT_TEXT_MAX, "%s", otherwise);
}

/* "12 1.5G/2.0G, 14 ?/all, 2 of others" */
static void set_jobs(struct json *row, const struct json *device)
{
    const struct json *jobs = json_get(device, "jobs");
    AUTO(buf) struct buf b = {0};
    char used[UNIT_TEXT_MAX], reserved[UNIT_TEXT_MAX];
    int64_t others = int_of(device, "runs") - (int64_t)json_len(jobs);

    for (size_t i = 0; i < json_len(jobs); i++) {
        const struct json *j = json_at(jobs, i);
        size_or(j, "measured_bytes", "?", used);
        size_or(j, "reserved_bytes", "all", reserved);
        buf_addf(&b, "%s%lld %s/%s", b.n ? ", " : "", (long long)int_of(j, "number"), used,
                 reserved);
    }
    if (others > 0)
        buf_addf(&b, "%s%lld of other users", b.n ? ", " : "", (long long)others);
    json_set_str(row, "on_it", buf_str(&b).p);
}

/* Empty when the size of the memory is not known. */
static void set_memory(struct json *row, const struct json *device)
{
    char used[UNIT_TEXT_MAX], all[UNIT_TEXT_MAX], text[2 * UNIT_TEXT_MAX + 2] = "";

    size_or(device, "used_bytes", "?", used);
    size_format(int_of(device, "mem_bytes"), all);
    if (int_of(device, "mem_bytes") > 0)
        snprintf(text, sizeof(text), "%s/%s", used, all);
    json_set_str(row, "memory", text);
}

/* Texts for the table; the caller frees the row.  An unknown value is an empty text. */
static struct json *gpu_row(const struct json *device)
{
    struct json *row = json_new_object();
    struct str state = text_of(device, "state"), reason = text_of(device, "reason");
    const struct json *load = json_get(device, "busy_percent"),
                      *power = json_get(device, "power_w");
    char text[32] = "";

    json_set_int(row, "index", int_of(device, "index"));
    json_set_take(row, "kind", json_new_str(text_of(device, "kind")));
    json_set_take(row, "state", json_new_str(str_eq_c(state, "unseen") ? STR("") : state));
    json_set_take(row, "reason", json_new_str(reason));
    json_set_int(row, "foreign_bytes", int_of(device, "foreign_bytes"));
    if (json_type(load) == JSON_INT)
        snprintf(text, sizeof(text), "%lld%%", (long long)json_int(load));
    json_set_str(row, "load", text);
    text[0] = 0;
    if (power && json_type(power) != JSON_NULL)
        snprintf(text, sizeof(text), "%lldW", (long long)int_of(device, "power_w"));
    json_set_str(row, "power", text);
    set_memory(row, device);
    set_jobs(row, device);
    return row;
}

/* Nothing for a node without GPUs. */
static void add_gpus(const struct cli *c, struct buf *out, const struct json *node)
{
    const struct json *devices = json_get(node, "devices");
    AUTO(json) struct json *rows = json_new_array();

    for (size_t i = 0; i < json_len(devices); i++)
        json_push_take(rows, gpu_row(json_at(devices, i)));
    if (json_len(rows)) {
        buf_adds(out, "\n");
        view_table(out, rows, gpu_columns, ARRAY_SIZE(gpu_columns), c->out.width, c->out.colour);
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

static int nodes(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct nodes_opts *o = opts;

    (void)ops;
    if (o->drain)
        return resource_post(c, "nodes", o->drain, "/drain");
    if (o->undrain)
        return resource_post(c, "nodes", o->undrain, "/undrain");
    if (cli_json(c) || cli_csv(c))
        return view_list(c, "/v1/nodes", node_columns, ARRAY_SIZE(node_columns), "no nodes");
    return nodes_show(c);
}
const struct command cmd_nodes = {
    USAGE(SECTION_LOOK, "nodes", "[OPTION…]"),
    .summary = "list the nodes with their load",
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
    .run = nodes,
};

/* cmd_node.c - berth node: add machines to run jobs on, remove them, drain them
 *
 * Adding waits for the first connection, since that is when mistakes show: a wrong name, a key that
 * is not accepted, a machine of another kind.  What could not be reached is not kept, unless asked
 * for: whoever adds a machine that is switched off knows.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/jobspec.h"
#include "cli/view.h"
#include <poll.h>
#include <stdio.h>

enum { LOOK_MS = 100, WAIT_MS = 60 * 1000 };

struct node_opts {
    const char *name, *identity, *known_hosts, *host_key;
    struct opt_num slots, cpus, mem, gpus, wait;
    bool accept_new, reserved, force;
    struct opt_list set, as;
};
#define NODE(field) offsetof(struct node_opts, field)
static const struct opt add_opts[] = {
    {"name", 0, OPT_TEXT, "NAME", NODE(name), "name of the node (default: its host name)"},
    {"slots", 0, OPT_INT, "N", NODE(slots),
     "largest number of running jobs (default: number of CPUs)"},
    {"cpus", 0, OPT_CPUS, "N", NODE(cpus), "CPUs that jobs may use (default: all)"},
    {"mem", 0, OPT_SIZE, "SIZE", NODE(mem), "memory that jobs may use (default: all)"},
    {"gpus", 0, OPT_INT, "N", NODE(gpus), "GPUs that jobs may use (default: all)"},
    {"identity", 'i', OPT_TEXT, "FILE", NODE(identity),
     "private key to log in with (default: as in ssh)", COMPLETE_FILE},
    {"known-hosts", 0, OPT_TEXT, "FILE", NODE(known_hosts),
     "file with known host keys (default: as in ssh)", COMPLETE_FILE},
    {"host-key", 0, OPT_TEXT, "KEY", NODE(host_key), "host key of the node: 'ssh-ed25519 AAAA…'"},
    {"accept-new", 0, OPT_FLAG, NULL, NODE(accept_new),
     "accept an unknown host key; a changed host key is always refused"},
    {"reserved", 0, OPT_FLAG, NULL, NODE(reserved), "run only jobs that name this node (--node)"},
    {"as", 0, OPT_LIST, "USER=LOGIN", NODE(as),
     "with berth serve --multi-user: jobs of USER run as LOGIN or LOGIN@HOST there; '%u': every "
     "user under their own name (default: only jobs of the owner run there)"},
    {"set", 0, OPT_LIST, "KEY=VALUE", NODE(set),
     "another setting of the node, as in --set connect_timeout=30"},
    {"wait", 0, OPT_DURATION, "TIME", NODE(wait),
     "wait this long for the first connection (default 1m)"},
    {"force", 0, OPT_FLAG, NULL, NODE(force),
     "add: keep a node that cannot be reached; rm: remove a node with running jobs, which are "
     "stopped and count as lost"},
};
static const struct opt_group add_group = OPT_GROUP("Nodes", add_opts);

/* ---- add ---- */

/* *out is set in case of an error as well; the caller frees it.  Paths of files become absolute,
 * since the daemon opens them. */
static int body_of(const struct node_opts *o, const char *url, struct json **out, struct err *e)
{
    const struct opt_group *const groups[] = {&add_group, NULL};
    struct json *j = json_new_object();

    *out = j;
    json_set_str(j, "url", url);
    opt_put_json(j, groups, o, "name|slots|mem|gpus|host-key|cpus|accept-new|reserved|as");
    /* The daemon checks these against the keys of the node's backend (backend/node_conf.c). */
    if (jobspec_add_options(j, "set", &o->set, false, e) < 0)
        return -1;
    AUTO_FREE char *identity = o->identity ? path_from_here(o->identity) : NULL;
    AUTO_FREE char *known = o->known_hosts ? path_from_here(o->known_hosts) : NULL;
    if (identity)
        json_set_str(j, "identity", identity);
    if (known)
        json_set_str(j, "known_hosts", known);
    return 0;
}

static void say_capacity(const struct json *n)
{
    char mem[UNIT_TEXT_MAX];
    struct str name = text_of(n, "name");
    int64_t gpus = int_of(n, "gpus"), slots = int_of(n, "slots");
    double cpus = json_real(json_get(n, "cpus"));

    size_format(int_of(n, "mem_bytes"), mem);
    printf(STR_FMT ": %lld slot%s, %g CPU%s, %s", STR_ARG(name), (long long)slots,
           plural_end(slots), cpus, cpus == 1 ? "" : "s", mem);
    if (gpus)
        printf(", %lld GPU%s", (long long)gpus, plural_end(gpus));
    putchar('\n');
}

/* Until it is there, or was tried and cannot be reached, or it takes too long. */
static int wait_for(struct cli *c, const char *name, int64_t wait_ms, struct json **out,
                    struct err *e)
{
    int64_t until = clock_mono(&clock_system) + wait_ms;
    bool said = false;

    for (;;) {
        json_free(*out);
        *out = NULL;
        if (resource_get(c, "nodes", name, "", out, e) < 0)
            return -1;
        struct str why = text_of(*out, "trouble");
        if (!str_eq_c(text_of(*out, "state"), "away"))
            return 0;
        /* The daemon has tried once and failed: it will try again, but this command need not wait
         * for that. */
        if (json_type(json_get(*out, "retry_in_ms")) == JSON_INT)
            return err_set(e, ERR_UNAVAILABLE, "%.60s cannot be reached: " STR_FMT, name,
                           (int)MIN(why.n, (size_t)150), why.p);
        if (clock_mono(&clock_system) > until)
            return err_set(e, ERR_UNAVAILABLE, "no connection to %.60s in time (" STR_FMT ")", name,
                           (int)MIN(why.n, (size_t)150), why.p);
        if (!said && c->err.is_tty)
            cli_say("connecting to %s …", name);
        said = true;
        poll(NULL, 0, LOOK_MS);
    }
}

/* What cannot be reached is taken back, with its reason. */
static int take_back(struct cli *c, const char *name, const struct err *why)
{
    AUTO(buf) struct buf path = {0};
    struct err e = {0};

    resource_path(&path, "nodes", name, "?force=1");
    if (cli_call(c, "DELETE", path.p, NULL, NULL, NULL, &e) < 0)
        return cli_fail(&e);
    cli_fail(why);
    cli_say("the node was not added; --force adds a node that cannot be reached yet");
    return err_exit_code(why->code);
}

/* With --force an unreachable node stays, and the exit status is 0. */
static int add(struct cli *c, const struct node_opts *o, const char *url)
{
    AUTO(json) struct json *body = NULL, *node = NULL;
    struct err e = {0};
    int rc;

    if (body_of(o, url, &body, &e) < 0 || cli_post(c, "/v1/nodes", body, &node, &e) < 0)
        return cli_fail(&e);
    struct str s = text_of(node, "name");
    AUTO_FREE char *name = xstrndup(s.p, s.n);
    rc = wait_for(c, name, o->wait.set ? o->wait.v : WAIT_MS, &node, &e);
    if (rc < 0 && !o->force)
        rc = take_back(c, name, &e);
    else if (rc < 0)
        cli_say("%s; Berth keeps retrying; see `berth nodes`", e.text);
    else if (cli_json(c))
        cli_print_json(node);
    else
        say_capacity(node);
    return rc < 0 ? 0 : rc;
}

/* ---- the others ---- */

/* The first row counts with --force only. */
static const struct resource_verb node_verbs[] = {{"rm", "DELETE", "?force=1"},
                                                  {"rm", "DELETE", ""},
                                                  {"drain", "POST", "/drain"},
                                                  {"undrain", "POST", "/undrain"},
                                                  {0}};

static int node(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct node_opts *o = opts;

    if (ops->n == 2 && !strcmp(ops->p[0], "add"))
        return add(c, o, ops->p[1]);
    return resource_act(c, "nodes", node_verbs + !o->force, NULL, ops, NULL,
                        "the actions are: berth node add URL, berth node rm|drain|undrain NAME");
}

const struct command cmd_node = {
    BERTH_COMMAND(SECTION_CHANGE, "node",
                  "add URL [OPTION…]\nrm NAME [--force]\ndrain|undrain NAME", node,
                  "add or remove machines that run jobs"),
    .description = "Berth connects with ssh and uses your ~/.ssh/config, keys and agent; nothing "
                   "has to be installed on the machine. Jobs keep running while the connection is "
                   "down. `berth nodes` lists all nodes.",
    OPTIONS(struct node_opts, &add_group, &output_group, &common_group),
    .examples = EXAMPLES(
        {"berth node add ssh://ada@gpu7", "run jobs on gpu7 too, at most one for each of its CPUs"},
        {"berth node add gpu7", "the same with a name from ~/.ssh/config"},
        {"berth node add ssh://gpu7:2222 --name big --slots 4",
         "with another name and at most four running jobs"},
        {"berth node drain big", "let running jobs finish, start no new jobs"},
        {"berth node rm big", "remove the node"}),
    OPERANDS("action", 0, 2, COMPLETE_CHOICES),
    .choices = "add|rm|drain|undrain",
};

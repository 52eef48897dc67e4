/* args.c - the arguments of hyperctl's commands, the way Python's argparse takes them */
#include "base/util.h"
#include "cli/argparse.h"
#include "dialect/hyperctl/hyperctl.h"

const char hyper_usage[] = "usage: hyperctl [-h] [--log-level LOG_LEVEL] [-error] [-warn] [-info] "
                           "[-debug] {run,generate,batch,job} ...";
const char hyper_help[] =
    "usage: hyperctl [-h] [--log-level LOG_LEVEL] [-error] [-warn] [-info] [-debug] "
    "{run,generate,batch,job} ...\n"
    "\n"
    "hyperctl command is used to manage jobs\n"
    "\n"
    "positional arguments:\n"
    "  {run,generate,batch,job}\n"
    "    run                 run jobs\n"
    "    generate            generate specific jobs json file\n"
    "    batch               batch operations\n"
    "    job                 job operations\n"
    "\n"
    "optional arguments:\n"
    "  -h, --help            show this help message and exit\n"
    "\n"
    "Console outputs:\n"
    "  --log-level LOG_LEVEL\n"
    "                        logging level, default is INFO\n"
    "  -error                alias of \"--log-level=ERROR\"\n"
    "  -warn                 alias of \"--log-level=WARN\"\n"
    "  -info                 alias of \"--log-level=INFO\"\n"
    "  -debug                alias of \"--log-level=DEBUG\"\n";

static void usage_line(struct buf *b, const struct hyper_command *cmd)
{
    buf_addf(b, "usage: hyperctl %s [-h]", cmd->path);
    py_usage_options(b, cmd->args, cmd->n_args);
}

void hyper_help_command(struct buf *b, const struct hyper_command *cmd)
{
    usage_line(b, cmd);
    buf_adds(b, "\n\noptional arguments:\n");
    py_help_row(b, "  -h, --help", "show this help message and exit");
    py_help_options(b, cmd->args, cmd->n_args);
}

int hyper_args_parse(const struct hyper_command *cmd, char **argv, struct hyper_opts *out)
{
    AUTO(buf) struct buf strange = {0}, usage = {0};
    AUTO_FREE char *prog = xasprintf("hyperctl %s", cmd->path);

    buf_init(&strange, PY_TEXT_MAX);
    buf_init(&usage, PY_TEXT_MAX);
    usage_line(&usage, cmd);
    const struct py_parser p = {prog, usage.p, cmd->args, cmd->n_args};
    for (; *argv; argv++) {
        if (py_is_help(*argv)) {
            AUTO(buf) struct buf b = {0};
            buf_init(&b, PY_TEXT_MAX);
            hyper_help_command(&b, cmd);
            cli_print(&b);
            return PY_PARSED_HELP;
        }
        int rc = py_is_option(*argv) ? py_take(&p, &argv, out) : -1;
        if (rc > 0)
            return rc;
        if (rc < 0)
            buf_addf(&strange, "%s%s", strange.n ? " " : "", *argv);
    }
    int rc = py_check_required(&p, out);
    if (rc == 0 && strange.n)
        rc = py_usage_error("hyperctl", hyper_usage, "unrecognized arguments: %s", strange.p) + 1;
    return rc;
}

/* server_args.c - the options of `atlas-server start` */
#include "base/util.h"
#include "dialect/atlas/home.h"
#include "dialect/atlas/server.h"
#include <stdio.h>

const char atlas_help[] =
    "usage: atlas-server <start|stop|version> [options]\n"
    "\n"
    "  start     start the server, after stopping one that runs; stays in the foreground\n"
    "  stop      stop the server of this $FOUNDATIONS_HOME; running jobs go on\n"
    "  version   print the version\n"
    "\n"
    "options of start:\n"
    "  -a, --archive-port PORT        files of archives (5557)\n"
    "  -d, --dashboard-port PORT      web page (5555)\n"
    "  -g, --enable-gpu               use GPUs: as many workers as there are, unless NUM_WORKERS\n"
    "  -p, --authentication           nobody without a token; see `foundations login`\n"
    "  -t, --disable-tensorboard      no TensorBoard, and no links to it\n"
    "  -T, --tensorboard-port PORT    where TensorBoard listens (5959)\n"
    "  -l, --logs                     logs of the server to the terminal\n"
    "  -s, --scheduler-host HOST      address to listen on (127.0.0.1)\n"
    "  -u, --auth-server-port PORT    accepted for old scripts; tokens come from this server\n"
    "      --scheduler-port PORT      scheduler interface (5000)\n"
    "      --tracker-port PORT        tracker interface (5556)\n"
    "      --api-port PORT            interface of the former proxy (5558)\n"
    "      --backfill                 smaller jobs may pass one that waits for GPUs\n"
    "      --python FILE              interpreter of the built-in worker\n"
    "  -h, --help                     this text\n"
    "\n"
    "environment: FOUNDATIONS_HOME, NUM_WORKERS, CUDA_VISIBLE_DEVICES, FOUNDATIONS_SLACK_TOKEN,\n"
    "REDIS_HOST and REDIS_PORT (scheduler of the atlas-server to join)\n";

enum kind { FLAG, PORT, TEXT };
struct option_row {
    char letter;
    const char *name;
    enum kind kind;
    size_t offset;
};
#define AT(member) offsetof(struct atlas_opts, member)
static const struct option_row rows[] = {
    {'a', "archive-port", PORT, AT(conf.archive_port)},
    {'d', "dashboard-port", PORT, AT(conf.dashboard_port)},
    {'g', "enable-gpu", FLAG, AT(gpu)},
    {'p', "authentication", FLAG, AT(conf.authenticate)},
    {'t', "disable-tensorboard", FLAG, AT(no_tensorboard)},
    {'T', "tensorboard-port", PORT, AT(tensorboard_port)},
    {'l', "logs", FLAG, AT(logs)},
    {'s', "scheduler-host", TEXT, AT(conf.addr)},
    {'u', "auth-server-port", PORT, AT(auth_port)},
    {0, "scheduler-port", PORT, AT(conf.scheduler_port)},
    {0, "tracker-port", PORT, AT(conf.tracker_port)},
    {0, "api-port", PORT, AT(conf.api_port)},
    {0, "backfill", FLAG, AT(conf.backfill)},
    {0, "python", TEXT, AT(conf.python)},
};

static const struct option_row *row_find(const char *word, const char **value)
{
    const char *eq = strchr(word, '=');
    size_t n = eq ? (size_t)(eq - word) : strlen(word);

    *value = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (word[1] != '-' && rows[i].letter && word[1] == rows[i].letter) {
            *value = word[2] ? word + 2 : NULL;
            return rows[i].kind == FLAG && *value ? NULL : &rows[i];
        }
        if (word[1] == '-' && strlen(rows[i].name) == n - 2 &&
            !strncmp(word + 2, rows[i].name, n - 2)) {
            *value = eq ? eq + 1 : NULL;
            return &rows[i];
        }
    }
    return NULL;
}

static int row_set(struct atlas_opts *o, const struct option_row *row, const char *value,
                   struct err *e)
{
    void *to = (char *)o + row->offset;
    int64_t port;

    switch (row->kind) {
    case FLAG:
        *(bool *)to = true;
        return 0;
    case TEXT:
        *(const char **)to = value;
        return 0;
    case PORT:
        if (!str_to_i64(str_of(value), &port) || port < 1 || port > 65535)
            return err_set(e, ERR_INVALID, "--%s: '%.40s' is no port", row->name, value);
        *(int *)to = (int)port;
        return 0;
    }
    return 0;
}

int atlas_args_parse(char **argv, struct atlas_opts *out, bool *help, struct err *e)
{
    *help = false;
    *out = (struct atlas_opts){.conf = {.addr = "127.0.0.1",
                                        .scheduler_port = ATLAS_SCHEDULER_PORT,
                                        .dashboard_port = ATLAS_DASHBOARD_PORT,
                                        .tracker_port = ATLAS_TRACKER_PORT,
                                        .archive_port = ATLAS_ARCHIVE_PORT,
                                        .api_port = ATLAS_API_PORT},
                               .tensorboard_port = ATLAS_TENSORBOARD_PORT};
    for (; *argv; argv++) {
        const char *value;
        if (!strcmp(*argv, "-h") || !strcmp(*argv, "--help")) {
            *help = true;
            return 0;
        }
        const struct option_row *row =
            (*argv)[0] == '-' && (*argv)[1] ? row_find(*argv, &value) : NULL;
        if (!row)
            return err_set(e, ERR_INVALID, "unknown argument '%.60s'", *argv);
        if (row->kind != FLAG && !value) {
            value = *++argv;
            if (!value)
                return err_set(e, ERR_INVALID, "--%s needs a value", row->name);
        }
        if (row_set(out, row, value, e) < 0)
            return -1;
    }
    return 0;
}

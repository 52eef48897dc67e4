/* server_args.c - the options of `atlas-server start`, and the help of atlas-server */
#include "base/util.h"
#include "dialect/atlas/home.h"
#include "dialect/atlas/server.h"

enum { SERVER_HELP_MAX = 16 << 10, SERVER_HELP_WIDTH = 100 };

static const char help_head[] =
    "usage: atlas-server <start|stop|version> [options]\n"
    "\n"
    "  start     start the server, after stopping one that runs; stays in the foreground\n"
    "  stop      stop the server of this $FOUNDATIONS_HOME; running jobs go on\n"
    "  version   print the version\n";
static const char help_tail[] =
    "\n"
    "environment: FOUNDATIONS_HOME, NUM_WORKERS, CUDA_VISIBLE_DEVICES, FOUNDATIONS_SLACK_TOKEN,\n"
    "REDIS_HOST and REDIS_PORT (scheduler of the atlas-server to join)\n";

#define AT(member) offsetof(struct atlas_opts, member)
static const struct opt start_opts[] = {
    {"archive-port", 'a', OPT_PORT, "PORT", AT(conf.archive_port), "files of archives (5557)"},
    {"dashboard-port", 'd', OPT_PORT, "PORT", AT(conf.dashboard_port), "web page (5555)"},
    {"enable-gpu", 'g', OPT_FLAG, NULL, AT(gpu),
     "use GPUs: as many workers as there are GPUs, unless NUM_WORKERS is set"},
    {"authentication", 'p', OPT_FLAG, NULL, AT(conf.authenticate),
     "refuse requests without a token; see `foundations login`"},
    {"disable-tensorboard", 't', OPT_FLAG, NULL, AT(no_tensorboard),
     "no TensorBoard, and no links to it"},
    {"tensorboard-port", 'T', OPT_PORT, "PORT", AT(tensorboard_port),
     "where TensorBoard listens (5959)"},
    {"logs", 'l', OPT_FLAG, NULL, AT(logs), "logs of the server to the terminal"},
    {"scheduler-host", 's', OPT_TEXT, "HOST", AT(conf.addr), "address to listen on (127.0.0.1)"},
    {"auth-server-port", 'u', OPT_PORT, "PORT", AT(auth_port),
     "accepted for old scripts; tokens come from this server"},
    {"scheduler-port", 0, OPT_PORT, "PORT", AT(conf.scheduler_port), "scheduler interface (5000)"},
    {"tracker-port", 0, OPT_PORT, "PORT", AT(conf.tracker_port), "tracker interface (5556)"},
    {"api-port", 0, OPT_PORT, "PORT", AT(conf.api_port), "interface of the former proxy (5558)"},
    {"backfill", 0, OPT_FLAG, NULL, AT(conf.backfill),
     "smaller jobs may start before a job that waits for GPUs"},
    {"python", 0, OPT_TEXT, "FILE", AT(conf.python), "interpreter of the built-in worker"},
};
static const struct command start_command = {
    .program = "atlas-server",
    .name = "start",
    .groups =
        (const struct opt_group *const[]){&(const struct opt_group){"options of start", start_opts,
                                                                    ARRAY_SIZE(start_opts), false},
                                          NULL},
    .opts_size = sizeof(struct atlas_opts),
};

void atlas_help_print(void)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, SERVER_HELP_MAX);
    buf_adds(&b, help_head);
    help_options(&b, &start_command, SERVER_HELP_WIDTH, false);
    buf_adds(&b, help_tail);
    cli_print(&b);
}

int atlas_args_parse(char **argv, struct atlas_opts *out, bool *help, struct err *e)
{
    struct operands none;

    *out = (struct atlas_opts){.conf = {.addr = "127.0.0.1",
                                        .scheduler_port = ATLAS_SCHEDULER_PORT,
                                        .dashboard_port = ATLAS_DASHBOARD_PORT,
                                        .tracker_port = ATLAS_TRACKER_PORT,
                                        .archive_port = ATLAS_ARCHIVE_PORT,
                                        .api_port = ATLAS_API_PORT},
                               .tensorboard_port = ATLAS_TENSORBOARD_PORT};
    int rc = opt_parse(&start_command, argv, out, NULL, &none, help, e);
    opt_done(&start_command, out, NULL, &none);
    return rc;
}

/* shared_opts.c - the options commands have in common */
#include "base/util.h"
#include "cli/cli.h"

/* All groups here have `shared` set: their members are those of struct shared_opts. */
#define SHARED(member) offsetof(struct shared_opts, member)

static const struct opt common_opts[] = {
    {"home", 0, OPT_TEXT, "DIR", SHARED(home),
     "directory of jobs and output (default $BERTH_HOME, else ~/.local/share/berth)", COMPLETE_DIR},
    {"server", 0, OPT_TEXT, "URL", SHARED(server),
     "connect to this daemon: http://…, https://… or unix:PATH (default $BERTH_URL, else the "
     "home's socket)"},
    {"token-file", 0, OPT_TEXT, "FILE", SHARED(token_file),
     "file with the bearer token for --server (default $BERTH_TOKEN)", COMPLETE_FILE},
    {"ca-file", 0, OPT_TEXT, "FILE", SHARED(ca_file), "certificate to verify https:// daemons with",
     COMPLETE_FILE},
    {"no-start", 0, OPT_FLAG, NULL, SHARED(no_start),
     "fail when no daemon answers, instead of starting one"},
};
const struct opt_group common_group = {"Connection", common_opts, ARRAY_SIZE(common_opts), true};

static const struct opt output_opts[] = {
    {"output", 'o', OPT_CHOICE, "FORMAT", SHARED(output),
     "table for people, json or csv for programs", COMPLETE_CHOICES, "table|json|csv"},
};
const struct opt_group output_group = {"Output", output_opts, ARRAY_SIZE(output_opts), true};

static const struct opt list_opts[] = {
    {"limit", 'n', OPT_INT, "N", SHARED(limit), "at most N jobs"},
    {"all", 'a', OPT_FLAG, NULL, SHARED(all), "all jobs that match, without a limit"},
    {"sort", 's', OPT_TEXT, "KEY", SHARED(sort),
     "order by id, name, state, priority, created, started, ended, duration, exit_code, a "
     "parameter "
     "or a metric (lr, acc, acc.max); -KEY reverses the order",
     COMPLETE_CHOICES,
     "id|name|state|priority|created|started|ended|duration|exit_code|-id|-name|-state|-priority|"
     "-created|-started|-ended|-duration|-exit_code"},
    {"project", 'p', OPT_TEXT, "NAME", SHARED(project), "only this project", COMPLETE_PROJECT},
    {"state", 0, OPT_TEXT, "STATE", SHARED(state),
     "only these states, separated by commas: queued starting running stopping succeeded failed "
     "cancelled lost, or active and finished",
     COMPLETE_STATE},
    {"user", 'u', OPT_TEXT, "NAME", SHARED(user), "only jobs of this user"},
    {"queue", 0, OPT_TEXT, "NAME", SHARED(queue), "only this queue", COMPLETE_QUEUE},
    {"batch", 0, OPT_TEXT, "ID", SHARED(batch), "only jobs of this batch"},
};
const struct opt_group list_group = {"Which jobs", list_opts, ARRAY_SIZE(list_opts), true};

const struct opt_group *const leading_groups[] = {&common_group, NULL};

/* cmd_submit.c - berth submit: into the queue, and home
 *
 * Owns: what is printed: the id of the job (or of the batch) alone on stdout, so that
 * `id=$(berth submit …)` works; the sentence for people goes to stderr, on a terminal only.
 * One connection, one request, one read.
 */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/follow.h"
#include "cli/jobspec.h"
#include "cli/view.h"

struct submit_opts {
    struct job_opts job;
    bool wait;
};

static const struct opt own_opts[] = {
    {"wait", 'w', OPT_FLAG, NULL, offsetof(struct submit_opts, wait),
     "wait until the job ends and exit with its status"},
};
static const struct opt_group own_group = OPT_GROUP("Waiting", own_opts);
/* `many`: the reply is that of a list or a sweep, with "first" and "count" instead of "number". */
static void say_submitted(const struct cli *c, const struct json *reply, bool many)
{
    int64_t first = int_of(reply, "first"), count = int_of(reply, "count");

    if (!c->err.is_tty)
        return;
    if (many)
        cli_say("submitted %lld job%s, %lld to %lld; list them with berth ls", (long long)count,
                plural_end(count), (long long)first, (long long)(first + count - 1));
    else
        cli_say("submitted job %lld (" STR_FMT "); berth logs -f %lld follows it",
                (long long)int_of(reply, "number"), STR_ARG(text_of(reply, "name")),
                (long long)int_of(reply, "number"));
}

static int submit_run(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct submit_opts *o = opts;
    AUTO(json) struct json *spec = NULL, *reply = NULL;
    struct err e = {0};

    if (jobspec_build(&o->job, ops, &spec, &e) < 0 ||
        jobspec_submit(c, spec, &(struct jobspec_key){.key = o->job.key}, &reply, NULL, &e) < 0)
        return cli_fail(&e);
    bool many = json_has(reply, "count");
    /* Scripts read this line: the id of the job, of the batch, or of the first job when there is no
     * batch. */
    const char *id = !many ? "id" : text_of(reply, "batch").n ? "batch" : "first_id";
    if (cli_json(c))
        cli_print_json(reply);
    else
        cli_print_line(text_of(reply, id).p);
    say_submitted(c, reply, many);
    return o->wait ? follow_submitted(c, reply, 0) : 0;
}

const struct command cmd_submit = {
    BERTH_COMMAND(SECTION_RUN, "submit",
                  "[OPTION…] [--] COMMAND [ARGUMENT…]\n[OPTION…] --file FILE", submit_run,
                  "put a command, an array or a file of jobs in the queue"),
    .description =
        "Prints the id of the job, or of the batch when there are several jobs. The job is on disk "
        "before the id is printed, starts as soon as resources are free, and keeps running when "
        "you log out. When no daemon runs, the command starts one, which exits when it is "
        "idle.\n\nThe job gets your environment, the current directory and an empty standard "
        "input. Everything after the first word of the command belongs to the command.",
    .flags = COMMAND_STARTS,
    OPTIONS(struct submit_opts, &job_group, &training_group, &own_group, &output_group,
            &common_group),
    .examples =
        EXAMPLES({"berth submit -- python train.py --lr 0.1",
                  "queue one command and print the id of the job"},
                 {"berth submit --name a --cpus 2 --mem 4G --timeout 2h --priority 5 -- ./train.sh",
                  "with resources, a time limit and a priority"},
                 {"berth submit --after 41 --after 42 -- python evaluate.py",
                  "start when jobs 41 and 42 have succeeded"},
                 {"berth submit --retries 2 --env SEED=7 --project mnist -- python train.py",
                  "up to three runs, with an environment variable"},
                 {"berth submit --array 100 -- python train.py --seed '{index}'",
                  "a hundred jobs that differ in {index}"},
                 {"berth submit --param 'lr=[0.1,0.01]' -- python train.py --lr '{lr}'",
                  "one job for each value of lr"},
                 {"berth submit 'zcat data.gz | ./count > out.txt'",
                  "a single word with spaces in it is a line for the shell"},
                 {"berth submit --file sweep.yaml", "all jobs of a file"},
                 {"id=$(berth submit -- ./long.sh) && berth wait $id", "use the id in a script"}),
    OPERANDS("command", 0, SIZE_MAX, COMPLETE_FILE_OR_CMD),
};

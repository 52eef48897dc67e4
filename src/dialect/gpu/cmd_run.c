/* cmd_run.c - run-scheduler: submit a training script to the GPU scheduler
 *
 * Owns: what is printed: the id of the job alone on the last line of stdout, so that
 * `id=$(run-scheduler …)` works.  The arguments are checked here, by the same rules as on the
 * server (dialect/gpu/submission.c), before anything is sent.
 */
#include "base/file.h"
#include "base/rand.h"
#include "base/util.h"
#include "cli/follow.h"
#include "cli/jobspec.h"
#include "cli/view.h"
#include "dialect/gpu/cmd.h"
#include "dialect/gpu/submission.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

static const char me[] = "run-scheduler";

/* All texts as typed: gpu_submission_read checks them and knows their types. */
struct run_opts {
    const char *image, *script, *custom, *snapshots, *batch, *training_set, *epochs, *single,
        *no_sharing, *memory, *ports, *hours, *priority, *deadline, *retries, *launch, *backend;
    struct opt_list env;
    bool no_gpu, wait;
};
#define RUN(member) offsetof(struct run_opts, member)
static const struct opt job_opts[] = {
    {"script_path", 0, OPT_TEXT, "PATH", RUN(script),
     "script to run with python, as the job sees it: /custom/train.py", COMPLETE_FILE, NULL},
    {"custom_dir", 0, OPT_TEXT, "DIR", RUN(custom),
     "directory with your code; the job finds it at /custom", COMPLETE_DIR, NULL},
    {"snapshots_dir", 0, OPT_TEXT, "DIR", RUN(snapshots),
     "directory for snapshots; the job finds it at /snapshots (default: a directory of yours in "
     "the daemon's home)",
     COMPLETE_DIR, NULL},
    {"image_name", 0, OPT_TEXT, "IMAGE", RUN(image),
     "container image to run in (default: none, the script runs on the host)", COMPLETE_NONE, NULL},
    {"env", 0, OPT_LIST, "K=V", RUN(env),
     "set an environment variable, or several: '{\"A\": \"1\", \"B\": \"2\"}'; variables of the "
     "scheduler cannot be set",
     COMPLETE_NONE, NULL},
};
static const struct opt training_opts[] = {
    {"max_epochs", 0, OPT_TEXT, "N", RUN(epochs), "epochs in all", COMPLETE_NONE, NULL},
    {"batch_size", 0, OPT_TEXT, "N", RUN(batch), "samples of one step on one GPU", COMPLETE_NONE,
     NULL},
    {"training_set_size", 0, OPT_TEXT, "N", RUN(training_set),
     "samples of one epoch, without those for validation", COMPLETE_NONE, NULL},
};
static const struct opt gpu_opts[] = {
    {"is_single_gpu", 0, OPT_TEXT, "BOOL", RUN(single),
     "use at most one GPU (default true); false if the script can use several", COMPLETE_CHOICES,
     "true|false"},
    {"disable_gpu_sharing", 0, OPT_TEXT, "BOOL", RUN(no_sharing),
     "do not share the GPUs of this job (default false)", COMPLETE_CHOICES, "true|false"},
    {"estimated_memory", 0, OPT_TEXT, "MIB", RUN(memory),
     "GPU memory of the job in MiB (default: a whole GPU until the use is measured)", COMPLETE_NONE,
     NULL},
    {"est_nhours", 0, OPT_TEXT, "HOURS", RUN(hours),
     "hours on one GPU without sharing, more than 1 (default: as similar jobs, else 24); "
     "replaced by measurements",
     COMPLETE_NONE, NULL},
    {"launch", 0, OPT_TEXT, "HOW", RUN(launch),
     "node: one process that drives all its GPUs (default); gpu: one process per GPU",
     COMPLETE_CHOICES, "node|gpu"},
    {"torch_backend", 0, OPT_TEXT, "NAME", RUN(backend),
     "PL_TORCH_DISTRIBUTED_BACKEND of the job (default: that of the daemon, else nccl on GPUs and "
     "gloo without)",
     COMPLETE_CHOICES, "nccl|gloo|mpi"},
    {"torch-backend", 0, OPT_TEXT, "NAME", RUN(backend), "other spelling of --torch_backend",
     COMPLETE_CHOICES, "nccl|gloo|mpi"},
    {"no_gpu", 0, OPT_FLAG, NULL, RUN(no_gpu),
     "the job uses no GPU: run it on CPUs, also where there is no GPU", COMPLETE_NONE, NULL},
};
static const struct opt run_opts[] = {
    {"port_mapping", 0, OPT_TEXT, "NODE:JOB,…", RUN(ports),
     "forward ports of the host to ports of the running job: 31346:6006", COMPLETE_NONE, NULL},
    {"priority", 0, OPT_TEXT, "1…5", RUN(priority), "5 is the most urgent (default 3)",
     COMPLETE_CHOICES, "1|2|3|4|5"},
    {"deadline", 0, OPT_TEXT, "TIME", RUN(deadline),
     "time by which the job should be done: 2026-11-20T08:00:00Z", COMPLETE_NONE, NULL},
    {"max_retries", 0, OPT_TEXT, "N", RUN(retries), "number of retries after a failure (default 0)",
     COMPLETE_NONE, NULL},
    {"wait", 0, OPT_FLAG, NULL, RUN(wait),
     "wait for the end of the job; exit 0 if it finished, else 1", COMPLETE_NONE, NULL},
};
static const struct opt_group script_group = {"Job", job_opts, ARRAY_SIZE(job_opts), false};
static const struct opt_group epoch_group = {"Training", training_opts, ARRAY_SIZE(training_opts),
                                             false};
static const struct opt_group gpu_group = {"GPUs", gpu_opts, ARRAY_SIZE(gpu_opts), false};
static const struct opt_group run_group = {"Running", run_opts, ARRAY_SIZE(run_opts), false};
static const struct opt_group *const groups[] = {&script_group, &epoch_group,  &gpu_group,
                                                 &run_group,    &common_group, NULL};

/* ---- options into a submission ---- */

static const struct gpu_argument *argument_of(const struct opt *o)
{
    for (size_t i = 0; i < gpu_n_arguments; i++)
        if (gpu_arguments[i].option && !strcmp(gpu_arguments[i].option, o->name))
            return &gpu_arguments[i];
    return NULL;
}

/* Directories become absolute here: the daemon does not know the working directory. */
static void body_set_text(struct json *body, const struct gpu_argument *arg, const char *value)
{
    char here[4096];

    if (arg->type != GPU_ARG_DIR || !*value || !getcwd(here, sizeof(here))) {
        json_set_str(body, arg->key, value);
        return;
    }
    AUTO_FREE char *path = path_absolute(value, here);
    json_set_str(body, arg->key, path);
}

/* NAME=VALUE, or variables as JSON, for those who keep them in a file. */
static int env_add(struct json *env, const char *text, struct err *e)
{
    AUTO(json) struct json *j = NULL;

    if (text[0] != '{' && text[0] != '[') {
        json_push_take(env, json_new_str(str_of(text)));
        return 0;
    }
    if (json_parse(str_of(text), "--env", &j, e) < 0)
        return -1;
    if (json_type(j) == JSON_OBJECT)
        json_push_take(env, TAKE(j));
    else
        for (size_t i = 0; i < json_len(j); i++)
            json_push_take(env, json_copy(json_at(j, i)));
    return 0;
}

/* The options of the command under the keys of POST /submit. */
static int submission_body(const struct run_opts *o, const char *name, struct json *body,
                           struct err *e)
{
    struct json *env = json_new_array();

    json_set_str(body, "jobName", name);
    json_set_take(body, "env", env);
    if (o->no_gpu)
        json_set_take(body, "noGPU", json_new_bool(true));
    for (const struct opt_group *const *g = groups; !(*g)->shared; g++)
        for (size_t i = 0; i < (*g)->n; i++) {
            const struct opt *opt = &(*g)->opts[i];
            const struct gpu_argument *arg = argument_of(opt);
            const char *value = opt->type == OPT_TEXT
                                    ? *(const char *const *)((const char *)o + opt->offset)
                                    : NULL;
            if (arg && value)
                body_set_text(body, arg, value);
        }
    for (size_t i = 0; i < o->env.n; i++)
        if (env_add(env, o->env.p[i], e) < 0)
            return -1;
    return 0;
}

/* Checks on the client what the daemon would refuse, so that the message names the option. */
static int check_dir(const char *option, const char *path, int mode, struct err *e)
{
    struct stat st;

    if (!path)
        return 0;
    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return err_set(e, ERR_INVALID, "%s '%.120s': is not a directory", option, path);
    if (access(path, mode) == 0)
        return 0;
    return err_set(e, ERR_INVALID, "%s '%.120s': %s", option, path,
                   errno == ENOENT   ? "there is no such directory"
                   : errno != EACCES ? strerrordesc_np(errno)
                   : mode & W_OK     ? "you may not write to it"
                                     : "you may not read it");
}

/* The mistake that is made most often. */
static void warn_host_path(const struct gpu_submission *s)
{
    size_t n = s->custom_dir ? strlen(s->custom_dir) : 0;

    /* Slashes at the end do not count. */
    while (n > 1 && s->custom_dir[n - 1] == '/')
        n--;
    if (!n || !s->script || strncmp(s->script, s->custom_dir, n) != 0 || s->script[n] != '/')
        return;
    fprintf(stderr,
            "%s: warning: --script_path '%s' is a path of the host; the job finds your directory "
            "at /custom: did you mean /custom%s?\n",
            me, s->script, s->script + n);
}

/* An image has an environment of its own; where the user's datasets are is still told by HOME. */
static struct json *home_alone(void)
{
    struct json *env = json_new_object();

    if (getenv("HOME"))
        json_set_str(env, "HOME", getenv("HOME"));
    return env;
}

/* *out is filled in, with the environment of this process, or nothing is kept. */
static int read_submission(struct cli *c, const struct run_opts *o, const char *name,
                           struct arena *a, struct gpu_submission *out, struct err *e)
{
    AUTO(json) struct json *body = json_new_object();

    if (submission_body(o, name, body, e) < 0 || gpu_submission_read(body, true, a, out, e) < 0)
        return -1;
    /* With another machine's daemon the directories are that machine's. */
    if (c->is_unix &&
        (check_dir("--custom_dir", out->custom_dir, R_OK | X_OK, e) < 0 ||
         check_dir("--snapshots_dir", out->snapshots_dir, R_OK | W_OK | X_OK, e) < 0)) {
        gpu_submission_done(out);
        return -1;
    }
    out->environment = out->image ? home_alone() : jobspec_env(false);
    warn_host_path(out);
    return 0;
}

/* ---- sending ---- */

/* A key of random digits makes it safe to send the request again when the connection breaks. */
static int submission_post(struct cli *c, const struct gpu_submission *s, struct json **out,
                           struct err *e)
{
    AUTO(json) struct json *body = gpu_submission_json(s, false);
    uint64_t raw[2];

    random_bytes(raw, sizeof(raw));
    AUTO_FREE char *key = xasprintf("Idempotency-Key: %s-%016llx%016llx", me,
                                    (unsigned long long)raw[0], (unsigned long long)raw[1]);
    const char *headers[] = {"Content-Type: application/json", key, NULL};
    return cli_call(c, "POST", "/submit?names=options", headers, body, out, e);
}

/* The exit status for the end of the job. */
static int gpu_job_wait(struct cli *c, const char *id)
{
    AUTO(json) struct json *job = NULL;
    struct err e = {0};
    char text[300];

    if (follow_end(c, id, &job, &e) < 0)
        return gpu_fail(me, &e, gpu_call_status(&e, GPU_EXIT_NO));
    bool good = str_eq_c(text_of(job, "state"), "succeeded");
    if (!good) {
        job_outcome_text(job, text, sizeof(text));
        fprintf(stderr, "%s: job %s %s\n", me, id, text);
    }
    return good ? GPU_EXIT_OK : GPU_EXIT_NO;
}

/* The exit status.  The id goes to stdout, everything else to stderr. */
static int submit_and_print(struct cli *c, const struct gpu_submission *s, bool wait)
{
    AUTO(json) struct json *reply = NULL;
    struct err e = {0};

    if (submission_post(c, s, &reply, &e) < 0)
        return gpu_fail(me, &e, gpu_call_status(&e, GPU_EXIT_REFUSED));
    struct str id = text_of(reply, "id");
    AUTO_FREE char *text = xstrndup(id.p, id.n);
    /* Flushed at once: a script that waits for the end of the job may read the id before. */
    printf("%s\n", text);
    fflush(stdout);
    return wait ? gpu_job_wait(c, text) : GPU_EXIT_OK;
}

static int run_scheduler(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct run_opts *o = opts;
    struct gpu_submission s;
    struct arena a = {0};
    struct err e = {0};
    int rc;

    if (cli_open(c, &e) < 0)
        return gpu_fail(me, &e, GPU_EXIT_USAGE);
    if (read_submission(c, o, ops->p[0], &a, &s, &e) < 0) {
        rc = gpu_fail(me, &e, GPU_EXIT_USAGE);
    } else {
        rc = submit_and_print(c, &s, o->wait);
        gpu_submission_done(&s);
    }
    arena_done(&a);
    return rc;
}

const struct command cmd_run_scheduler = {
    USAGE(SECTION_DIALECT, "run-scheduler", "[OPTION…] JOB_NAME"),
    .summary = "submit a training script to the GPU scheduler",
    .description =
        "The script runs as python SCRIPT_PATH, with your code at /custom, a place for snapshots "
        "at /snapshots and your datasets at /data. A script that calls kubernetesdlprofile at the "
        "begin and end of its epochs may be preempted between two epochs and resumes from its "
        "snapshot; a script without these calls is never preempted.\n"
        "\n"
        "The id of the job is the last line of the output. Exit status: 0 accepted, 2 an argument "
        "is wrong and nothing was submitted, 3 no server answers, 4 the server refused it.",
    .flags = COMMAND_PROGRAM,
    .groups = groups,
    .opts_size = sizeof(struct run_opts),
    .examples = EXAMPLES(
        {"run-scheduler --custom_dir ~/mnist --script_path /custom/train.py --batch_size 64 "
         "--training_set_size 60000 --max_epochs 20 --estimated_memory 4000 --est_nhours 2 mnist",
         "one training on one GPU, which others may share; its id is printed"},
        {"run-scheduler --custom_dir . --script_path /custom/ddp.py --is_single_gpu false --launch "
         "gpu --batch_size 32 --training_set_size 50000 --max_epochs 90 ddp",
         "one process per GPU, on as many GPUs as the scheduler finds useful"},
        {"run-scheduler --custom_dir . --script_path /custom/train.py --port_mapping 31346:6006 "
         "board",
         "port 31346 of the host leads to port 6006 of the script, TensorBoard for example"},
        {"run-scheduler --custom_dir . --script_path /custom/train.py --priority 5 --deadline "
         "2026-11-20T08:00:00Z --wait urgent",
         "an urgent job; wait for its end"}),
    OPERANDS("job_name", 1, 1, COMPLETE_NONE),
    .run = run_scheduler,
};

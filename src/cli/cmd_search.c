/* cmd_search.c - berth search: find good parameters of a program
 *
 * Owns: beginning a search, or finding the one that the same command began before.  The daemon, or
 * the scheduler inside this command, proposes the trials and runs them as jobs; this command shows
 * how far they are.
 */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/search.h"
#include "cli/view.h"
#include "tune/lines.h"

enum { PARALLEL_MAX = 100000 };

#define SEARCH(member) offsetof(struct search_opts, member)
static const struct opt search_option_table[] = {
    {"minimize", 0, OPT_LIST, "METRIC", SEARCH(minimize),
     "find the smallest value of this metric, which the job reports: berth.log(loss=…)"},
    {"maximize", 0, OPT_LIST, "METRIC", SEARCH(maximize),
     "find the largest value of this metric; several such options search for a front of trials"},
    {"trials", 'n', OPT_INT, "N", SEARCH(trials), "end after N trials (default: no limit)"},
    {"parallel", 'j', OPT_INT, "N", SEARCH(parallel), "run N trials at once (default 1)"},
    {"engine", 0, OPT_CHOICE, "NAME", SEARCH(engine), tune_engine_help, COMPLETE_CHOICES,
     tune_engine_names},
    {"seed", 0, OPT_INT, "N", SEARCH(seed), "the same seed proposes the same trials (default 0)"},
    {"stop", 0, OPT_TEXT, "RULE", SEARCH(stop),
     "end bad trials early: asha, hyperband, median, patient, or JSON with settings",
     COMPLETE_CHOICES, "asha|hyperband|median|patient"},
    {"take", 0, OPT_CHOICE, "WHICH", SEARCH(take),
     "which value of the metric counts: the last of the trial (default), or its best",
     COMPLETE_CHOICES, "last|best"},
    {"constraint", 0, OPT_LIST, "TEXT", SEARCH(constraints),
     "propose only trials for which this holds: 'a + b <= 1'"},
    {"from", 0, OPT_TEXT, "SEARCH", SEARCH(from), "begin with what another search has learned"},
    {"detach", 'd', OPT_FLAG, NULL, SEARCH(detach), "start the search and return"},
    {"run", 0, OPT_FLAG, NULL, SEARCH(run),
     "of best: run the best trial again, or the named one of a front, as a new job"},
    {"svg", 0, OPT_TEXT, "FILE", SEARCH(svg), "of plot and importance: write the picture there",
     COMPLETE_FILE},
    {"force", 0, OPT_FLAG, NULL, SEARCH(force), "of stop and rm: cancel the trials that run"},
    {"quiet", 'q', OPT_FLAG, NULL, SEARCH(quiet), "print no progress, only set the exit status"},
};
static const struct opt_group search_group = {"Search", search_option_table,
                                              ARRAY_SIZE(search_option_table), false};

/* ---- beginning and resuming ---- */

/* A search whose command was changed must not go on with the old one.  The daemon keeps the command
 * with the jobs, so the first of them tells. */
static int same_command(struct cli *c, const struct json *body, const struct json *study,
                        struct err *e)
{
    AUTO(json) struct json *page = NULL, *spec = NULL;
    const struct json *job = json_get(body, "job");

    if (resource_get(c, "studies", text_of(study, "name").p, "/trials?limit=1", &page, e) < 0)
        return -1;
    int64_t number = int_of(json_at(json_get(page, "items"), 0), "job");
    struct err gone = {0};
    if (!number || cli_getf(c, &spec, &gone, "/v1/jobs/%lld/spec", (long long)number) < 0)
        return 0; /* nothing ran yet, or the job was removed */
    if (json_equal(json_get(job, "command"), json_get(spec, "command")))
        return 0;
    AUTO(buf) struct buf old = {0};
    command_format(&old, json_get(spec, "command"));
    return err_set(e, ERR_CONFLICT,
                   "there is a search '" STR_FMT "' with another command (%.60s); choose another "
                   "--name, or remove it with: berth search rm " STR_FMT,
                   STR_ARG(text_of(study, "name")), old.p ? old.p : "",
                   STR_ARG(text_of(study, "name")));
}

/* The limits are those of this command; the search goes on if it was paused. */
static int search_go_on(struct cli *c, const struct json *body, const struct json *study,
                        struct err *e)
{
    static const char *const limits[] = {"trials", "parallel"};
    AUTO(json) struct json *change = json_new_object();

    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        if (json_get(body, limits[i]) && int_of(body, limits[i]) != int_of(study, limits[i]))
            json_set_int(change, limits[i], int_of(body, limits[i]));
    if (str_eq_c(text_of(study, "state"), "paused"))
        json_set_take(change, "paused", json_new_bool(false));
    if (!json_len(change))
        return 0;
    return search_change_take(c, text_of(study, "name").p, TAKE(change), NULL, e);
}

/* Found by its name, or new. */
static int search_begin(struct cli *c, struct json *body, bool quiet, struct err *e)
{
    AUTO(json) struct json *study = NULL;
    const char *name = text_of(body, "name").p;

    if (resource_get(c, "studies", name, "", &study, e) < 0) {
        if (e->code != ERR_NOT_FOUND)
            return -1;
        struct json *job = json_copy(json_get(body, "job"));
        int rc = jobspec_takes_snapshot(job) ? jobspec_take_snapshot(c, job, e) : 0;
        json_set_take(body, "job", job);
        return rc < 0 ? -1 : cli_post(c, "/v1/studies", body, NULL, e);
    }
    if (search_same(body, study, e) < 0 || same_command(c, body, study, e) < 0)
        return -1;
    int64_t done = search_done_count(study);
    if (!quiet && done)
        cli_say("resuming %s: %lld trial%s ended before", name, (long long)done, plural_end(done));
    return search_go_on(c, body, study, e);
}

static int search_usage(const char *word)
{
    return word ? cli_refuse("'%.60s' is neither a file (.yaml, .json) nor one of %s; -- stands "
                             "before a command",
                             word, SEARCH_VERBS)
                : cli_refuse("what is to be searched? berth search FILE.yaml, or berth search "
                             "--param 'lr=log:1e-5..1e-1' --minimize loss -- COMMAND");
}

static int search_run(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct search_opts *o = opts;
    AUTO(json) struct json *body = NULL;
    struct run_session s;
    struct err e = {0};

    if (ops->n && !ops->dashed && search_is_verb(ops->p[0]))
        return search_verb(c, o, ops);
    if ((ops->n && !ops->dashed && !search_is_file(ops->p[0])) || (!ops->n && !o->job.file))
        return search_usage(ops->n ? ops->p[0] : NULL);
    if (o->parallel.set && (o->parallel.v < 1 || o->parallel.v > PARALLEL_MAX))
        err_set(&e, ERR_INVALID, "-j must be between 1 and %d", PARALLEL_MAX);
    else if (o->trials.set && o->trials.v < 1)
        err_set(&e, ERR_INVALID, "--trials must be 1 or more");
    else
        search_body(o, ops, &body, &e);
    if (!body)
        return cli_fail(&e);
    const char *name = text_of(body, "name").p;
    if (o->detach) {
        if (search_begin(c, body, o->quiet, &e) < 0)
            return cli_fail(&e);
        cli_print_line(name);
        return 0;
    }
    int64_t slots = int_of(body, "parallel");
    if (run_session_open(&s, c, (int32_t)MIN(MAX(slots, 0), PARALLEL_MAX), &e) < 0)
        return cli_fail(&e);
    int rc =
        search_begin(c, body, o->quiet, &e) < 0 ? cli_fail(&e) : search_stay(&s, name, o->quiet);
    run_session_close(&s);
    return rc;
}

const struct command cmd_search = {
    USAGE(SECTION_RUN, "search",
          "[OPTION…] --param K=RANGE… -- COMMAND…\n[OPTION…] FILE.yaml [-- COMMAND…]\nls\n"
          "show|trials|export NAME\nbest NAME [TRIAL]\nimportance NAME [METRIC]\nplot NAME "
          "[PICTURE [X Y]]\nresume|stop|rm "
          "NAME\nextend NAME N\nenqueue NAME K=V…"),
    .summary = "search good hyper-parameters of a program",
    .description =
        "Runs the command many times with parameters that Berth proposes, and learns from the "
        "results. Each trial is a job, with the options of berth submit: it waits for its share of "
        "CPUs and GPUs, is retried and keeps its output. The program reports its result with "
        "berth.log(loss=…) in Python; {lr} in the command is the proposed value.\n\n"
        "Ranges: K=log:1e-5..1e-1, K=uniform:0..1, K=uniform:0..1:0.1 with steps, K=int:1..8, "
        "K=int:16..1024:log, K=adam,sgd, K=ordinal:1,2,4, K=3 or JSON. 'K=uniform:0..1 when "
        "opt=sgd' exists only with that choice.\n\n"
        "Several metrics (--minimize loss --maximize acc) have no best trial but a front: the "
        "trials "
        "that no other is better than in everything. show and best list it, plot NAME pareto draws "
        "it.\n\n"
        "A file has the same as YAML: space (or params), objective, trials, parallel, stop, "
        "engine, seed, constraints, and the keys of a job beside them or below job.\n\n"
        "Needs no daemon, as berth run. Ctrl-C pauses the search, and so does a crash; the same "
        "command continues it: a search is known by its name (--name, else that of the file, else "
        "made of the command). No trial runs twice. The exit status is 0 when there is a best "
        "trial, 130 when the search was paused.",
    OPTIONS(struct search_opts, &search_group, &job_group, &training_group, &output_group,
            &common_group),
    .examples = EXAMPLES(
        {"berth search --param 'lr=log:1e-5..1e-1' --param 'layers=int:1..8' --param opt=adam,sgd "
         "--minimize loss --trials 200 -j 8 -- python train.py --lr {lr} --layers {layers} --opt "
         "{opt}",
         "200 trials, eight at once"},
        {"berth search space.yaml -j 8", "the same from a file"},
        {"berth search ls", "all searches, with their best values"},
        {"berth search best train --run", "run the best trial again"},
        {"berth search extend train 100", "100 trials more"},
        {"berth search enqueue train lr=0.01 layers=2 opt=sgd", "try this point next"},
        {"berth search export train > trials.csv", "all trials, a column for each parameter"},
        {"berth search importance train", "which parameters matter, and which only together"},
        {"berth search plot train contour lr layers --svg lr.svg",
         "a picture; others are history, parallel, importance and slice"},
        {"berth search plot train pareto", "the front of several objectives"},
        {"berth search stop train", "start no more trials; berth search resume train continues"}),
    OPERANDS("action", 0, SIZE_MAX, COMPLETE_CHOICES),
    .choices = SEARCH_VERBS,
    .run = search_run,
};

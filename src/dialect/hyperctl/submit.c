/* submit.c - a batch as the scheduler gets it: one submission
 *
 * Jobs share one spec as long as they can: the line the shell gets finds the script by the name of
 * the job, so 10 000 jobs are one command and one environment.
 *
 * On other machines a job is a directory that is uploaded, with its script in it; it gets nothing
 * of the environment of this process, as a login there would not.
 */
#include "base/file.h"
#include "base/util.h"
#include "dialect/hyperctl/run.h"
#include "model/spec.h"
#include "model/template.h"

#define COMMAND_BESIDE "exec /bin/sh ./run.sh"
#define COMMAND_BY_NAME "exec /bin/sh \"$HYPERCTL_BATCH_DIR/$BERTH_JOB_NAME/run.sh\""
#define PROJECT "hyperctl"

/* Without our own variables: those of an outer job would be wrong here. */
static struct json *whole_environment(const char *batch_dir)
{
    struct json *env = json_new_object();

    for (char **v = environ; *v; v++) {
        const char *eq = strchr(*v, '=');
        if (!eq || eq == *v || !strncmp(*v, "BERTH_", 6))
            continue;
        AUTO_FREE char *key = xstrndup(*v, (size_t)(eq - *v));
        json_set_take(env, key, json_new_str(str_of(eq + 1)));
    }
    json_set_str(env, "HYPERCTL_BATCH_DIR", batch_dir);
    return env;
}

/* exec /bin/sh 'path', whatever is in the path. */
static char *command_by_path(const char *path)
{
    struct buf b;

    buf_init(&b, 1 << 20);
    buf_adds(&b, "exec /bin/sh '");
    for (const char *p = path; *p; p++)
        if (*p == '\'')
            buf_adds(&b, "'\\''");
        else
            buf_addc(&b, *p);
    buf_addc(&b, '\'');
    return buf_take(&b, NULL);
}

/* A job of this machine: the shared command finds its script by name. */
static struct json *job_body(const struct hyper_run *r, const struct hyper_job *j)
{
    AUTO_FREE char *own = hyper_layout_path(&r->l, j->name);
    struct json *o = json_new_object();
    struct err e;
    bool plain = !strcmp(own, j->data_dir);

    json_set_str(o, "name", j->name);
    if (!plain) {
        AUTO_FREE char *script = hyper_job_file(j, "run.sh"), *line = command_by_path(script);
        json_set_str(o, "command", line);
    }
    /* Parameters are told to the scheduler for its listings alone, and only where they cannot turn
     * braces of a name or path into placeholders. */
    if (!r->sched.own && plain && !template_has_placeholder(str_of(j->name)) &&
        params_check(j->params, "", &e) == 0)
        json_set_take(o, "params", json_copy(j->params));
    return o;
}

/* A job of another machine: its directory is uploaded, and the script in it is run. */
static struct json *far_job_body(const struct hyper_run *r, const struct hyper_job *j)
{
    AUTO_FREE char *dir = path_join(r->b->name, j->name); /* below the machine's data_dir */
    struct json *o = json_new_object();

    json_set_str(o, "name", j->name);
    json_set_take(o, "assets", json_copy(j->uploads));
    json_set_str(o, "stage_dir", dir);
    return o;
}

/* What all jobs have in common here; there. */
static void set_here(struct json *o, const struct hyper_run *r)
{
    json_set_str(o, "command", COMMAND_BY_NAME);
    json_set_str(o, "cwd", r->l.dir);
    json_set_take(o, "env", whole_environment(r->l.dir));
    json_set_int(o, "slots", r->b->slots);
}

static void set_there(struct json *o, const struct hyper_batch *b)
{
    AUTO_FREE char *nodes = xasprintf("%s*", b->node_prefix);

    json_set_str(o, "nodes", nodes);
    json_set_str(o, "command", COMMAND_BESIDE);
    json_set_take(o, "env", json_new_object());
    json_set_take(o, "split_output", json_new_bool(true));
}

bool hyper_job_waits(const struct hyper_job *j)
{
    return j->pending && !j->number && !hyper_status_final(j->status);
}

struct json *hyper_submission(const struct hyper_run *r)
{
    const struct hyper_batch *b = r->b;
    AUTO(json) struct json *jobs = json_new_array();

    for (size_t i = 0; i < b->jobs.n; i++)
        if (hyper_job_waits(&b->jobs.p[i]))
            json_push_take(jobs,
                           b->remote ? far_job_body(r, &b->jobs.p[i]) : job_body(r, &b->jobs.p[i]));
    if (!json_len(jobs))
        return NULL;
    struct json *o = json_new_object();
    json_set_str(o, "name", "hyperctl");
    json_set_str(o, "project", PROJECT);
    json_set_str(o, "queue", r->sched.queue);
    json_set_int(o, "grace", HYPER_GRACE_S);
    /* A job whose supervisor died with an earlier owner or machine begins once more, at once. */
    json_set_int(o, "retry_lost", 1);
    json_set_int(o, "backoff", 0);
    if (b->remote)
        set_there(o, b);
    else
        set_here(o, r);
    json_set_take(o, "jobs", TAKE(jobs));
    return o;
}

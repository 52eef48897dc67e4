/* translate.c - a submission of this dialect as a job of ours
 *
 * Owns: the one place where the words of run-scheduler become the words of the job form.
 * Pure: what is known of the host comes in `struct gpu_world`.
 *
 * The five priorities become -2 … 2.  A single-GPU job wants one device and gets one; any other
 * starts from one, since that is what its estimate speaks of, and may have as many as a node holds.
 */
#include "dialect/gpu/translate.h"
#include "base/util.h"

enum { MIB = 1 << 20 };

static struct json *form_command(const struct gpu_submission *s, const struct gpu_world *w)
{
    struct json *words = json_new_array();

    if (s->script) {
        /* In an image it is the image's python, as that of the host is not there. */
        json_push_take(words, json_new_str(str_of(s->image ? "python" : w->python)));
        json_push_take(words, json_new_str(str_of(s->script)));
    } else {
        /* A form needs a command; with container.image_command it is only what listings show. */
        json_push_take(words, json_new_str(STR("image-command")));
    }
    return words;
}

/* Later variables replace earlier ones of the same name. */
static void lay_over(struct json *env, const struct json *more)
{
    for (struct json_it it = {0}; json_next(more, &it);)
        json_set_take(env, it.key, json_copy(it.val));
}

/* The variables of the sender come first, then those of --env, which win. */
static struct json *form_variables(const struct gpu_submission *s, const struct gpu_world *w)
{
    struct json *env = json_new_object();

    if (!s->image) { /* an image has its own */
        json_set_str(env, "PATH", "/usr/local/bin:/usr/bin:/bin");
        if (w->home)
            json_set_str(env, "HOME", w->home);
    }
    json_set_str(env, "USER", w->user);
    json_set_str(env, "LOGNAME", w->user);
    json_set_str(env, "PYTHONUNBUFFERED", "1"); /* the log is read while the job runs */
    if (!s->image)
        lay_over(env, s->environment);
    lay_over(env, s->env);
    return env;
}

static void form_add_mount(struct json *list, const char *host, const char *target)
{
    if (!host)
        return;
    AUTO_FREE char *text = xasprintf("%s:%s", host, target);
    json_push_take(list, json_new_str(str_of(text)));
}

static struct json *form_mounts(const struct gpu_submission *s, const struct gpu_world *w)
{
    struct json *list = json_new_array();

    form_add_mount(list, s->custom_dir, "/custom");
    form_add_mount(list, s->snapshots_dir ? s->snapshots_dir : w->snapshots_dir, "/snapshots");
    form_add_mount(list, w->datasets_dir, "/data");
    return list;
}

static struct json *form_ports(const struct gpu_submission *s)
{
    struct json *list = json_new_array();

    for (size_t i = 0; i < s->n_ports; i++) {
        AUTO_FREE char *text = xasprintf("%d:%d", s->port[i].node, s->port[i].container);
        json_push_take(list, json_new_str(str_of(text)));
    }
    return list;
}

/* It says so, or the daemon does where there is no GPU. */
static bool runs_on_cpu(const struct gpu_submission *s, const struct gpu_world *w)
{
    return s->no_gpu || (w->on_cpu && !w->max_gpus && !s->memory_mib && !s->launch_gpu);
}

/* An elastic job starts from one GPU and may get as many as one node has. */
static struct json *form_resources(const struct gpu_submission *s, const struct gpu_world *w)
{
    struct json *need = json_new_object();

    if (runs_on_cpu(s, w))
        return need;
    json_set_int(need, "gpus", 1);
    if (!s->single_gpu && w->max_gpus > 1)
        json_set_int(need, "gpus_max", w->max_gpus);
    if (s->memory_mib)
        json_set_int(need, "gpu_mem", s->memory_mib * MIB);
    json_set_take(need, "gpu_share", json_new_bool(!s->no_sharing));
    return need;
}

/* Jobs that behave alike: the same program in the same place with the same batch size. */
static void set_family(struct json *form, const struct gpu_submission *s)
{
    enum { FAMILY_MAX = 190 };
    AUTO_FREE char *text =
        xasprintf("%s %s %s %lld", s->image ? s->image : "-", s->custom_dir ? s->custom_dir : "-",
                  s->script ? s->script : "-", (long long)s->batch_size);
    size_t n = strlen(text);
    const char *from = n > FAMILY_MAX ? text + n - FAMILY_MAX : text; /* the end tells more */

    while ((*from & 0xc0) == 0x80) /* inside a character */
        from++;
    json_set_str(form, "family", from);
}

/* Without a script the image runs its own command. */
static void set_image(struct json *form, const struct gpu_submission *s)
{
    json_set_str(form, "image", s->image);
    if (s->script)
        return;
    struct json *own = json_new_object();
    json_set_take(own, "image_command", json_new_bool(true));
    json_set_take(form, "container", own);
}

static void form_set_training(struct json *form, const struct gpu_submission *s)
{
    if (s->max_epochs)
        json_set_int(form, "epochs", s->max_epochs);
    if (s->batch_size && s->training_set_size)
        json_set_int(form, "epoch_steps", MAX(1, s->training_set_size / s->batch_size));
    if (s->est_hours > 0) {
        AUTO_FREE char *text = xasprintf("%lldms", (long long)(s->est_hours * 3600e3));
        json_set_str(form, "estimate", text);
    }
    if (s->deadline)
        json_set_str(form, "deadline", s->deadline);
    if (s->image)
        set_image(form, s);
    json_set_str(form, "launch", s->launch_gpu ? "gpu" : "node");
    set_family(form, s);
}

/* A job that no GPU can ever hold would wait for ever. */
static int check_memory(const struct gpu_submission *s, const struct gpu_world *w, struct err *e)
{
    char name[GPU_LABEL_MAX];

    if (!w->max_mem_bytes || s->memory_mib <= w->max_mem_bytes / MIB)
        return 0;
    return err_set(e, ERR_INVALID,
                   "%s '%lld': no GPU has this much memory; the largest has %lld MiB",
                   gpu_argument_label("estimatedMemory", s->options, name),
                   (long long)s->memory_mib, (long long)(w->max_mem_bytes / MIB));
}

int gpu_translate(const struct gpu_submission *s, const struct gpu_world *w, struct json **out,
                  struct err *e)
{
    char name[GPU_LABEL_MAX];

    if (check_memory(s, w, e) < 0)
        return -1;
    if (s->image && s->launch_gpu)
        return err_set(e, ERR_INVALID,
                       "%s 'gpu': cannot be combined with an image; start the "
                       "processes in the script, for example with torchrun",
                       gpu_argument_label("launch", s->options, name));
    struct json *form = json_new_object();
    json_set_str(form, "name", s->name);
    json_set_take(form, "command", form_command(s, w));
    json_set_take(form, "env", form_variables(s, w));
    if (s->custom_dir && !s->image)
        json_set_str(form, "cwd", s->custom_dir);
    json_set_take(form, "resources", form_resources(s, w));
    /* 3 is ordinary and becomes 0. */
    json_set_int(form, "priority", s->priority - 3);
    json_set_int(form, "retries", s->max_retries);
    if (w->log_limit_bytes)
        json_set_int(form, "log_limit", w->log_limit_bytes);
    form_set_training(form, s);
    json_set_take(form, "mounts", form_mounts(s, w));
    if (s->n_ports)
        json_set_take(form, "ports", form_ports(s));
    json_set_str(form, "dialect", GPU_DIALECT);
    /* What was sent is kept beside the job, for scheduler-state and for the start. */
    struct json *extra = gpu_submission_json(s, true);
    if (!s->snapshots_dir && w->snapshots_dir)
        json_set_str(extra, "snapshotsDir", w->snapshots_dir);
    if (w->datasets_dir)
        json_set_str(extra, "datasetsDir", w->datasets_dir);
    if (runs_on_cpu(s, w))
        json_set_take(extra, "noGPU", json_new_bool(true));
    json_set_take(form, "extra", extra);
    *out = form;
    return 0;
}

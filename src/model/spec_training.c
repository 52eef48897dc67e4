/* spec_training.c - the keys of jobs that train: what they accept, what goes together, as text
 *
 * A job that reports epochs, or saves a checkpoint when it gets a signal, may be stopped for others
 * and goes on later; one that does neither is never stopped.  What a family is unless somebody says
 * so is decided here as well: jobs that start the same program in the same way.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/util.h"
#include "model/spec_priv.h"
#include <signal.h>

static const char *const launch_names[] = {[LAUNCH_NODE] = "node", [LAUNCH_GPU] = "gpu"};

void training_done(struct training *t)
{
    free(t->checkpoint);
    free(t->family);
}

/* ---- reading ---- */

/* The number of "USR1" or "SIGUSR1"; 0 = no such signal.  Numbers differ between architectures. */
static int signal_number(struct str name)
{
    struct str s = str_starts(name, STR("SIG")) ? (struct str){name.p + 3, name.n - 3} : name;

    for (int n = 1; n < SIGRTMIN; n++)
        if (sigabbrev_np(n) && str_eq_c(s, sigabbrev_np(n)))
            return n;
    return 0;
}

static int read_signal(const struct reader *r, const struct spec_key *k, const struct json *v)
{
    char shown[SHOW_MAX];
    int64_t n = 0;

    if (json_type(v) == JSON_INT)
        n = json_int(v);
    else if (json_type(v) == JSON_STR)
        n = signal_number(json_str(v));
    else
        return spec_bad_type(r, k->name, v, "the name of a signal, as USR1");
    if (n < k->min || n > k->max)
        return spec_bad(r, k->name, "%s is not a signal; write a name such as USR1 or TERM",
                        spec_show(v, shown));
    /* A job could not save its checkpoint on these. */
    if (n == SIGKILL || n == SIGSTOP)
        return spec_bad(r, k->name, "%s cannot be caught; choose another, such as USR1",
                        spec_show(v, shown));
    *(int32_t *)key_member(r->s, k) = (int32_t)n;
    return 0;
}

static int read_time(const struct reader *r, const struct spec_key *k, const struct json *v)
{
    char shown[SHOW_MAX];
    int64_t at;

    if (json_type(v) != JSON_STR)
        return spec_bad_type(r, k->name, v, "a time, as \"2026-11-20T08:00:00Z\"");
    if (!time_parse_utc(json_str(v), &at) || at <= 0)
        return spec_bad(r, k->name, "%s is not a time; write it as 2026-11-20T08:00:00Z",
                        spec_show(v, shown));
    *(int64_t *)key_member(r->s, k) = at;
    return 0;
}

static int read_launch(const struct reader *r, const struct spec_key *k, const struct json *v)
{
    char shown[SHOW_MAX];

    for (int i = 0; json_type(v) == JSON_STR && i < (int)ARRAY_SIZE(launch_names); i++)
        if (str_eq_c(json_str(v), launch_names[i])) {
            *(int32_t *)key_member(r->s, k) = i;
            return 0;
        }
    return spec_bad(r, k->name,
                    "%s is neither \"node\" (one process) nor \"gpu\" (one process per GPU)",
                    spec_show(v, shown));
}

int training_read(const struct reader *r, const struct spec_key *k, const struct json *v)
{
    switch (k->kind) {
    case KEY_SHARE:
        if (json_type(v) != JSON_BOOL)
            return spec_bad_type(r, k->name, v, "true or false");
        r->s->train.share = json_bool(v) ? GPU_SHARE_YES : GPU_SHARE_NO;
        return 0;
    case KEY_PATH:
        return spec_read_text(r, k, v, key_member(r->s, k));
    case KEY_SIGNAL:
        return read_signal(r, k, v);
    case KEY_TIME:
        return read_time(r, k, v);
    default:
        return read_launch(r, k, v);
    }
}

int training_check(const struct reader *r)
{
    const struct training *t = &r->s->train;
    int32_t gpus = r->s->need.gpus;

    if (t->gpus_max && t->gpus_max < gpus)
        return spec_bad(r, "gpus_max",
                        "%d is less than gpus, which is %d; raise it or leave it out", t->gpus_max,
                        gpus);
    if (!gpus && (t->gpus_max || t->gpu_mem_bytes || t->launch == LAUNCH_GPU))
        return spec_bad(r, "gpus", "is missing; say how many GPUs it wants, as gpus: 1");
    if (r->s->container.options && !r->s->container.image)
        return spec_bad(r, "container", "says how an image is run; name it, as image: python:3");
    if (t->preempt_signal && !t->checkpoint)
        return spec_bad(r, "preempt_signal",
                        "needs a checkpoint: the file from which the job goes on later");
    return 0;
}

/* ---- writing ---- */

void training_write(struct json *j, const struct spec *s, const struct spec_key *k)
{
    const struct training *t = &s->train;
    const char *name = t->preempt_signal ? sigabbrev_np(t->preempt_signal) : NULL;
    char text[TIME_TEXT_MAX];

    if (k->kind == KEY_SHARE && t->share)
        json_set_take(j, k->name, json_new_bool(t->share == GPU_SHARE_YES));
    else if (k->kind == KEY_PATH && t->checkpoint)
        json_set_str(j, k->name, t->checkpoint);
    else if (k->kind == KEY_SIGNAL && name)
        json_set_str(j, k->name, name);
    /* A real-time signal has no name. */
    else if (k->kind == KEY_SIGNAL && t->preempt_signal)
        json_set_int(j, k->name, t->preempt_signal);
    else if (k->kind == KEY_LAUNCH && t->launch != LAUNCH_NODE)
        json_set_str(j, k->name, launch_names[t->launch]);
    if (k->kind == KEY_TIME && t->deadline_ms) {
        time_format_utc(t->deadline_ms, text);
        json_set_str(j, k->name, text);
    }
}

/* ---- what follows from it ---- */

bool spec_shares(const struct spec *s)
{
    if (s->train.share != GPU_SHARE_UNSAID)
        return s->train.share == GPU_SHARE_YES;
    return s->train.gpu_mem_bytes || s->train.epochs;
}

bool spec_trains(const struct spec *s)
{
    return s->need.gpus || s->train.epochs || s->train.checkpoint || s->train.family;
}

/* "--batch-size", "-bs" and the like: jobs with other batch sizes behave differently. */
static bool is_batch_size(struct str w)
{
    while (w.n && w.p[0] == '-')
        w = (struct str){w.p + 1, w.n - 1};
    return str_eq_c(w, "batch-size") || str_eq_c(w, "batch_size") || str_eq_c(w, "bs");
}

/* A family is made of words; the struct remembers what the words before meant. */
struct family {
    struct buf *out;
    bool options; /* an option was seen: from here on only the batch size matters */
    bool wanted;  /* the next word is it */
};

/* Words before the first option name the program and the script; of the options only the batch
 * size counts. */
static void family_word(struct family *f, struct str w)
{
    struct str value, name = str_cut(w, '=', &value);
    bool option = w.n && w.p[0] == '-';

    if (f->wanted || (option && value.n && is_batch_size(name))) {
        struct str size = f->wanted ? w : value;
        buf_addf(f->out, "#" STR_FMT " ", STR_ARG(size));
        f->wanted = false;
        return;
    }
    f->wanted = option && is_batch_size(w);
    f->options |= option;
    if (!f->options)
        buf_addf(f->out, STR_FMT " ", STR_ARG(w));
}

/* Program and script are the words before the first option. */
static void family_command(const struct spec_command *c, struct buf *out)
{
    struct family f = {.out = out};
    struct str rest = c->shell ? str_of(c->shell) : STR("");

    for (char **w = c->argv; w && *w; w++)
        family_word(&f, str_of(*w));
    while (rest.n) {
        struct str w = str_cut(rest, ' ', &rest);
        if (w.n)
            family_word(&f, w);
    }
}

void spec_family(const struct spec *s, struct buf *out)
{
    AUTO(buf) struct buf all = {0};
    struct sha256 hash;
    uint8_t sum[32];

    if (s->train.family) {
        buf_adds(out, s->train.family);
        return;
    }
    buf_init(&all, SPEC_MAX_BYTES);
    buf_addf(&all, "%s %s ", s->container.image ? s->container.image : "",
             s->command.cwd ? s->command.cwd : "");
    family_command(&s->command, &all);
    for (char **v = s->command.env; *v; v++)
        if (!strncmp(*v, "BATCH_SIZE=", 11))
            buf_addf(&all, "#%s ", *v + 11);
    if (all.n <= SPEC_NAME_MAX) {
        /* Without the space at the end. */
        buf_add(out, all.p, all.n - 1);
        return;
    }
    sha256_init(&hash); /* long commands: the same length for all */
    sha256_add(&hash, all.p, all.n);
    sha256_end(&hash, sum);
    for (size_t i = 0; i < 16; i++)
        buf_addf(out, "%02x", sum[i]);
}

/* definition.c - jobs of definitions that submit by themselves: schedules and studies
 *
 * A definition keeps its job as POST /v1/jobs takes it, with its secrets sealed.  The job is read
 * on a worker thread, when the definition is made and each time it submits: both accept the same.
 */
#include "api/api_priv.h"
#include "api/submit_parse.h"
#include "model/vault.h"

/* A submit_resolve_fn.  The number of a job would mean another job, or none, each time the
 * definition submits. */
static int definition_no_refs(void *arg, struct str ref, uint64_t *out, struct err *e)
{
    (void)ref;
    (void)out;
    return err_set(e, ERR_INVALID, "the job of %s cannot wait for another job; remove `after`",
                   (const char *)arg);
}

int definition_read_job(const struct json *job, const char *whose, const struct caller *who,
                        const struct vault *vault, struct submit **out, struct err *e)
{
    AUTO(json) struct json *open = json_copy(job);

    if (vault && vault_open_tree(vault, open, e) < 0)
        return -1;
    char *text = json_text(open);
    struct submit *x = submit_new_take(text, strlen(text), who, vault);

    if (submit_prepare(x, false, e) < 0 ||
        submit_parse(x, definition_no_refs, (void *)(uintptr_t)whose, e) < 0) {
        submit_free(x);
        return err_wrap(e, "job");
    }
    *out = x;
    return 0;
}

int definition_seal_job(struct json *def, const struct vault *vault, struct err *e)
{
    struct json *job = json_copy(json_get(def, "job"));
    int rc = vault_seal_tree(vault, job, e);

    json_set_take(def, "job", job);
    return rc;
}

static void definition_work(void *arg)
{
    struct definition_job *w = arg;

    w->read(w);
}

/* Loop thread.  The controller gets its answer in every case, exactly once. */
static void definition_done(void *arg)
{
    struct definition_job *w = arg;

    request_server_release(w->a->conf.requests);
    if (!w->err.code && request_server_closing(w->a->conf.requests)) {
        err_set(&w->err, ERR_UNAVAILABLE, "the daemon is shutting down");
        submit_free(TAKE(w->x));
    }
    w->take(w->of, w->x ? &w->x->s : NULL, &w->err);
    free(w);
}

void definition_submit(struct api *a, void *of, void (*read)(struct definition_job *w),
                       void (*take)(void *of, struct submission *s, const struct err *e))
{
    struct definition_job *w = xcalloc(1, sizeof(*w));

    *w = (struct definition_job){.a = a, .of = of, .read = read, .take = take};
    request_server_hold(a->conf.requests);
    work_submit(a->conf.loop, definition_work, definition_done, w);
}

/* parts.c - the parts of one host: each operation, for all of them
 *
 * A part whose open() failed or left no self takes no further part.
 */
#include "archive/backup.h"
#include "base/util.h"
#include "core/schedule.h"
#include "host/host_priv.h"
#include <string.h>

/* For every part that is open and has the operation `op`, in the order of host_conf.parts.  The
 * statement that follows the macro is its body. */
#define FOR_PARTS(h, i, op)                                                                        \
    for (size_t i = 0; i < (h)->parts.n; i++)                                                      \
        if ((h)->parts.p[i].self && (h)->parts.p[i].part->op)

/* What the program set for this part; NULL = nothing. */
static const void *part_setting(const struct host_conf *c, const char *name)
{
    for (const struct host_setting *s = c->settings; s && s->part; s++)
        if (!strcmp(s->part, name))
            return s->conf;
    return NULL;
}

/* A failure leaves the later parts without a self, so host_parts_free passes them over. */
int parts_open(struct host *h, struct err *e)
{
    size_t n = 0;

    while (h->conf.parts && h->conf.parts[n])
        n++;
    h->parts.p = xcalloc(n + 1, sizeof(*h->parts.p));
    h->parts.n = n;
    for (size_t i = 0; i < n; i++) {
        const struct host_part *p = h->conf.parts[i];
        h->parts.p[i].part = p;
        if (p->open(&h->env, part_setting(&h->conf, p->name), &h->parts.p[i].self, e) < 0)
            return -1;
    }
    h->conf.settings = NULL; /* borrowed until here */
    return 0;
}

int parts_listen(struct host *h, struct err *e)
{
    FOR_PARTS(h, i, listen)
    if (h->parts.p[i].part->listen(h->parts.p[i].self, h->http, e) < 0)
        return -1;
    return 0;
}

const struct open_part *parts_find(const struct host *h, const char *name)
{
    for (size_t i = 0; name && i < h->parts.n; i++)
        if (h->parts.p[i].self && !strcmp(h->parts.p[i].part->name, name))
            return &h->parts.p[i];
    return NULL;
}

int parts_launch(struct host *h, const struct launch *l, const struct launch_facts *f,
                 struct launch_extras *out, struct err *e)
{
    const char *dialect = l->spec->origin.dialect;
    bool known = false;

    for (size_t i = 0; i < h->parts.n; i++)
        known = known || !strcmp(h->parts.p[i].part->name, dialect);
    /* Without its dialect the job would run without the files, mounts and variables that its user
     * asked for, and would report a result that means nothing. */
    if (!known)
        return err_set(e, ERR_INVALID,
                       "job %lld was submitted through '%s', which this build does not contain; "
                       "install a build with it",
                       (long long)f->key.job, dialect);
    const struct open_part *p = parts_find(h, dialect);
    if (!p || !p->part->launch)
        return 0; /* the dialect adds nothing to its runs */
    return p->part->launch(p->self, l, f, out, e);
}

void parts_fire(struct host *h, struct str dialect, struct firing *f)
{
    struct err e = {0};

    FOR_PARTS(h, i, fire)
    if (str_eq_c(dialect, h->parts.p[i].part->name)) {
        h->parts.p[i].part->fire(h->parts.p[i].self, f);
        return;
    }
    err_set(&e, ERR_INVALID,
            "schedule %.100s was made through '" STR_FMT "', which this daemon does not serve",
            f->name, STR_ARG(dialect));
    core_fired_take(f, NULL, &e);
}

void parts_seal_schedule(const struct host *h, struct json *def)
{
    for (size_t i = 0; h->conf.parts && h->conf.parts[i]; i++) {
        const struct host_part *p = h->conf.parts[i];
        if (p->seal_schedule && str_eq_c(json_get_str(def, "dialect"), p->name))
            p->seal_schedule(h->vault, def);
    }
}

void host_beside(const struct host_part *const *parts, const char *home, struct backup_places *out)
{
    out->n = 0;
    for (size_t i = 0; parts && parts[i] && out->n < BACKUP_PLACES_MAX; i++)
        if (parts[i]->beside && parts[i]->beside(home, &out->p[out->n])) {
            out->p[out->n].name = parts[i]->name;
            out->n++;
        }
}

enum part_notice parts_notice(struct host *h, uint64_t job, enum hook_event ev, struct buf *out)
{
    FOR_PARTS(h, i, notice)
    {
        enum part_notice n = h->parts.p[i].part->notice(h->parts.p[i].self, job, ev, out);
        if (n != PART_NOTICE_NOT_MINE)
            return n;
    }
    return PART_NOTICE_NOT_MINE;
}

void parts_troubled(struct host *h, struct str text)
{
    FOR_PARTS(h, i, troubled)
    h->parts.p[i].part->troubled(h->parts.p[i].self, text);
}

void parts_recovered(struct host *h)
{
    FOR_PARTS(h, i, recovered)
    h->parts.p[i].part->recovered(h->parts.p[i].self);
}

void parts_committed(struct host *h)
{
    FOR_PARTS(h, i, committed)
    h->parts.p[i].part->committed(h->parts.p[i].self);
}

void parts_shut(struct host *h)
{
    FOR_PARTS(h, i, shut)
    h->parts.p[i].part->shut(h->parts.p[i].self);
}

bool parts_busy(const struct host *h)
{
    FOR_PARTS(h, i, busy)
    if (h->parts.p[i].part->busy(h->parts.p[i].self))
        return true;
    return false;
}

void host_parts_free(struct host *h)
{
    FOR_PARTS(h, i, free)
    h->parts.p[i].part->free(h->parts.p[i].self);
    free(h->parts.p);
}

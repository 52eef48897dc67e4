/* batch.c - the changes of one turn, between the loop thread and the writer
 *
 * Owns: copies of what changes borrow, the submissions until they are durable or refused, and which
 * barrier hears of a refusal: the first one staged after the submission.
 */
#include "store/store_priv.h"

struct batch *batch_new(void)
{
    return xcalloc(1, sizeof(struct batch));
}

static void batch_free_submission(struct submission *s)
{
    if (s->free_fn)
        s->free_fn(s);
}

void batch_free(struct batch *b)
{
    if (!b)
        return;
    vec_free_each(&b->submissions, batch_free_submission);
    vec_free_each(&b->refused, batch_free_submission);
    for (size_t i = 0; i < b->barriers.n; i++)
        free(b->barriers.p[i].refused);
    arena_done(&b->text);
    FREE_EACH(b->submissions.p, b->refused.p, b->barriers.p, b->changes.p, b);
}

bool batch_empty(const struct batch *b)
{
    return !b->changes.n && !b->barriers.n && !b->submissions.n;
}

/* Copies into the arena of the batch; an empty text becomes {NULL, 0}. */
static struct str batch_copy(struct batch *b, struct str s)
{
    char *p;

    if (!s.n)
        return (struct str){NULL, 0};
    p = arena_alloc(&b->text, s.n + 1); /* blocks of points hold NULs */
    memcpy(p, s.p, s.n);
    return (struct str){p, s.n};
}

void batch_stage(struct batch *b, const struct change *c)
{
    struct change kept = *c;

    struct str *texts[CHANGE_TEXTS_MAX];
    size_t n = change_texts(&kept, texts);

    for (size_t i = 0; i < n; i++)
        *texts[i] = batch_copy(b, *texts[i]);
    if (c->kind == CHANGE_SUBMIT)
        vec_push(&b->submissions, c->submission);
    vec_push(&b->changes, kept);
}

bool batch_may_refuse(const struct change *c)
{
    return (c->kind == CHANGE_SUBMIT && c->submission) ||
           (c->kind == CHANGE_REMOVE && c->remove.first);
}

bool batch_was_refused(const struct change *c)
{
    return (c->kind == CHANGE_SUBMIT || c->kind == CHANGE_REMOVE) && !batch_may_refuse(c);
}

static void batch_refuse_submission(struct batch *b, struct change *c)
{
    size_t k = 0;

    while (b->submissions.p[k] != c->submission)
        k++;
    vec_remove(&b->submissions, k);
    vec_push(&b->refused, TAKE(c->submission));
}

void batch_refuse(struct batch *b, size_t i, const struct err *e)
{
    struct change *c = &b->changes.p[i];
    size_t k;

    ASSERT(batch_may_refuse(c));
    if (c->kind == CHANGE_SUBMIT)
        batch_refuse_submission(b, c);
    else
        c->remove.first = 0;
    b->n_refused++;
    for (k = 0; k < b->barriers.n && b->barriers.p[k].pos <= i; k++)
        ;
    /* Of several refused changes before one barrier, the first error is told. */
    if (k < b->barriers.n && !b->barriers.p[k].refused) {
        b->barriers.p[k].refused = xmalloc(sizeof(*e));
        *b->barriers.p[k].refused = *e;
    }
}

struct batch *batch_split_refused(struct batch *b)
{
    struct batch *out = batch_new();
    size_t keep = 0;

    for (size_t i = 0; i < b->barriers.n; i++) {
        if (b->barriers.p[i].refused)
            vec_push(&out->barriers, b->barriers.p[i]);
        else
            b->barriers.p[keep++] = b->barriers.p[i];
    }
    b->barriers.n = keep;
    for (size_t i = 0; i < b->refused.n; i++)
        vec_push(&out->submissions, b->refused.p[i]);
    vec_clear(&b->refused);
    if (batch_empty(out)) {
        batch_free(out);
        return NULL;
    }
    return out;
}

void batch_list_append(struct batch **list, struct batch *b)
{
    while (*list)
        list = &(*list)->next;
    *list = b;
}

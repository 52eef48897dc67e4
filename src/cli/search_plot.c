/* search_plot.c - berth search plot|importance: pictures of a search, and which parameters matter
 *
 * Owns: fetching all trials and handing them to tune/draw.h.  Pictures are characters on standard
 * output, or an SVG file that is replaced as a whole.
 */
#include "base/file.h"
#include "base/util.h"
#include "cli/search.h"
#include "cli/view.h"
#include "tune/draw.h"
#include "tune/importance.h"

struct plot_load {
    struct tune_trials trials;
    struct err err;
    bool failed;
};

/* A page callback of search_trials, which cannot stop it: the first error is kept. */
static void plot_add_page(void *arg, const struct json *items)
{
    struct plot_load *p = arg;

    if (!p->failed)
        p->failed = tune_trials_add(&p->trials, items, &p->err) < 0;
}

/* The caller calls tune_trials_done, also after an error. */
static int plot_fetch(struct cli *c, const char *name, struct plot_load *p, struct err *e)
{
    AUTO(json) struct json *study = NULL;
    AUTO(buf) struct buf path = {0};

    resource_path(&path, "studies", name, "");
    if (cli_get(c, path.p, &study, e) < 0 || tune_trials_open(&p->trials, study, e) < 0 ||
        search_trials(c, name, 0, plot_add_page, p, e) < 0)
        return -1;
    if (p->failed) {
        *e = p->err;
        return -1;
    }
    return 0;
}

/* ---- importance ---- */
static struct json *importance_json(const struct tune_view *v, const struct tune_importance *m)
{
    struct json *all = json_new_object(), *params = json_new_array(), *pairs = json_new_array();
    AUTO_FREE size_t *order = tune_importance_order(m);

    for (size_t i = 0; i < m->n; i++) {
        struct json *row = json_new_object();
        json_set_str(row, "name", v->space->dims[order[i]].name);
        json_set_take(row, "alone", json_new_real(m->single[order[i]]));
        json_set_take(row, "total", json_new_real(m->total[order[i]]));
        json_push_take(params, row);
    }
    for (size_t i = 0; i < m->n; i++)
        for (size_t j = i + 1; j < m->n; j++) {
            double share = tune_importance_pair(m, i, j);
            if (share < 0.001) /* most are nothing, and there are many */
                continue;
            struct json *row = json_new_object(), *names = json_new_array();
            json_push_take(names, json_new_str(str_of(v->space->dims[i].name)));
            json_push_take(names, json_new_str(str_of(v->space->dims[j].name)));
            json_set_take(row, "names", names);
            json_set_take(row, "share", json_new_real(share));
            json_push_take(pairs, row);
        }
    json_set_int(all, "trials", (int64_t)m->n_trials);
    json_set_take(all, "fit", json_new_real(m->fit));
    json_set_take(all, "params", params);
    json_set_take(all, "pairs", pairs);
    return all;
}

/* ---- pictures ---- */
static int plot_param(const struct tune_view *v, const char *name, long *out, struct err *e)
{
    *out = tune_space_find(v->space, str_of(name));
    if (*out < 0)
        return err_set(e, ERR_INVALID, "the search has no parameter '%.60s'", name);
    return 0;
}

/* -1: the search has no objective of this name. */
static long plot_goal(const struct tune_view *v, const char *name)
{
    for (size_t i = 0; i < v->n_goals; i++)
        if (!strcmp(v->goal_names[i], name))
            return (long)i;
    return -1;
}

/* Names behind the picture: two parameters of contour, two objectives of pareto, an objective of
 * the others. */
static int plot_words(const struct tune_view *v, const struct operands *words,
                      struct tune_picture *p, struct err *e)
{
    if (p->kind == TUNE_CONTOUR)
        return (words->n > 0 && plot_param(v, words->p[0], &p->x, e) < 0) ||
                       (words->n > 1 && plot_param(v, words->p[1], &p->y, e) < 0)
                   ? -1
                   : 0;
    for (size_t i = 0; i < MIN(words->n, p->kind == TUNE_PARETO ? 2u : 1u); i++) {
        long goal = plot_goal(v, words->p[i]);
        if (goal < 0)
            return err_set(e, ERR_INVALID, "the search has no objective '%.60s'", words->p[i]);
        *(i ? &p->other : &p->goal) = (size_t)goal;
    }
    return 0;
}

static int plot_draw(struct cli *c, const struct tune_view *v, struct tune_picture *p,
                     const char *svg, struct err *e)
{
    AUTO(buf) struct buf out = {0};

    if (svg)
        return tune_draw_svg(v, p, &out, e) < 0 ? -1
                                                : file_write_atomic(svg, out.p, out.n, 0644, e);
    p->width = c->out.width;
    p->colour = c->out.colour;
    if (tune_draw_text(v, p, &out, e) < 0)
        return -1;
    cli_print(&out);
    return 0;
}

static int plot_loaded(struct cli *c, struct plot_load *l, const struct operands *ops,
                       const char *svg, struct err *e)
{
    struct tune_view v = tune_trials_view(&l->trials);
    bool shares = !strcmp(ops->p[0], "importance");
    struct tune_picture p = tune_picture_of(shares ? TUNE_IMPORTANCE : TUNE_HISTORY);
    size_t at = shares ? 2 : 3;
    struct operands words = {ops->p + at, ops->n > at ? ops->n - at : 0, false};

    if (!shares && ops->n > 2) {
        if (!tune_picture_find(str_of(ops->p[2]), &p.kind))
            return err_set(e, ERR_INVALID, "there is no picture '%.60s'; there are %s", ops->p[2],
                           tune_picture_names);
        p = tune_picture_of(p.kind);
    }
    if (plot_words(&v, &words, &p, e) < 0)
        return -1;
    if (shares && cli_json(c)) {
        struct tune_importance m;
        tune_importance_find(&v, p.goal, 0, &m);
        AUTO(json) struct json *all = importance_json(&v, &m);
        tune_importance_done(&m);
        cli_print_json(all);
        return 0;
    }
    return plot_draw(c, &v, &p, svg, e);
}

int search_plot(struct cli *c, const struct search_opts *o, const struct operands *ops,
                struct err *e)
{
    struct plot_load l = {0};
    int rc = plot_fetch(c, ops->p[1], &l, e);

    if (rc == 0)
        rc = plot_loaded(c, &l, ops, o->svg, e);
    tune_trials_done(&l.trials);
    return rc;
}

/* speed_save.c - families as text, to be kept across restarts
 *
 * One text per family: {"alone": [[n, log rate, weight, log relative, weight] …],
 * "company": [[n, log ratio, weight, "other", …] …], "restart": [seconds, weight], "said": [log
 * rate, weight]}.  Other families go by name, so the order in which they are read does not matter.
 */
#include "base/json_out.h"
#include "base/util.h"
#include "sched/speed_priv.h"

#include <math.h>

/* Begins a list with these numbers; the caller may add to the list and ends it. */
static void numbers_begin(struct buf *out, const char *key, const double *x, size_t n)
{
    jw_array(out, key);
    for (size_t i = 0; i < n; i++)
        jw_double(out, NULL, x[i]);
}

void speeds_save(const struct speeds *s, uint32_t family, struct buf *out)
{
    const struct family *f = s->families.p[family];

    jw_object(out, NULL);
    jw_array(out, "alone");
    for (size_t i = 0; i < f->alone.n; i++) {
        const struct family_alone *a = &f->alone.p[i];
        double row[] = {a->n, a->log_rate, a->weight, a->log_rel, a->rel_weight};
        numbers_begin(out, NULL, row, ARRAY_SIZE(row));
        jw_end_array(out);
    }
    jw_end_array(out);
    jw_array(out, "company");
    for (size_t i = 0; i < f->facts.n; i++) {
        const struct family_fact *x = &f->facts.p[i];
        numbers_begin(out, NULL, (double[]){x->key.n, x->log_ratio, x->weight}, 3);
        for (int32_t k = 0; k < x->key.n_with; k++)
            jw_str(out, NULL, speeds_family_name(s, x->key.with[k]));
        jw_end_array(out);
    }
    jw_end_array(out);
    numbers_begin(out, "restart", (double[]){f->restart_s, f->restart_weight}, 2);
    jw_end_array(out);
    numbers_begin(out, "said", (double[]){f->said, f->said_weight}, 2);
    jw_end_array(out);
    jw_end_object(out);
}

/* A file may be damaged; one value that is not finite would spread through every fit. */
static bool speed_ok(double x)
{
    return isfinite(x) && fabs(x) < 1e6;
}

static void load_alone(struct speeds *s, uint32_t family, const struct json *rows)
{
    for (size_t i = 0; i < json_len(rows); i++) {
        const struct json *r = json_at(rows, i);
        double n = json_real(json_at(r, 0)), rate = json_real(json_at(r, 1));
        double weight = json_real(json_at(r, 2)), rel = json_real(json_at(r, 3));
        if (json_len(r) != 5 || !(n >= 1 && n <= 1024) || !speed_ok(rate) || !speed_ok(weight) ||
            !speed_ok(rel))
            continue;
        speeds_put_alone(s, family,
                         &(struct family_alone){.n = (int32_t)n,
                                                .log_rate = rate,
                                                .weight = weight,
                                                .log_rel = rel,
                                                .rel_weight = json_real(json_at(r, 4))});
    }
}

static void load_company(struct speeds *s, uint32_t family, const struct json *rows)
{
    for (size_t i = 0; i < json_len(rows); i++) {
        const struct json *r = json_at(rows, i);
        uint32_t with[SPEED_WITH_MAX];
        size_t n_with = json_len(r) < 4 ? 0 : json_len(r) - 3;
        double n = json_real(json_at(r, 0)), ratio = json_real(json_at(r, 1));
        double weight = json_real(json_at(r, 2));
        if (!n_with || n_with > SPEED_WITH_MAX || !(n >= 1 && n <= 1024) || !speed_ok(ratio) ||
            !(weight > 0) || !speed_ok(weight))
            continue;
        for (size_t k = 0; k < n_with; k++)
            with[k] = speeds_family(s, json_str(json_at(r, 3 + k)));
        struct speed_key key = speed_key_make((int32_t)n, with, (int32_t)n_with);
        speeds_add_fact(s, s->families.p[family], &key, ratio, weight);
    }
}

/* A value and its weight; false: not there, or makes no sense. */
static bool load_weighted(const struct json *pair, double *value, double *weight)
{
    *value = json_real(json_at(pair, 0));
    *weight = json_real(json_at(pair, 1));
    return json_len(pair) == 2 && speed_ok(*value) && *weight > 0 && speed_ok(*weight);
}

int speeds_load(struct speeds *s, struct str name, const struct json *j, struct err *e)
{
    uint32_t family = speeds_family(s, name);
    double seconds, said, weight;

    if (family == SPEED_NO_FAMILY || json_type(j) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "not the record of a family of jobs");
    struct family *f = s->families.p[family];
    load_alone(s, family, json_get(j, "alone"));
    load_company(s, family, json_get(j, "company"));
    if (load_weighted(json_get(j, "said"), &said, &weight)) {
        f->said = said;
        f->said_weight = weight;
    }
    if (load_weighted(json_get(j, "restart"), &seconds, &weight)) {
        f->restart_s = seconds;
        f->restart_weight = weight;
        s->restart_s =
            (s->restart_s * s->restart_weight + seconds * weight) / (s->restart_weight + weight);
        s->restart_weight += weight;
    }
    return 0;
}

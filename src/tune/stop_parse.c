/* stop_parse.c - the settings of the stopping layers from JSON (forms: stop.h) */
#include "base/json.h"
#include "base/util.h"
#include "tune/stop.h"
#include <math.h>

/* Steps of a run; more would be a mistake, and products of them must fit. */
enum { ETA_MAX = 1000, STEPS_LIMIT = 1000000000 };

struct stop_key {
    const char *name;
    unsigned layers;
    int64_t low, high;
    size_t offset; /* of the int64_t in struct tune_stop_conf; delta is a double */
};
#define CONF(member) offsetof(struct tune_stop_conf, member)
static const struct stop_key stop_keys[] = {
    {"min", TUNE_STOP_ASHA | TUNE_STOP_HYPERBAND, 1, STEPS_LIMIT, CONF(min)},
    {"max", TUNE_STOP_ASHA | TUNE_STOP_HYPERBAND, 1, STEPS_LIMIT, CONF(max)},
    {"eta", TUNE_STOP_ASHA | TUNE_STOP_HYPERBAND, 2, ETA_MAX, CONF(eta)},
    {"warmup", TUNE_STOP_MEDIAN, 0, STEPS_LIMIT, CONF(warmup)},
    {"startup", TUNE_STOP_MEDIAN, 0, STEPS_LIMIT, CONF(startup)},
    {"steps", TUNE_STOP_PATIENT, 1, STEPS_LIMIT, CONF(patience)},
};
static const char *const layer_names[] = {"asha", "hyperband", "median", "patient", "none"};

/* 0 = none, -1 = there is no such layer. */
static int layer_named(const char *name, struct err *e)
{
    for (size_t i = 0; i < ARRAY_SIZE(layer_names); i++)
        if (!strcmp(name, layer_names[i]))
            return strcmp(name, "none") != 0 ? 1 << i : 0;
    const char *near = str_nearest(name, layer_names, ARRAY_SIZE(layer_names));
    return err_set(e, ERR_INVALID, "stop: there is no %.40s; %s%s", name,
                   near ? "did you mean " : "choose asha, hyperband, median, patient or none",
                   near ? near : "");
}

static int stop_delta(const char *layer, const struct json *v, struct tune_stop_conf *out,
                      struct err *e)
{
    double x = json_real(v);
    enum json_type t = json_type(v);

    if ((t != JSON_INT && t != JSON_REAL) || !isfinite(x) || x < 0)
        return err_set(e, ERR_INVALID, "stop.%s.delta must be a number of 0 or more", layer);
    out->delta = x;
    return 0;
}

static int stop_setting(unsigned layer, const char *name, const struct json_it *it,
                        struct tune_stop_conf *out, struct err *e)
{
    const char *known[ARRAY_SIZE(stop_keys) + 1];
    size_t n = 0;

    if (layer == TUNE_STOP_PATIENT && !strcmp(it->key, "delta"))
        return stop_delta(name, it->val, out, e);
    for (size_t i = 0; i < ARRAY_SIZE(stop_keys); i++) {
        const struct stop_key *k = &stop_keys[i];
        if (!(k->layers & layer))
            continue;
        known[n++] = k->name;
        if (strcmp(k->name, it->key) != 0)
            continue;
        int64_t x = json_int(it->val);
        if (json_type(it->val) != JSON_INT || x < k->low || x > k->high) {
            AUTO_FREE char *text = json_text(it->val);
            return err_set(e, ERR_INVALID,
                           "stop.%s.%s is %.40s; use a whole number from %lld to %lld", name,
                           k->name, text, (long long)k->low, (long long)k->high);
        }
        memcpy((char *)out + k->offset, &x, sizeof(x));
        return 0;
    }
    const char *near = str_nearest(it->key, known, n);
    return err_set(e, ERR_INVALID, "stop.%s has no setting %.40s; %s%s", name, it->key,
                   near ? "did you mean " : "its first is ", near ? near : known[0]);
}

static int stop_layer(const char *name, const struct json *settings, struct tune_stop_conf *out,
                      struct err *e)
{
    int layer = layer_named(name, e);

    if (layer < 0)
        return -1;
    if (settings && json_type(settings) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "stop.%s must be a map of settings, not %s", name,
                       json_type_name(json_type(settings)));
    out->layers |= (unsigned)layer;
    for (struct json_it it = {0}; json_next(settings, &it);)
        if (stop_setting((unsigned)layer, name, &it, out, e) < 0)
            return -1;
    return 0;
}

/* What no single setting can tell. */
static int stop_check(const struct tune_stop_conf *c, struct err *e)
{
    unsigned ladders = TUNE_STOP_ASHA | TUNE_STOP_HYPERBAND;

    if ((c->layers & ladders) == ladders)
        return err_set(e, ERR_INVALID, "stop: asha and hyperband exclude each other; keep one");
    if ((c->layers & TUNE_STOP_HYPERBAND) && !c->max)
        return err_set(e, ERR_INVALID,
                       "stop.hyperband needs max, the last step of a whole run: {hyperband: {max: "
                       "81}}");
    if (c->max && c->max < c->min)
        return err_set(e, ERR_INVALID, "stop: max is %lld and min is %lld; swap them",
                       (long long)c->max, (long long)c->min);
    return 0;
}

int tune_stop_parse(const struct json *j, struct tune_stop_conf *out, struct err *e)
{
    struct tune_stop_conf c = {
        .maximize = out->maximize, .min = 1, .eta = 3, .warmup = 1, .startup = 5, .patience = 10};
    enum json_type t = json_type(j);
    int rc = 0;

    if (t == JSON_STR)
        rc = stop_layer(json_str(j).p, NULL, &c, e);
    else if (t == JSON_OBJECT)
        for (struct json_it it = {0}; rc == 0 && json_next(j, &it);)
            rc = stop_layer(it.key, it.val, &c, e);
    else if (t != JSON_NULL)
        return err_set(e, ERR_INVALID, "stop is %s; write asha or {asha: {max: 81}}",
                       json_type_name(t));
    if (rc < 0 || stop_check(&c, e) < 0)
        return -1;
    *out = c;
    return 0;
}

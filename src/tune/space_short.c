/* space_short.c - a space as people write it in YAML: a map of names, nested as the program's
 * settings are
 *
 *   lr: {log: [1e-5, 1e-1]}              opt: [adam, sgd]
 *   layers: {int: [1, 8]}                size: {ordinal: [s, m, l]}
 *   x: {uniform: [0, 1], step: 0.1}      epochs: 10
 *   wd: 10 ** uniform(-4, -1)            momentum: {uniform: [0, 1], when: {opt: sgd}}
 *
 * A parameter inside of maps and lists has the path as its name: net.lr, layers.0.  The map is
 * turned into the list that space_parse.c reads, parents before those that ask for them.  What a
 * person can get wrong is said here, with the path, the value and what to write instead.
 */
#include "base/json.h"
#include "base/util.h"
#include "base/vec.h"
#include "tune/expr_priv.h"
#include <math.h>

enum { SHORT_PATH_MAX = 250, SHORT_VALUE_MAX = 60 };

/* The condition of one parameter upon another, before the name is looked up. */
struct short_clause {
    const char *scope; /* the map around what has the condition, "" = the top */
    const char *name;
    const struct json *values;
};

struct short_item {
    struct json *item; /* as tune_space_parse reads it */
    const char *name;
    struct short_clause *clauses;
    size_t n_clauses;
    bool placed;
};

struct short_reader {
    struct arena arena;
    VEC(struct short_item) items;
    VEC(struct short_clause) open; /* the conditions that hold where the reader is */
    char path[SHORT_PATH_MAX + 1];
    struct err *e;
};

static int short_node(struct short_reader *r, const struct json *node);

/* ---- which maps are parameters ---- */
static const char *const form_names[] = {"uniform", "float", "log", "int", "ordinal", "choice"};
static const char *const form_keys[] = {"uniform", "float", "log",  "int",  "ordinal", "choice",
                                        "const",   "expr",  "step", "when", "type"};

/* The key whose list makes this map a parameter, or NULL. */
static const char *form_of(const struct json *map)
{
    if (json_type(map) != JSON_OBJECT)
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(form_names); i++)
        if (json_type(json_get(map, form_names[i])) == JSON_ARRAY)
            return form_names[i];
    if (json_type(json_get(map, "expr")) == JSON_STR)
        return "expr";
    return json_has(map, "const") ? "const" : NULL;
}

/* A parameter as the long form has it, only without its name. */
static bool is_long_form(const struct json *map)
{
    static const char *const kinds[] = {"float", "int", "cat", "ordinal", "const"};
    struct str type = json_get_str(map, "type");
    bool known = false;

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        known |= str_eq_c(type, kinds[i]);
    return known && (json_has(map, "low") || json_has(map, "high") || json_has(map, "choices") ||
                     json_has(map, "value"));
}

/* A list of such things is a list of parameters, any other list is a choice. */
static bool has_parameter(const struct json *node)
{
    if (json_type(node) == JSON_OBJECT) {
        if (form_of(node) || is_long_form(node) || json_has(node, "when"))
            return true;
        for (struct json_it it = {0}; json_next(node, &it);)
            if (json_type(it.val) != JSON_ARRAY && has_parameter(it.val))
                return true;
        return false;
    }
    if (json_type(node) == JSON_STR)
        return tune_expr_draws(json_str(node));
    bool found = false;
    for (size_t i = 0; json_type(node) == JSON_ARRAY && i < json_len(node) && !found; i++)
        found = has_parameter(json_at(node, i));
    return found;
}

/* ---- messages ---- */
static int short_bad(struct short_reader *r, const char *form, const struct json *value,
                     const char *remedy)
{
    AUTO_FREE char *text = json_text(value);

    return err_set(r->e, ERR_INVALID, "%.70s: %s%s%.*s%s %s", *r->path ? r->path : "the space",
                   form, *form ? ": " : "", SHORT_VALUE_MAX, text,
                   strlen(text) > SHORT_VALUE_MAX ? "…" : "", remedy);
}

/* ---- parameters ---- */
/* A new item with the name of the path and the conditions that are open. */
static struct json *short_add(struct short_reader *r, const char *type)
{
    struct short_item it = {.item = json_new_object(), .name = arena_strdup(&r->arena, r->path)};

    json_set_str(it.item, "name", it.name);
    if (type)
        json_set_str(it.item, "type", type);
    it.n_clauses = r->open.n;
    it.clauses = arena_alloc(&r->arena, r->open.n * sizeof(*it.clauses));
    if (r->open.n)
        memcpy(it.clauses, r->open.p, r->open.n * sizeof(*it.clauses));
    vec_push(&r->items, it);
    return it.item;
}

static int short_const(struct short_reader *r, const struct json *value)
{
    json_set_take(short_add(r, "const"), "value", value ? json_copy(value) : NULL);
    return 0;
}

/* The text is judged by space_expr.c, whose messages have the column. */
static int short_expr(struct short_reader *r, const struct json *text)
{
    json_set_take(short_add(r, "expr"), "value", json_copy(text));
    return 0;
}

static int short_choices(struct short_reader *r, const char *type, const struct json *list)
{
    if (!json_len(list))
        return short_bad(r, "", list, "has no value to choose from; add one, or write {const: []}");
    if (json_len(list) > TUNE_CHOICES_MAX)
        return short_bad(r, "", list, "has more than 10000 choices; use an int or a float");
    json_set_take(short_add(r, type), "choices", json_copy(list));
    return 0;
}

static bool is_finite_number(const struct json *v)
{
    enum json_type t = json_type(v);

    return (t == JSON_INT || t == JSON_REAL) && isfinite(json_real(v));
}

static bool is_whole(const struct json *v)
{
    return json_real(v) == floor(json_real(v));
}

/* The ends of a range: [low, high]. */
static int check_ends(struct short_reader *r, const char *form, const struct json *list,
                      bool log_scale)
{
    const struct json *low = json_at(list, 0), *high = json_at(list, 1);

    if (json_len(list) != 2)
        return short_bad(r, form, list,
                         "must be two numbers [low, high]; steps are written as step: 0.1");
    if (!is_finite_number(low) || !is_finite_number(high))
        return short_bad(r, form, list, "must be two finite numbers [low, high]");
    if (json_real(low) > json_real(high))
        return short_bad(r, form, list, "has its low end above its high end; swap them");
    if (log_scale && !(json_real(low) > 0))
        return short_bad(r, form, list, "must begin above 0, because 0 has no logarithm; try 1e-6");
    if (!strcmp(form, "int") && (!is_whole(low) || !is_whole(high)))
        return short_bad(r, form, list, "must be whole numbers; use uniform for real ones");
    return 0;
}

static int short_range(struct short_reader *r, const char *form, const struct json *map)
{
    const struct json *list = json_get(map, form), *step = json_get(map, "step");
    const struct json *flag = json_get(map, "log");
    bool form_log = !strcmp(form, "log");
    bool log_scale = form_log || json_bool(flag);

    if (!form_log && flag && json_type(flag) != JSON_BOOL)
        return short_bad(r, "log", flag, "must be true or false beside another range");
    if (check_ends(r, form, list, log_scale) < 0)
        return -1;
    if (json_has(map, "step") && (!is_finite_number(step) || !(json_real(step) > 0)))
        return short_bad(r, "step", step, "must be a number above 0; remove it for no steps");
    if (!strcmp(form, "int") && step && !is_whole(step))
        return short_bad(r, "step", step, "must be a whole number for an int");
    if (log_scale && step)
        return short_bad(r, "step", step, "cannot stand beside log; remove one of the two");
    struct json *item = short_add(r, !strcmp(form, "int") ? "int" : "float");
    json_set_take(item, "low", json_copy(json_at(list, 0)));
    json_set_take(item, "high", json_copy(json_at(list, 1)));
    if (log_scale)
        json_set_take(item, "log", json_new_bool(true));
    if (step)
        json_set_take(item, "step", json_copy(step));
    return 0;
}

/* Only the form and what belongs to it: a misspelt key would be a default that nobody meant. */
static int check_form_keys(struct short_reader *r, const char *form, const struct json *map)
{
    bool range = !strcmp(form, "uniform") || !strcmp(form, "float") || !strcmp(form, "int");

    for (struct json_it it = {0}; json_next(map, &it);) {
        bool known = !strcmp(it.key, form) || !strcmp(it.key, "when");
        known |= !strcmp(it.key, "step") && (range || !strcmp(form, "log"));
        known |= !strcmp(it.key, "log") && range;
        if (known)
            continue;
        const char *near = str_nearest(it.key, form_keys, ARRAY_SIZE(form_keys));
        return err_set(r->e, ERR_INVALID,
                       "%.70s: the key %.40s does not belong to %s%s%s; remove it, or give it a "
                       "map of its own",
                       r->path, it.key, form, near && strcmp(near, it.key) ? "; did you mean " : "",
                       near && strcmp(near, it.key) ? near : "");
    }
    return 0;
}

static int short_form(struct short_reader *r, const char *form, const struct json *map)
{
    const struct json *value = json_get(map, form);

    if (check_form_keys(r, form, map) < 0)
        return -1;
    if (!strcmp(form, "const"))
        return short_const(r, value);
    if (!strcmp(form, "expr"))
        return short_expr(r, value);
    if (!strcmp(form, "ordinal"))
        return short_choices(r, "ordinal", value);
    if (!strcmp(form, "choice"))
        return short_choices(r, "cat", value);
    return short_range(r, form, map);
}

/* {type: float, low: 0, high: 1}: space_parse.c judges it. */
static int short_long_form(struct short_reader *r, const struct json *map)
{
    struct json *item = short_add(r, NULL);

    for (struct json_it it = {0}; json_next(map, &it);) {
        if (!strcmp(it.key, "name"))
            return short_bad(r, "name", it.val, "is not needed: the path is the name; remove it");
        if (strcmp(it.key, "when") != 0)
            json_set_take(item, it.key, it.val ? json_copy(it.val) : NULL);
    }
    return 0;
}

/* ---- maps and lists ---- */
static int path_enter(struct short_reader *r, const char *key, size_t *out_before)
{
    size_t before = strlen(r->path);
    int n = snprintf(r->path + before, sizeof(r->path) - before, "%s%s", before ? "." : "", key);

    if (!*key) {
        r->path[before] = 0;
        return short_bad(r, "", NULL, "stands for a key without a name; name it");
    }
    if ((size_t)n >= sizeof(r->path) - before)
        return err_set(r->e, ERR_LIMIT,
                       "%.70s…: the path is longer than %d bytes; use shorter keys", r->path,
                       SHORT_PATH_MAX);
    *out_before = before;
    return 0;
}

/* Names of a condition are looked for beside the parameter or group that has it, then further out.
 */
static int short_when(struct short_reader *r, const struct json *map)
{
    const struct json *when = json_get(map, "when");
    char *scope = arena_strdup(&r->arena, r->path), *dot = strrchr(scope, '.');

    if (!json_has(map, "when"))
        return 0;
    if (json_type(when) != JSON_OBJECT || !json_len(when))
        return short_bad(r, "when", when, "must be a map such as {opt: [sgd]}");
    *(dot ? dot : scope) = 0;
    for (struct json_it it = {0}; json_next(when, &it);) {
        struct short_clause c = {scope, arena_strdup(&r->arena, it.key), it.val};
        if (json_type(it.val) == JSON_ARRAY && !json_len(it.val))
            return short_bad(r, "when", when, "has an empty list, so this would never exist");
        vec_push(&r->open, c);
    }
    return 0;
}

static int short_map(struct short_reader *r, const struct json *map)
{
    if (!json_len(map))
        return short_const(r, map);
    for (struct json_it it = {0}; json_next(map, &it);) {
        size_t before = 0;
        if (!strcmp(it.key, "when"))
            continue;
        if (path_enter(r, it.key, &before) < 0 || short_node(r, it.val) < 0)
            return -1;
        r->path[before] = 0;
    }
    return 0;
}

static int short_list(struct short_reader *r, const struct json *list)
{
    for (size_t i = 0; i < json_len(list); i++) {
        char key[24];
        size_t before = 0;
        snprintf(key, sizeof(key), "%zu", i);
        if (path_enter(r, key, &before) < 0 || short_node(r, json_at(list, i)) < 0)
            return -1;
        r->path[before] = 0;
    }
    return 0;
}

static int short_node(struct short_reader *r, const struct json *node)
{
    size_t open = r->open.n;
    int rc;

    if (r->items.n > TUNE_DIMS_MAX)
        return err_set(r->e, ERR_LIMIT, "the space has more than %d parameters", TUNE_DIMS_MAX);
    if (json_type(node) == JSON_ARRAY)
        return has_parameter(node) ? short_list(r, node) : short_choices(r, "cat", node);
    if (json_type(node) == JSON_STR && tune_expr_draws(json_str(node)))
        return short_expr(r, node);
    if (json_type(node) != JSON_OBJECT)
        return short_const(r, node);
    const char *form = form_of(node);
    if (short_when(r, node) < 0)
        return -1;
    rc = form                 ? short_form(r, form, node)
         : is_long_form(node) ? short_long_form(r, node)
                              : short_map(r, node);
    r->open.n = open;
    return rc;
}

/* ---- conditions ---- */
static struct short_item *short_find(struct short_reader *r, const char *scope, size_t n,
                                     const char *name)
{
    for (size_t i = 0; i < r->items.n; i++) {
        const char *full = r->items.p[i].name;
        if (n ? !strncmp(full, scope, n) && full[n] == '.' && !strcmp(full + n + 1, name)
              : !strcmp(full, name))
            return &r->items.p[i];
    }
    return NULL;
}

/* The parameter that a clause means: from the clause's scope outwards. */
static struct short_item *clause_parent(struct short_reader *r, const struct short_clause *c)
{
    size_t n = strlen(c->scope);

    for (;;) {
        struct short_item *found = short_find(r, c->scope, n, c->name);
        if (found || !n)
            return found;
        while (n > 0 && c->scope[n - 1] != '.')
            n--;
        n -= n > 0;
    }
}

static bool list_has(const struct json *list, const struct json *value)
{
    bool found = false;

    for (size_t i = 0; i < json_len(list) && !found; i++)
        found = json_equal(json_at(list, i), value);
    return found;
}

/* The values of a clause as a list; only those that `within` has too, NULL = all. */
static struct json *clause_values(const struct json *values, const struct json *within)
{
    struct json *out = json_new_array();
    bool list = json_type(values) == JSON_ARRAY;

    for (size_t i = 0; i < (list ? json_len(values) : 1); i++) {
        const struct json *v = list ? json_at(values, i) : values;
        if (!within || list_has(within, v))
            json_push_take(out, v ? json_copy(v) : NULL);
    }
    return out;
}

/* Fills in `when` of one item.  Two conditions upon the same parent must both hold. */
static int resolve_when(struct short_reader *r, struct short_item *it)
{
    if (!it->n_clauses)
        return 0;
    struct json *when = json_new_object();
    json_set_take(it->item, "when", when);
    for (size_t i = 0; i < it->n_clauses; i++) {
        const struct short_clause *c = &it->clauses[i];
        const struct short_item *parent = clause_parent(r, c);
        if (!parent) {
            size_t n = r->items.n;
            const char **names = arena_alloc(&r->arena, n * sizeof(*names));
            for (size_t k = 0; k < n; k++)
                names[k] = r->items.p[k].name;
            const char *near = str_nearest(c->name, names, n);
            return err_set(r->e, ERR_INVALID, "%.70s: when: %.60s is no parameter%s%s", it->name,
                           c->name, near ? "; did you mean " : "; name one of this space",
                           near ? near : "");
        }
        struct json *values = clause_values(c->values, json_get(when, parent->name));
        json_set_take(when, parent->name, values);
        if (!json_len(values))
            return err_set(r->e, ERR_INVALID,
                           "%.70s: when: no value of %.60s meets all conditions, so it would never "
                           "exist; remove one",
                           it->name, parent->name);
    }
    return 0;
}

static bool parents_placed(struct short_reader *r, const struct short_item *it)
{
    bool all = true;

    for (struct json_it w = {0}; json_next(json_get(it->item, "when"), &w);)
        all = all && short_find(r, "", 0, w.key)->placed;
    return all;
}

/* Parents first; else the order of the map, which is the order of dimensions. */
static int place_items(struct short_reader *r, struct json *list)
{
    for (size_t left = r->items.n; left;) {
        size_t before = left;
        for (size_t i = 0; i < r->items.n; i++) {
            struct short_item *it = &r->items.p[i];
            if (it->placed || !parents_placed(r, it))
                continue;
            it->placed = true;
            json_push_take(list, TAKE(it->item));
            left--;
        }
        for (size_t i = 0; left == before && i < r->items.n; i++)
            if (!r->items.p[i].placed)
                return err_set(r->e, ERR_INVALID,
                               "%.70s: when: the conditions lead back to this parameter; remove "
                               "one of them",
                               r->items.p[i].name);
    }
    return 0;
}

static int short_read(struct short_reader *r, const struct json *map, struct json *list)
{
    if (json_type(map) != JSON_OBJECT || !json_len(map))
        return short_bad(r, "", map, "must be a map such as {lr: {log: [1e-5, 0.1]}}");
    if (form_of(map) || is_long_form(map))
        return short_bad(r, "", map, "is one range without a name; write {lr: …}");
    if (short_node(r, map) < 0)
        return -1;
    for (size_t i = 0; i < r->items.n; i++) {
        struct short_item *it = &r->items.p[i];
        if (short_find(r, "", 0, it->name) != it)
            return err_set(r->e, ERR_INVALID, "%.70s: two parameters have this name; rename one",
                           it->name);
    }
    for (size_t i = 0; i < r->items.n; i++)
        if (resolve_when(r, &r->items.p[i]) < 0)
            return -1;
    return place_items(r, list);
}

int tune_space_from_short_rules(const struct json *map, const struct json *constraints,
                                struct tune_space **out, struct err *e)
{
    struct short_reader r = {.e = e};
    AUTO(json) struct json *list = json_new_array();
    int rc = short_read(&r, map, list);

    if (rc == 0)
        rc = tune_space_parse(list, constraints, out, e);
    /* Keys and texts are quoted in messages, and a message is one line. */
    for (char *c = rc < 0 && e ? e->text : NULL; c && *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    for (size_t i = 0; i < r.items.n; i++)
        json_free(r.items.p[i].item);
    vec_done(&r.items);
    vec_done(&r.open);
    arena_done(&r.arena);
    return rc;
}

int tune_space_from_short(const struct json *map, struct tune_space **out, struct err *e)
{
    return tune_space_from_short_rules(map, NULL, out, e);
}

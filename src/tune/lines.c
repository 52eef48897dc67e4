/* lines.c - the protocol of berth tune: one object in, one object out
 *
 * Lines are read token by token, because ask and tell are all that most studies send and a proposal
 * of the cheap engines takes less time than building a tree.  NaN and Infinity, which Python's json
 * writes, are taken for results that failed.
 */
#include "tune/lines.h"
#include "base/json.h"
#include "base/json_in.h"
#include "base/json_out.h"
#include "base/util.h"
#include <math.h>

/* One line, taken apart.  The trees are freed by line_done. */
struct tune_line {
    struct str op, direction, state, engine;
    int64_t id, seed, n_trials;
    bool has_id;
    size_t n_values; /* 0 = no value */
    double values[TUNE_OBJECTIVES_MAX];
    struct json *space, *constraints, *params, *directions;
    char words[4][24]; /* op, direction, state, engine: the reader's text may move */
};

static void line_done(struct tune_line *l)
{
    json_free(l->space);
    json_free(l->constraints);
    json_free(l->params);
    json_free(l->directions);
}

void tune_lines_done(struct tune_lines *t)
{
    tune_study_free(t->study);
    t->study = NULL;
}

static int line_word(struct json_in *in, int token, const char *key, char *to, struct str *out)
{
    if (token != JSON_IN_STR || in->s.n >= sizeof(((struct tune_line *)0)->words[0]))
        return err_set(in->e, ERR_INVALID, "%s must be a short text", key);
    memcpy(to, in->s.p, in->s.n);
    *out = (struct str){to, in->s.n};
    return 0;
}

static int line_int(struct json_in *in, int token, const char *key, int64_t *out)
{
    if (token != JSON_IN_NUMBER || !str_to_i64(in->s, out))
        return err_set(in->e, ERR_INVALID, "%s must be a whole number", key);
    return 0;
}

/* null, NaN and infinities are results too: those of trials that failed. */
static int line_value(struct json_in *in, int token, struct tune_line *l)
{
    double x = NAN;

    if (token != JSON_IN_NUMBER && token != JSON_IN_NULL && token != JSON_IN_WORD)
        return err_set(in->e, ERR_INVALID, "value must be a number, or null for a failed trial");
    if (l->n_values == TUNE_OBJECTIVES_MAX)
        return err_set(in->e, ERR_INVALID, "a trial has at most %d values", TUNE_OBJECTIVES_MAX);
    if (token == JSON_IN_NUMBER && !str_to_double(in->s, &x))
        x = NAN; /* 1e999 */
    l->values[l->n_values++] = x;
    return 0;
}

static int line_values(struct json_in *in, int token, struct tune_line *l)
{
    if (token != JSON_IN_ARRAY)
        return err_set(in->e, ERR_INVALID, "values must be a list with a number per objective");
    while ((token = json_in_next(in)) != JSON_IN_CLOSE)
        if (token == JSON_IN_BAD || line_value(in, token, l) < 0)
            return -1;
    return 0;
}

static int line_tree(struct json_in *in, int token, const char *key, struct json **out)
{
    if (*out)
        return err_set(in->e, ERR_INVALID, "%s stands twice in the line", key);
    if (token == JSON_IN_WORD)
        return err_set(in->e, ERR_INVALID, "%s must be a list or an object", key);
    return json_in_tree(in, token, out);
}

/* The value of one member; in->s is its key. */
static int line_member(struct json_in *in, struct tune_line *l)
{
    char key[16] = "";

    if (in->s.n < sizeof(key))
        memcpy(key, in->s.p, in->s.n);
    int token = json_in_next(in);
    if (token == JSON_IN_BAD)
        return -1;
    if (!strcmp(key, "op"))
        return line_word(in, token, key, l->words[0], &l->op);
    if (!strcmp(key, "direction"))
        return line_word(in, token, key, l->words[1], &l->direction);
    if (!strcmp(key, "state"))
        return line_word(in, token, key, l->words[2], &l->state);
    if (!strcmp(key, "engine"))
        return line_word(in, token, key, l->words[3], &l->engine);
    if (!strcmp(key, "value"))
        return line_value(in, token, l);
    if (!strcmp(key, "values"))
        return line_values(in, token, l);
    if (!strcmp(key, "directions"))
        return line_tree(in, token, key, &l->directions);
    if (!strcmp(key, "id")) {
        l->has_id = true;
        return line_int(in, token, key, &l->id);
    }
    if (!strcmp(key, "seed"))
        return line_int(in, token, key, &l->seed);
    if (!strcmp(key, "n_trials"))
        return token == JSON_IN_NULL ? 0 : line_int(in, token, key, &l->n_trials);
    if (!strcmp(key, "space"))
        return line_tree(in, token, key, &l->space);
    if (!strcmp(key, "constraints"))
        return line_tree(in, token, key, &l->constraints);
    if (!strcmp(key, "params"))
        return line_tree(in, token, key, &l->params);
    return err_set(in->e, ERR_INVALID,
                   "the line has a key that is none of op, id, value, values, state, params, "
                   "seed, direction, directions, n_trials, engine, space, constraints");
}

static int line_read(struct str text, struct tune_line *l, struct err *e)
{
    struct json_in in = {.text = text, .name = "line", .python = true, .e = e};
    int rc = 0, token = json_in_next(&in);

    if (token != JSON_IN_OBJECT)
        rc = token == JSON_IN_BAD
                 ? -1
                 : err_set(e, ERR_INVALID,
                           "a line must be an object; try {\"op\":\"create\",\"space\":[…]}");
    while (rc == 0 && (token = json_in_next(&in)) == JSON_IN_KEY)
        rc = line_member(&in, l);
    if (rc == 0 && (token == JSON_IN_BAD || json_in_next(&in) != JSON_IN_END))
        rc = -1;
    json_in_done(&in);
    return rc;
}

/* "directions": ["minimize", "maximize"], for several objectives. */
static int lines_directions(const struct json *list, struct tune_conf *conf, bool *maximize,
                            struct err *e)
{
    size_t n = json_len(list);

    if (!list)
        return 0;
    if (json_type(list) != JSON_ARRAY || !n || n > TUNE_OBJECTIVES_MAX)
        return err_set(e, ERR_INVALID, "directions must be a list of 1 to %d of minimize, maximize",
                       TUNE_OBJECTIVES_MAX);
    for (size_t i = 0; i < n; i++) {
        struct str word = json_str(json_at(list, i));
        maximize[i] = str_eq_c(word, "maximize");
        if (!maximize[i] && !str_eq_c(word, "minimize"))
            return err_set(e, ERR_INVALID, "directions[%zu] must be minimize or maximize", i);
    }
    conf->objectives = n;
    conf->maximize_each = maximize;
    conf->maximize = maximize[0];
    return 0;
}

/* One study per process: a second create is a mistake of the caller's. */
static int lines_create(struct tune_lines *t, struct tune_line *l, struct err *e)
{
    struct tune_conf conf = {.engine = t->engine, .seed = (uint64_t)l->seed, .budget = l->n_trials};
    struct tune_space *space = NULL;
    bool maximize[TUNE_OBJECTIVES_MAX] = {0};

    if (t->study)
        return err_set(e, ERR_CONFLICT, "the study exists already; start another process");
    conf.maximize = str_eq_c(l->direction, "maximize");
    if (l->direction.n && !conf.maximize && !str_eq_c(l->direction, "minimize"))
        return err_set(e, ERR_INVALID, "direction must be minimize or maximize");
    if (lines_directions(l->directions, &conf, maximize, e) < 0)
        return -1;
    if (l->n_trials < -1)
        return err_set(e, ERR_INVALID, "n_trials must not be negative");
    if (l->engine.n)
        conf.engine = l->engine.p;
    bool map = json_type(l->space) == JSON_OBJECT;
    if ((map ? tune_space_from_short_rules : tune_space_parse)(l->space, l->constraints, &space,
                                                               e) < 0)
        return -1;
    return tune_study_new(space, &conf, &t->study, e);
}

/* A value and a state contradict each other only if the state says failed: then it decides. */
static int lines_tell(struct tune_lines *t, const struct tune_line *l, struct err *e)
{
    bool failed = str_eq_c(l->state, "failed");

    if (!l->has_id)
        return err_set(e, ERR_INVALID, "tell needs the id of the trial");
    if (l->state.n && !failed)
        return err_set(e, ERR_INVALID, "state can only be failed");
    if (!failed && !l->n_values)
        return err_set(e, ERR_INVALID, "tell needs the value, or \"state\":\"failed\"");
    return tune_study_tell_many(t->study, l->id, failed ? TUNE_FAILED : TUNE_DONE, l->values,
                                l->n_values, e);
}

static int lines_ask(struct tune_lines *t, struct buf *out, struct err *e)
{
    const double *code;
    int64_t id;

    if (tune_study_ask(t->study, &id, &code, e) < 0)
        return -1;
    jw_object(out, NULL);
    jw_int(out, "id", id);
    tune_space_write(tune_study_space(t->study), code, "params", out);
    jw_end_object(out);
    return 0;
}

/* Parameters are checked as strictly as those of a space. */
static int lines_record(struct tune_lines *t, const struct tune_line *l, struct buf *out,
                        struct err *e)
{
    const struct tune_space *space = tune_study_space(t->study);
    AUTO_FREE double *code = xcalloc(space->n, sizeof(double));

    if (tune_space_read(space, l->params, code, e) < 0)
        return -1;
    if (!tune_space_allows(space, code))
        return err_set(e, ERR_INVALID, "params breaks a constraint of the space");
    jw_object(out, NULL);
    jw_int(out, "id", tune_study_record(t->study, code));
    jw_end_object(out);
    return 0;
}

static int lines_serve(struct tune_lines *t, struct tune_line *l, struct buf *out, struct err *e)
{
    int rc;

    if (str_eq_c(l->op, "create"))
        rc = lines_create(t, l, e);
    else if (!str_eq_c(l->op, "ask") && !str_eq_c(l->op, "tell") && !str_eq_c(l->op, "record"))
        return err_set(e, ERR_INVALID, "op must be create, ask, tell, record or close");
    else if (!t->study)
        return err_set(e, ERR_CONFLICT, "there is no study yet; send create first");
    else if (str_eq_c(l->op, "ask"))
        return lines_ask(t, out, e);
    else if (str_eq_c(l->op, "record"))
        return lines_record(t, l, out, e);
    else
        rc = lines_tell(t, l, e);
    if (rc == 0)
        buf_adds(out, "{\"ok\":true}");
    return rc;
}

bool tune_lines_answer(struct tune_lines *t, struct str line, struct buf *out)
{
    struct tune_line l = {.n_trials = -1};
    struct err e = {0};
    int rc = line_read(line, &l, &e);
    bool closed = rc == 0 && str_eq_c(l.op, "close");

    if (rc == 0 && !closed)
        rc = lines_serve(t, &l, out, &e);
    if (rc < 0) {
        jw_object(out, NULL);
        jw_text(out, "error", e.text);
        jw_text(out, "code", err_code_name(e.code));
        jw_end_object(out);
    }
    if (!closed)
        buf_addc(out, '\n');
    line_done(&l);
    return !closed;
}

/* search_spec.c - options and files of `berth search` into the body of a study
 *
 * Owns: how a range is written on the command line, which keys of a file belong to the search and
 * which to its job, and the name of a search that got none.  A file is one of a sweep with ranges
 * in place of lists: `params` and `slots` mean the same there as `space` and `parallel`.  What the
 * values mean and whether they are right is the daemon's business.
 */
#include "base/file.h"
#include "base/hash.h"
#include "base/util.h"
#include "cli/search.h"
#include "cli/spec_file.h"
#include "cli/view.h"
#include <ctype.h>

enum { NAME_MAX_BYTES = 60, SHOWN_MAX = 60 };

/* ---- one range of the command line ---- */

/* A number keeps its text (1e-5); what is no JSON is text.  Yours. */
static struct json *plain_value(struct str s)
{
    AUTO_FREE char *text = xstrndup(s.p, s.n);
    struct json *j = NULL;
    struct err ignored;

    if (json_parse(s, "value", &j, &ignored) < 0 || !j)
        return json_new_str(str_of(text));
    return j;
}

static struct json *choice_list(struct str rest)
{
    struct json *list = json_new_array();

    do
        json_push_take(list, plain_value(str_trim(str_cut(rest, ',', &rest))));
    while (rest.n);
    return list;
}

static bool is_number(const struct json *j)
{
    return json_type(j) == JSON_INT || json_type(j) == JSON_REAL;
}

static int range_bad(const char *word, struct err *e)
{
    return err_set(e, ERR_INVALID,
                   "--param '%.60s' is not a range; write K=uniform:0..1, K=log:1e-5..1e-1, "
                   "K=int:1..8, K=ordinal:1,2,4, K=a,b,c or JSON",
                   word);
}

/* "LOW..HIGH", "LOW..HIGH:STEP" and "LOW..HIGH:log" of a kind; NULL: it is none. */
static struct json *range_value(const char *kind, struct str text)
{
    struct str more, ends = str_cut(text, ':', &more);
    const char *dots = memmem(ends.p, ends.n, "..", 2);

    if (!dots)
        return NULL;
    struct str low = {ends.p, (size_t)(dots - ends.p)};
    struct str high = {dots + 2, ends.n - low.n - 2};
    AUTO(json) struct json *map = json_new_object();
    struct json *list = json_new_array(), *step = more.n ? plain_value(str_trim(more)) : NULL;
    json_push_take(list, plain_value(str_trim(low)));
    json_push_take(list, plain_value(str_trim(high)));
    json_set_take(map, kind, list);
    bool on_log = step && json_type(step) == JSON_STR && str_eq_c(json_str(step), "log");
    bool good = is_number(json_at(list, 0)) && is_number(json_at(list, 1)) &&
                (!step || on_log || is_number(step));
    if (on_log) {
        json_free(step);
        json_set_take(map, "log", json_new_bool(true));
    } else if (step) {
        json_set_take(map, "step", step);
    }
    return good ? TAKE(map) : NULL;
}

/* What stands behind "K=" and before " when "; NULL: a kind whose range is wrong. */
static struct json *range_parse(struct str text)
{
    static const char *const kinds[] = {"uniform", "float", "log", "int"};
    struct str rest, kind = str_cut(text, ':', &rest);
    struct json *j = NULL;
    struct err ignored;

    if (text.n && strchr("[{\"", *text.p))
        return json_parse(text, "value", &j, &ignored) < 0 ? NULL : j;
    for (size_t i = 0; i < ARRAY_SIZE(kinds) && kind.n < text.n; i++)
        if (str_eq_c(kind, kinds[i]))
            return range_value(kinds[i], rest);
    if (kind.n < text.n && (str_eq_c(kind, "ordinal") || str_eq_c(kind, "choice"))) {
        AUTO_FREE char *name = xstrndup(kind.p, kind.n);
        j = json_new_object();
        json_set_take(j, name, choice_list(rest));
        return j;
    }
    if (memmem(text.p, text.n, "..", 2) && !memchr(text.p, '/', text.n))
        return NULL; /* a range without a kind; a path may well have two dots */
    return memchr(text.p, ',', text.n) ? choice_list(text) : plain_value(text);
}

/* " when opt=sgd,adam": the parameter exists only then.  A plain value becomes a map first. */
static int range_condition(struct json **value, struct str clause, const char *word, struct err *e)
{
    struct str rest, parent = str_trim(str_cut(clause, '=', &rest));

    if (!parent.n || !rest.n)
        return err_set(e, ERR_INVALID, "--param '%.60s': write the condition as when NAME=VALUE",
                       word);
    if (json_type(*value) != JSON_OBJECT) {
        struct json *map = json_new_object();
        json_set_take(map, json_type(*value) == JSON_ARRAY ? "choice" : "const", *value);
        *value = map;
    }
    AUTO_FREE char *name = xstrndup(parent.p, parent.n);
    struct json *when = json_new_object();
    json_set_take(when, name, choice_list(rest));
    json_set_take(*value, "when", when);
    return 0;
}

int search_range_add(struct json *space, const char *word, struct err *e)
{
    struct str text, name = str_trim(str_cut(str_of(word), '=', &text));
    const char *when = text.n ? strstr(text.p, " when ") : NULL;

    if (!name.n || !text.n)
        return range_bad(word, e);
    struct str range = {text.p, when ? (size_t)(when - text.p) : text.n};
    AUTO(json) struct json *value = range_parse(str_trim(range));
    if (!value)
        return range_bad(word, e);
    if (when && range_condition(&value, str_of(when + strlen(" when ")), word, e) < 0)
        return -1;
    AUTO_FREE char *key = xstrndup(name.p, name.n);
    if (json_has(space, key))
        return err_set(e, ERR_INVALID, "--param %.60s is given twice", key);
    json_set_take(space, key, TAKE(value));
    return 0;
}

/* ---- files ---- */

bool search_is_file(const char *word)
{
    const char *dot = strrchr(word, '.');

    return dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml") || !strcmp(dot, ".json"));
}

/* Where a key of a file goes in the body of a study; NULL: to the job. */
static const char *study_key(const char *key)
{
    static const struct {
        const char *in_file, *in_body;
    } keys[] = {{"name", "name"},
                {"space", "space"},
                {"params", "space"},
                {"constraints", "constraints"},
                {"engine", "engine"},
                {"seed", "seed"},
                {"objective", "objective"},
                {"take", "take"},
                {"trials", "trials"},
                {"parallel", "parallel"},
                {"slots", "parallel"},
                {"stop", "stop"},
                {"from", "from"},
                {"pbt", "pbt"},
                {"job", "job"}};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (!strcmp(key, keys[i].in_file))
            return keys[i].in_body;
    return NULL;
}

/* One objective more: {"minimize": "loss"}. */
static void goal_push(struct json *goals, const char *word, const struct json *metric)
{
    struct json *goal = json_new_object();

    json_set_take(goal, word, metric ? json_copy(metric) : NULL);
    json_push_take(goals, goal);
}

/* `minimize: loss` and `maximize: [acc, f1]` of a file; false: it is another key. */
static bool goals_of_file(struct json *goals, const char *key, const struct json *val)
{
    bool list = json_type(val) == JSON_ARRAY;

    if (strcmp(key, "minimize") != 0 && strcmp(key, "maximize") != 0)
        return false;
    for (size_t i = 0; i < (list ? json_len(val) : 1); i++)
        goal_push(goals, key, list ? json_at(val, i) : val);
    return true;
}

/* One objective stands alone, several are a list. */
static void goals_set(struct json *body, const struct json *goals)
{
    if (json_len(goals))
        json_set_take(body, "objective",
                      json_copy(json_len(goals) == 1 ? json_at(goals, 0) : goals));
}

/* Parts a file into the study and its job. */
static int search_split_file(const struct json *file, struct json *body, struct json **out_job,
                             struct err *e)
{
    AUTO(json) struct json *job = json_new_object(), *goals = json_new_array();
    const char *stray = NULL;

    for (struct json_it it = {0}; json_next(file, &it);) {
        const char *key = study_key(it.key);
        if (goals_of_file(goals, it.key, it.val))
            continue;
        if (!key) {
            stray = it.key;
            json_set_take(job, it.key, it.val ? json_copy(it.val) : NULL);
        } else if (json_has(body, key)) {
            return err_set(e, ERR_INVALID, "%s of the file repeats '%s'; keep one of the two",
                           it.key, key);
        } else {
            json_set_take(body, key, it.val ? json_copy(it.val) : NULL);
        }
    }
    if (json_len(goals) && json_has(body, "objective"))
        return err_set(e, ERR_INVALID, "the file has objective and minimize or maximize; keep one");
    goals_set(body, goals);
    const struct json *own = json_get(body, "job");
    if (own && stray)
        return err_set(e, ERR_INVALID, "'%.40s' of the file belongs below its key job", stray);
    if (own && json_type(own) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "job of the file is %s, not a map",
                       json_type_name(json_type(own)));
    if (own) {
        json_free(job);
        job = json_copy(own);
    }
    *out_job = TAKE(job);
    return 0;
}

/* ---- options ---- */

static int set_objective(struct json *body, const struct search_opts *o, struct err *e)
{
    AUTO(json) struct json *goals = json_new_array();
    const struct opt_list *lists[] = {&o->minimize, &o->maximize};

    for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
        for (size_t i = 0; i < lists[k]->n; i++) {
            AUTO(json) struct json *metric = json_new_str(str_of(lists[k]->p[i]));
            goal_push(goals, k ? "maximize" : "minimize", metric);
        }
    goals_set(body, goals);
    if (json_has(body, "objective"))
        return 0;
    return err_set(e, ERR_INVALID,
                   "the metric to optimize is missing; add --minimize loss or --maximize acc");
}

static int set_space(struct json *body, const struct search_opts *o, struct err *e)
{
    const struct json *had = json_get(body, "space");

    if (o->job.params.n) { /* ranges of the command line replace those of the file, name by name */
        struct json *given = json_new_object();
        AUTO(json) struct json *space = had ? json_copy(had) : json_new_object();
        int rc = 0;
        for (size_t i = 0; i < o->job.params.n && rc == 0; i++)
            rc = search_range_add(given, o->job.params.p[i], e);
        for (struct json_it it = {0}; rc == 0 && json_next(given, &it);)
            json_set_take(space, it.key, it.val ? json_copy(it.val) : NULL);
        json_free(given);
        if (rc < 0)
            return -1;
        json_set_take(body, "space", TAKE(space));
    } else if (!had) {
        return err_set(e, ERR_INVALID,
                       "nothing to search; add ranges such as --param 'lr=log:1e-5..1e-1'");
    }
    return 0;
}

static int set_study_options(struct json *body, const struct search_opts *o, struct err *e)
{
    const struct {
        const char *key, *text;
    } texts[] = {{"engine", o->engine}, {"take", o->take}, {"from", o->from}};
    const struct {
        const char *key;
        struct opt_num v;
    } numbers[] = {{"trials", o->trials}, {"parallel", o->parallel}, {"seed", o->seed}};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (texts[i].text)
            json_set_str(body, texts[i].key, texts[i].text);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (numbers[i].v.set)
            json_set_int(body, numbers[i].key, numbers[i].v.v);
    if (o->stop) /* a name, or JSON with its settings */
        json_set_take(body, "stop", plain_value(str_of(o->stop)));
    if (o->constraints.n) {
        struct json *list = json_new_array();
        for (size_t i = 0; i < o->constraints.n; i++)
            json_push_take(list, json_new_str(str_of(o->constraints.p[i])));
        json_set_take(body, "constraints", list);
    }
    return set_objective(body, o, e) < 0 ? -1 : set_space(body, o, e);
}

/* ---- the name ---- */

/* "train" of "python /x/train.py --lr {lr}": the first word, or the script of an interpreter. */
static struct str command_stem(const struct json *command)
{
    bool list = json_type(command) == JSON_ARRAY;
    struct str rest,
        first = list ? json_str(json_at(command, 0)) : str_cut(json_str(command), ' ', &rest);
    struct str second = list ? json_str(json_at(command, 1)) : str_cut(rest, ' ', &rest);
    const char *slash = memrchr(first.p, '/', first.n);
    struct str base =
        slash ? (struct str){slash + 1, (size_t)(first.p + first.n - slash - 1)} : first;

    if (second.n && *second.p != '-' &&
        (str_starts(base, STR("python")) || str_eq_c(base, "sh") || str_eq_c(base, "bash"))) {
        slash = memrchr(second.p, '/', second.n);
        base = slash ? (struct str){slash + 1, (size_t)(second.p + second.n - slash - 1)} : second;
    }
    return str_cut(base, '.', &rest);
}

/* Letters, digits, "." "_" "-"; everything else becomes "-". */
static char *search_clean_name(struct str text)
{
    char *name = xstrndup(text.p, MIN(text.n, (size_t)NAME_MAX_BYTES));

    for (char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
            *p = '-';
    return name;
}

/* The same command in the same directory has the same name, so that it resumes its search. */
static char *search_made_name(const struct json *body, const struct json *job, const char *file)
{
    static const uint8_t seed[16] = "berth search";
    AUTO(buf) struct buf all = {0};

    if (file && strcmp(file, "-") != 0) {
        const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
        const char *dot = strrchr(base, '.');
        return search_clean_name((struct str){base, dot ? (size_t)(dot - base) : strlen(base)});
    }
    json_write(&all, json_get(body, "space"), JSON_COMPACT);
    json_write(&all, json_get(body, "objective"), JSON_COMPACT);
    json_write(&all, json_get(job, "command"), JSON_COMPACT);
    json_write(&all, json_get(job, "cwd"), JSON_COMPACT);
    AUTO_FREE char *stem = search_clean_name(command_stem(json_get(job, "command")));
    return xasprintf("%s-%08llx", *stem ? stem : "search",
                     (unsigned long long)siphash24(seed, all.p, all.n) & 0xffffffffULL);
}

/* ---- all of it ---- */

int search_body(const struct search_opts *o, const struct operands *ops, struct json **out,
                struct err *e)
{
    bool operand = !o->job.file && ops->n && !ops->dashed && search_is_file(ops->p[0]);
    const char *path = operand ? ops->p[0] : o->job.file;
    const struct operands command = {ops->p + operand, ops->n - operand, true};
    AUTO(json) struct json *body = json_new_object(), *job = NULL, *file = NULL;
    struct job_opts job_opts = o->job;

    job_opts.params = (struct opt_list){0}; /* they are the space, not parameters of a job */
    job_opts.name = NULL;                   /* that of the search; the daemon names its trials */
    if (path && spec_file_read(path, &file, e) < 0)
        return -1;
    if (search_split_file(file, body, &job, e) < 0 ||
        jobspec_complete(&job_opts, &command, path, job, e) < 0 ||
        set_study_options(body, o, e) < 0)
        return -1;
    if (!json_get(job, "command") && !json_get(job, "image"))
        return err_set(e, ERR_INVALID,
                       "a search needs a command, as in: berth search … -- python train.py --lr "
                       "{lr} (berth.Study in Python searches without one)");
    if (o->job.name)
        json_set_str(body, "name", o->job.name);
    if (!json_get(body, "name")) {
        AUTO_FREE char *made = search_made_name(body, job, path);
        json_set_str(body, "name", made);
    }
    json_set_take(body, "job", TAKE(job));
    *out = TAKE(body);
    return 0;
}

/* 1 and 1.0 are the same value here, and the order of members does not matter. */
static bool same_value(const struct json *a, const struct json *b)
{
    bool same = true;

    if (is_number(a) && is_number(b))
        return json_real(a) == json_real(b);
    if (json_type(a) != json_type(b) || json_len(a) != json_len(b))
        return false;
    if (json_type(a) == JSON_ARRAY)
        for (size_t i = 0; i < json_len(a) && same; i++)
            same = same_value(json_at(a, i), json_at(b, i));
    else if (json_type(a) == JSON_OBJECT)
        for (struct json_it it = {0}; same && json_next(a, &it);)
            same = json_has(b, it.key) && same_value(it.val, json_get(b, it.key));
    else
        same = json_equal(a, b);
    return same;
}

int search_same(const struct json *body, const struct json *study, struct err *e)
{
    static const char *const keys[] = {"space", "constraints", "objective", "take",
                                       "stop",  "engine",      "seed",      "pbt"};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const struct json *want = json_get(body, keys[i]), *has = json_get(study, keys[i]);
        if (!want || !json_has(study, keys[i]) || same_value(want, has))
            continue;
        AUTO_FREE char *text = json_text(has);
        return err_set(e, ERR_CONFLICT,
                       "there is a search '" STR_FMT "' with another %s (%.*s%s); choose another "
                       "--name, or remove it with: berth search rm " STR_FMT,
                       STR_ARG(text_of(study, "name")), keys[i], SHOWN_MAX, text,
                       strlen(text) > SHOWN_MAX ? "…" : "", STR_ARG(text_of(study, "name")));
    }
    return 0;
}

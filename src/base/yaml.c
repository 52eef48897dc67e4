/* yaml.c - YAML 1.2 files into the json tree, over libfyaml's event parser
 *
 * Owns: anchors, merge keys, repeated keys and the limits.  What a scalar means is in
 * yaml_scalar.c. libfyaml reads the syntax; its document builder is not used because it expands
 * aliases without a bound: ten lines of "billion laughs" would eat the machine.
 *
 * An alias is a copy of its anchor's tree, and all copies of a file together may weigh COPY_MAX:
 * a value weighs 1, and 1 more for each WEIGHT_BYTES of its text.  The value of "<<" (a mapping or
 * a list of them) fills in keys the mapping does not have itself.  Keys are text as written: 1 and
 * "1" are the same key.
 */
#include "base/json_priv.h"
#include "base/map.h"
#include "base/util.h"
#include "base/vec.h"
#include "base/yaml_priv.h"
#include <libfyaml.h>

/* BLANK_MAX: libfyaml 0.7 takes time quadratic in a run of blank lines inside block text (40000 of
 * them 5.5 s); with runs of 100 at most, 8 MiB take 3 s at worst. */
enum { COPY_MAX = 1000000, WEIGHT_BYTES = 32, BYTES_MAX = 8 << 20, BLANK_MAX = 100 };

struct reader {
    struct fy_parser *fyp;
    struct fy_diag *diag;
    struct fy_event *event; /* the current one */
    struct map_str anchors; /* name → struct anchor */
    struct str source;
    struct buf text; /* of the quoted scalar at hand */
    size_t copied;
    unsigned depth;
    const char *name;
    const char *(*plain)(struct str s, struct json **out); /* what an unquoted scalar means */
    struct err *e;
};

struct anchor {
    struct json *val;
    size_t weight, depth; /* of val: measured once, asked at each alias */
};

static int read_value(struct reader *r, struct json **out);

static int fail(struct reader *r, const struct fy_mark *at, enum err_code code, const char *what)
{
    const char *name = r->name ? r->name : "text";

    if (!at)
        return err_set(r->e, code, "%s: %s", name, what);
    return err_set(r->e, code, "%s:%d:%d: %s", name, at->line + 1, at->column + 1, what);
}

static int fail_here_code(struct reader *r, enum err_code code, const char *what)
{
    const struct fy_mark *mark = fy_event_start_mark(r->event);
    struct fy_mark at = mark ? *mark : (struct fy_mark){0};

    if (mark && r->event->type == FYET_ALIAS && at.column > 0)
        at.column--; /* the token of an alias starts after its star */
    return fail(r, mark ? &at : NULL, code, what);
}

static int fail_here(struct reader *r, const char *what)
{
    return fail_here_code(r, ERR_INVALID, what);
}

/* What libfyaml collected about a syntax error: the first one is the cause. */
static int fail_syntax(struct reader *r)
{
    void *it = NULL;
    const struct fy_diag_error *found = fy_diag_errors_iterate(r->diag, &it);

    if (!found)
        return fail(r, NULL, ERR_INVALID, "this is not YAML");
    struct fy_mark at = {.line = found->line - 1, .column = found->column - 1};
    return fail(r, &at, ERR_INVALID, found->msg ? found->msg : "syntax error");
}

static int advance(struct reader *r)
{
    fy_parser_event_free(r->fyp, TAKE(r->event));
    r->event = fy_parser_parse(r->fyp);
    if (!r->event)
        return fail_syntax(r);
    return 0;
}

static struct str token_text(struct fy_token *t)
{
    size_t n = 0;
    const char *p = t ? fy_token_get_text(t, &n) : NULL;

    return (struct str){p ? p : "", p ? n : 0};
}

/* The text of the scalar at hand, borrowed until the next one.  NULL, or what is wrong with it. */
static const char *scalar_text(struct reader *r, struct str *out)
{
    struct fy_token *t = r->event->scalar.value;
    const struct fy_mark *from = fy_event_start_mark(r->event), *to = fy_event_end_mark(r->event);
    enum fy_scalar_style style = t ? fy_token_scalar_style(t) : FYSS_PLAIN;
    const char *why = NULL;

    if ((style != FYSS_SINGLE_QUOTED && style != FYSS_DOUBLE_QUOTED) || !from || !to) {
        *out = token_text(t);
    } else {
        struct str raw = {r->source.p + from->input_pos, to->input_pos - from->input_pos};
        buf_reset(&r->text);
        if (style == FYSS_SINGLE_QUOTED)
            yaml_unquote_single(&r->text, raw);
        else
            why = yaml_unquote_double(&r->text, raw);
        *out = buf_str(&r->text);
    }
    return why || str_is_utf8(*out) ? why : "this text is not valid UTF-8";
}

static int scalar_value(struct reader *r, struct json **out)
{
    struct fy_event *ev = r->event;
    struct str tag = token_text(ev->scalar.tag), s;
    const char *why = scalar_text(r, &s);

    if (why)
        return fail_here(r, why);
    if (tag.n > 0)
        why = yaml_tagged(tag, s, out);
    else if (!ev->scalar.value || fy_token_scalar_style(ev->scalar.value) == FYSS_PLAIN)
        why = r->plain(s, out);
    else
        *out = json_new_str(s);
    return why ? fail_here(r, why) : 0;
}

/* ---- anchors, aliases and merging ---- */

/* Adds up the weight of a tree, and how deep lists and mappings go in it. */
static void measure(const struct json *j, size_t level, size_t *weight, size_t *depth)
{
    size_t inner = level + (json_type(j) == JSON_ARRAY || json_type(j) == JSON_OBJECT);

    *weight += 1 + json_str(j).n / WEIGHT_BYTES;
    *depth = MAX(*depth, inner);
    for (size_t i = 0; json_type(j) == JSON_ARRAY && i < json_len(j); i++)
        measure(json_at(j, i), inner, weight, depth);
    for (struct json_it it = {0}; json_next(j, &it);) {
        *weight += strlen(it.key) / WEIGHT_BYTES;
        measure(it.val, inner, weight, depth);
    }
}

/* Counts a copy against the bound of the file before it is made. */
static int count_copy(struct reader *r, size_t weight)
{
    r->copied += weight;
    if (r->copied > COPY_MAX)
        return fail_here_code(r, ERR_LIMIT,
                              "aliases expand to more than 1000000 values or 32 MiB of text");
    return 0;
}

static int remember(struct reader *r, struct str name, const struct json *val)
{
    size_t weight = 0, depth = 0;

    measure(val, 0, &weight, &depth);
    if (count_copy(r, weight) < 0)
        return -1;
    struct anchor *a = map_str_get(&r->anchors, name);
    if (!a) {
        a = xcalloc(1, sizeof(*a));
        map_str_put(&r->anchors, name, a);
    }
    json_free(a->val); /* YAML lets a later anchor replace an earlier one of the same name */
    *a = (struct anchor){json_copy(val), weight, depth};
    return 0;
}

static int alias_value(struct reader *r, struct json **out)
{
    struct str name = token_text(r->event->alias.anchor);
    const struct anchor *a = map_str_get(&r->anchors, name);

    if (!a) {
        char what[128];
        snprintf(what, sizeof(what), "alias *%.*s names no anchor that is complete before it",
                 (int)MIN(name.n, 60), name.p);
        return fail_here(r, what);
    }
    if (a->depth + r->depth > JSON_DEPTH_MAX)
        return fail_here_code(r, ERR_LIMIT, "lists and mappings are nested deeper than 64 levels");
    if (count_copy(r, a->weight) < 0)
        return -1;
    *out = json_copy(a->val);
    return 0;
}

/* Adds the keys of `from` that `to` lacks; both belong to the caller. */
static int merge_one(struct reader *r, struct json *to, const struct json *from)
{
    if (json_type(from) != JSON_OBJECT)
        return fail_here(r, "<< in this mapping needs a mapping or a list of mappings");
    for (struct json_it it = {0}; json_next(from, &it);) {
        size_t weight = 0, depth = 0;
        if (json_has(to, it.key))
            continue;
        measure(it.val, 0, &weight, &depth);
        if (count_copy(r, weight) < 0)
            return -1;
        json_set_take(to, it.key, json_copy(it.val));
    }
    return 0;
}

static int merge(struct reader *r, struct json *to, const struct json *from)
{
    if (json_type(from) != JSON_ARRAY)
        return merge_one(r, to, from);
    for (size_t i = 0; i < json_len(from); i++) {
        if (merge_one(r, to, json_at(from, i)) < 0)
            return -1;
    }
    return 0;
}

/* ---- collections ---- */

static int read_items(struct reader *r, struct json *array)
{
    for (;;) {
        struct json *val;
        if (advance(r) < 0)
            return -1;
        if (r->event->type == FYET_SEQUENCE_END)
            return 0;
        if (read_value(r, &val) < 0)
            return -1;
        json_push_take(array, val);
    }
}

static int read_key(struct reader *r, char **out, bool *is_merge)
{
    struct fy_event *ev = r->event;

    if (ev->type == FYET_ALIAS) {
        struct json *val = NULL;
        if (alias_value(r, &val) < 0)
            return -1;
        bool text = json_type(val) == JSON_STR && strlen(json_str(val).p) == json_str(val).n;
        if (text)
            *out = xstrdup(json_str(val).p);
        json_free(val);
        return text ? 0 : fail_here(r, "a key must be text, not a list or mapping");
    }
    if (ev->type != FYET_SCALAR)
        return fail_here(r, "a key must be text, not a list or mapping");
    struct str s;
    if (scalar_text(r, &s) || (s.n > 0 && memchr(s.p, '\0', s.n)))
        return fail_here(r, "a key must be valid UTF-8 without NUL");
    *is_merge = str_eq_c(s, "<<") && fy_token_scalar_style(ev->scalar.value) == FYSS_PLAIN;
    struct str anchor = token_text(ev->scalar.anchor);
    if (anchor.n > 0) {
        struct json *val = json_new_str(s);
        int rc = remember(r, anchor, val);
        json_free(val);
        if (rc < 0)
            return -1;
    }
    *out = xstrndup(s.p, s.n);
    return 0;
}

/* One key with its value; the value of "<<" goes to *merged. */
static int read_pair(struct reader *r, struct json *obj, struct json **merged)
{
    AUTO_FREE char *key = NULL;
    bool is_merge = false;
    struct json *val;

    if (read_key(r, &key, &is_merge) < 0)
        return -1;
    if (is_merge ? *merged != NULL : json_has(obj, key)) {
        char what[128];
        snprintf(what, sizeof(what), "key \"%.80s\" is given twice in this mapping", key);
        return fail_here(r, what);
    }
    if (advance(r) < 0 || read_value(r, &val) < 0)
        return -1;
    if (!is_merge) {
        json_set_take(obj, key, val);
        return 0;
    }
    if (!val)
        return fail_here(r, "<< in this mapping needs a mapping or a list of mappings");
    *merged = val;
    return 0;
}

static int read_pairs(struct reader *r, struct json *obj)
{
    struct json *merged = NULL;
    int rc;

    for (;;) {
        rc = advance(r);
        if (rc < 0 || r->event->type == FYET_MAPPING_END)
            break;
        rc = read_pair(r, obj, &merged);
        if (rc < 0)
            break;
    }
    if (rc == 0 && merged)
        rc = merge(r, obj, merged);
    json_free(merged);
    return rc;
}

static int check_collection_tag(struct reader *r, struct fy_token *token, const char *known)
{
    struct str tag = token_text(token);

    if (tag.n == 0 || str_eq_c(tag, known) || str_eq_c(tag, "!"))
        return 0;
    return fail_here(r, "this tag is not known here");
}

static int read_collection(struct reader *r, struct json **out)
{
    bool mapping = r->event->type == FYET_MAPPING_START;
    struct fy_token *tag = mapping ? r->event->mapping_start.tag : r->event->sequence_start.tag;

    if (check_collection_tag(r, tag, mapping ? "tag:yaml.org,2002:map" : "tag:yaml.org,2002:seq") <
        0)
        return -1;
    if (++r->depth > JSON_DEPTH_MAX)
        return fail_here_code(r, ERR_LIMIT, "lists and mappings are nested deeper than 64 levels");
    struct json *made = mapping ? json_new_object() : json_new_array();
    if ((mapping ? read_pairs(r, made) : read_items(r, made)) < 0) {
        json_free(made);
        return -1;
    }
    r->depth--;
    *out = made;
    return 0;
}

static struct fy_token *anchor_of(const struct fy_event *ev)
{
    switch (ev->type) {
    case FYET_SCALAR:
        return ev->scalar.anchor;
    case FYET_SEQUENCE_START:
        return ev->sequence_start.anchor;
    case FYET_MAPPING_START:
        return ev->mapping_start.anchor;
    default:
        return NULL;
    }
}

/* The value that starts at the current event; afterwards the current event is its last. */
static int read_value(struct reader *r, struct json **out)
{
    struct str anchor = token_text(anchor_of(r->event));
    AUTO_FREE char *name = anchor.n > 0 ? xstrndup(anchor.p, anchor.n) : NULL;
    int rc;

    *out = NULL;
    switch (r->event->type) {
    case FYET_SCALAR:
        rc = scalar_value(r, out);
        break;
    case FYET_ALIAS:
        rc = alias_value(r, out);
        break;
    case FYET_SEQUENCE_START:
    case FYET_MAPPING_START:
        rc = read_collection(r, out);
        break;
    default:
        rc = fail_here(r, "a value is expected here");
    }
    if (rc == 0 && name)
        rc = remember(r, str_of(name), *out);
    if (rc < 0)
        json_free(TAKE(*out));
    return rc;
}

static int read_document(struct reader *r, struct json **out)
{
    *out = NULL;
    if (advance(r) < 0)
        return -1;
    if (r->event->type == FYET_STREAM_START && advance(r) < 0)
        return -1;
    if (r->event->type == FYET_STREAM_END)
        return 0;
    if (r->event->type != FYET_DOCUMENT_START)
        return fail_here(r, "a document is expected here");
    if (advance(r) < 0 || read_value(r, out) < 0)
        return -1;
    if (advance(r) < 0)
        return -1;
    if (r->event->type != FYET_DOCUMENT_END)
        return fail_here(r, "the end of the document is expected here");
    if (advance(r) < 0)
        return -1;
    if (r->event->type != FYET_STREAM_END)
        return fail_here(r, "a second document starts here: put it in a file of its own");
    return 0;
}

static void quiet(struct fy_diag *diag, void *user, const char *buf, size_t len)
{
    (void)diag, (void)user, (void)buf, (void)len;
}

static int reader_open(struct reader *r, struct str text)
{
    struct fy_diag_cfg diag_cfg;

    fy_diag_cfg_default(&diag_cfg);
    diag_cfg.fp = NULL;
    diag_cfg.output_fn = quiet;
    diag_cfg.level = FYET_ERROR;
    r->diag = fy_diag_create(&diag_cfg);
    ASSERT(r->diag != NULL);
    fy_diag_set_collect_errors(r->diag, true);
    struct fy_parse_cfg cfg = {
        .flags = FYPCF_JSON_NONE | FYPCF_DEFAULT_VERSION_1_2 | FYPCF_SLOPPY_FLOW_INDENTATION |
                 FYPCF_COLLECT_DIAG,
        .diag = r->diag,
    };
    r->fyp = fy_parser_create(&cfg);
    ASSERT(r->fyp != NULL);
    if (fy_parser_set_string(r->fyp, text.p, text.n) < 0)
        return fail_syntax(r);
    return 0;
}

static void reader_done(struct reader *r)
{
    size_t it = 0;
    struct str name;
    void *val;

    while (map_str_next(&r->anchors, &it, &name, &val)) {
        struct anchor *a = val;
        json_free(a->val);
        free(a);
    }
    map_str_done(&r->anchors);
    buf_done(&r->text);
    fy_parser_event_free(r->fyp, r->event);
    fy_parser_destroy(r->fyp);
    fy_diag_destroy(r->diag);
}

static int refuse_text(struct str text, size_t at, const char *name, enum err_code code,
                       const char *what, struct err *e)
{
    AUTO(buf) struct buf place = {0};

    json_place(text, at, name ? name : "text", &place);
    return err_set(e, code, "%s%s", place.p, what);
}

/* A line ends here, in YAML 1.2 or in the 1.1 a file may ask for. */
static bool is_break(uint32_t cp)
{
    return cp == '\n' || cp == '\r' || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

/* What must not reach libfyaml: it would guess other encodings by their byte order marks, and
 * spend minutes on thousands of blank lines. */
static int check_text(struct str text, const char *name, struct err *e)
{
    size_t blank = 0;
    bool empty = true; /* nothing but spaces in this line so far */
    uint32_t cp;

    if (text.n > BYTES_MAX)
        return refuse_text(text, 0, name, ERR_LIMIT,
                           "YAML is read up to 8 MiB: write larger files as JSON", e);
    for (size_t i = 0; i < text.n;) {
        size_t n = utf8_decode((struct str){text.p + i, text.n - i}, &cp);
        if (n == 0)
            return refuse_text(text, i, name, ERR_INVALID,
                               "this is not UTF-8: save the file as UTF-8", e);
        bool crlf = cp == '\r' && i + 1 < text.n && text.p[i + 1] == '\n';
        if (is_break(cp) && !crlf) {
            blank = empty ? blank + 1 : 0;
            empty = true;
            if (blank > BLANK_MAX)
                return refuse_text(text, i, name, ERR_LIMIT,
                                   "more than 100 blank lines in a row: remove some", e);
        } else if (cp != ' ' && cp != '\t' && !crlf) {
            empty = false;
        }
        i += n;
    }
    return 0;
}

static int parse(struct str text, const char *name,
                 const char *(*plain)(struct str s, struct json **out), struct json **out,
                 struct err *e)
{
    struct reader r = {.source = text, .name = name, .plain = plain, .e = e};
    struct json *val = NULL;

    if (check_text(text, name, e) < 0)
        return -1;
    if (text.n == 0) {
        *out = NULL;
        return 0;
    }
    int rc = reader_open(&r, text);
    if (rc == 0)
        rc = read_document(&r, &val);
    reader_done(&r);
    if (rc < 0)
        json_free(val);
    else
        *out = val;
    return rc;
}

int yaml_parse(struct str text, const char *name, struct json **out, struct err *e)
{
    return parse(text, name, yaml_plain, out, e);
}

int yaml_parse_11(struct str text, const char *name, struct json **out, struct err *e)
{
    return parse(text, name, yaml_plain_11, out, e);
}

/* yaml.c - YAML files into the json tree, over libyaml's event parser
 *
 * Owns: anchors, merge keys, repeated keys, the limits and the places in messages.  What a scalar
 * means is in yaml_scalar.c.  libyaml reads the syntax; its document builder is not used because
 * it accepts repeated keys and knows neither merge keys nor a limit.
 *
 * An alias is a copy of its anchor's tree.  All copies of a file together may weigh COPY_MAX:
 * a value weighs 1, and 1 more for each WEIGHT_BYTES of its text.  The value of "<<" (a mapping or
 * a list of mappings) adds the keys that the mapping does not have itself.  Keys are text as
 * written: 1 and "1" are the same key.
 */
#include "base/json_priv.h"
#include "base/map.h"
#include "base/util.h"
#include "base/vec.h"
#include "base/yaml_priv.h"
#include <ctype.h>
#include <yaml.h>

/* TAG_LINES_MAX: libyaml compares each %TAG line with all before it; 200000 of them take minutes.
 */
enum { COPY_MAX = 1000000, WEIGHT_BYTES = 32, BYTES_MAX = 8 << 20, TAG_LINES_MAX = 100 };

struct reader {
    yaml_parser_t parser;
    yaml_event_t event;     /* the current one */
    struct map_str anchors; /* name → struct anchor */
    struct str source;      /* what the parser reads: the text without its byte order mark */
    struct buf masked;      /* the source's memory when it has masked surrogate pairs */
    struct buf text;        /* the current scalar with its surrogate pairs restored */
    size_t copied;
    unsigned depth;
    const char *name;
    const char *(*plain)(struct str s, struct json **out); /* what an unquoted scalar means */
    struct err *e;
};

struct anchor {
    struct json *val;
    size_t weight, depth; /* of val: measured once, used at each alias */
};

static int yaml_read_value(struct reader *r, struct json **out);

static int yaml_fail_at(struct reader *r, size_t line, size_t column, enum err_code code,
                        const char *what)
{
    return err_set(r->e, code, "%s:%zu:%zu: %s", r->name, line + 1, column + 1, what);
}

/* libyaml places a value at its tag or anchor.  A message about the value points behind them. */
static yaml_mark_t skip_properties(struct str source, yaml_mark_t at)
{
    size_t i = 0;
    uint32_t cp;

    for (size_t k = 0; k < at.index && i < source.n; k++) /* the index counts characters */
        i += MAX(1, utf8_decode((struct str){source.p + i, source.n - i}, &cp));
    while (i < source.n && (source.p[i] == '!' || source.p[i] == '&')) {
        yaml_mark_t next = at;
        for (; i < source.n && !strchr(" \t\r\n,]}", source.p[i]); i++)
            next.column += ((unsigned char)source.p[i] & 0xC0) != 0x80;
        for (; i < source.n && (source.p[i] == ' ' || source.p[i] == '\t'); i++)
            next.column++;
        if (i == source.n || strchr("\r\n#", source.p[i]))
            break; /* the value starts in another line, or there is none */
        at = next;
    }
    return at;
}

static int yaml_fail_code(struct reader *r, enum err_code code, const char *what)
{
    yaml_mark_t at = skip_properties(r->source, r->event.start_mark);

    return yaml_fail_at(r, at.line, at.column, code, what);
}

static int yaml_fail(struct reader *r, const char *what)
{
    return yaml_fail_code(r, ERR_INVALID, what);
}

static int yaml_fail_byte(struct str text, size_t at, const char *name, enum err_code code,
                          const char *what, struct err *e)
{
    AUTO(buf) struct buf place = {0};

    json_place(text, at, name, &place);
    return err_set(e, code, "%s%s", place.p, what);
}

/* libyaml knows the place of a byte it cannot read by its offset, of wrong syntax by its line. */
static int yaml_fail_syntax(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const char *what = p->problem ? p->problem : "this is not YAML";

    if (p->error == YAML_READER_ERROR)
        return yaml_fail_byte(r->source, p->problem_offset, r->name, ERR_INVALID, what, r->e);
    return yaml_fail_at(r, p->problem_mark.line, p->problem_mark.column, ERR_INVALID, what);
}

/* Moves to the next event; the event before, and all text borrowed from it, is freed. */
static int yaml_advance(struct reader *r)
{
    yaml_event_delete(&r->event);
    return yaml_parser_parse(&r->parser, &r->event) ? 0 : yaml_fail_syntax(r);
}

/* The text of the current scalar, borrowed until the next one.  NULL, or what is wrong with it. */
static const char *yaml_scalar_text(struct reader *r, struct str *out)
{
    *out = (struct str){(const char *)r->event.data.scalar.value, r->event.data.scalar.length};
    if (r->masked.n == 0)
        return NULL;
    buf_reset(&r->text);
    const char *why = yaml_pairs_restore(*out, &r->text);
    *out = buf_str(&r->text);
    return why;
}

static int scalar_value(struct reader *r, struct json **out)
{
    const char *tag = (const char *)r->event.data.scalar.tag;
    struct str s;
    const char *why = yaml_scalar_text(r, &s);

    if (why)
        return yaml_fail(r, why);
    if (tag)
        why = yaml_tagged(str_of(tag), s, out);
    else if (r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        why = r->plain(s, out);
    else
        *out = json_new_str(s);
    return why ? yaml_fail(r, why) : 0;
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
        return yaml_fail_code(r, ERR_LIMIT,
                              "aliases expand to more than 1000000 values or 32 MiB of text");
    return 0;
}

static int yaml_remember_anchor(struct reader *r, struct str name, const struct json *val)
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
    struct str name = str_of((const char *)r->event.data.alias.anchor);
    const struct anchor *a = map_str_get(&r->anchors, name);

    if (!a) {
        char what[128];
        snprintf(what, sizeof(what), "alias *%.*s names no anchor that is complete before it",
                 (int)MIN(name.n, 60), name.p);
        return yaml_fail(r, what);
    }
    if (a->depth + r->depth > JSON_DEPTH_MAX)
        return yaml_fail_code(r, ERR_LIMIT, "lists and mappings are nested deeper than 64 levels");
    if (count_copy(r, a->weight) < 0)
        return -1;
    *out = json_copy(a->val);
    return 0;
}

/* Adds the keys of `from` that `to` lacks; both belong to the caller. */
static int merge_one(struct reader *r, struct json *to, const struct json *from)
{
    if (json_type(from) != JSON_OBJECT)
        return yaml_fail(r, "<< in this mapping needs a mapping or a list of mappings");
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

/* In a list of mappings an earlier one wins, because merge_one adds only missing keys. */
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
        if (yaml_advance(r) < 0)
            return -1;
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        if (yaml_read_value(r, &val) < 0)
            return -1;
        json_push_take(array, val);
    }
}

static int yaml_read_key(struct reader *r, char **out, bool *is_merge)
{
    if (r->event.type == YAML_ALIAS_EVENT) {
        struct json *val = NULL;
        if (alias_value(r, &val) < 0)
            return -1;
        bool text = json_type(val) == JSON_STR && strlen(json_str(val).p) == json_str(val).n;
        if (text)
            *out = xstrdup(json_str(val).p);
        json_free(val);
        return text ? 0 : yaml_fail(r, "a key must be text, not a list or mapping");
    }
    if (r->event.type != YAML_SCALAR_EVENT)
        return yaml_fail(r, "a key must be text, not a list or mapping");
    struct str s;
    if (yaml_scalar_text(r, &s) || (s.n > 0 && memchr(s.p, '\0', s.n)))
        return yaml_fail(r, "a key must be valid UTF-8 without NUL");
    *is_merge = str_eq_c(s, "<<") && r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    const char *anchor = (const char *)r->event.data.scalar.anchor;
    if (anchor) {
        struct json *val = json_new_str(s);
        int rc = yaml_remember_anchor(r, str_of(anchor), val);
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

    if (yaml_read_key(r, &key, &is_merge) < 0)
        return -1;
    if (is_merge ? *merged != NULL : json_has(obj, key)) {
        char what[128];
        snprintf(what, sizeof(what), "key \"%.80s\" is given twice in this mapping", key);
        return yaml_fail(r, what);
    }
    if (yaml_advance(r) < 0 || yaml_read_value(r, &val) < 0)
        return -1;
    if (!is_merge) {
        json_set_take(obj, key, val);
        return 0;
    }
    if (!val)
        return yaml_fail(r, "<< in this mapping needs a mapping or a list of mappings");
    *merged = val;
    return 0;
}

static int read_pairs(struct reader *r, struct json *obj)
{
    AUTO(json) struct json *merged = NULL;
    int rc;

    for (;;) {
        rc = yaml_advance(r);
        if (rc < 0 || r->event.type == YAML_MAPPING_END_EVENT)
            break;
        rc = read_pair(r, obj, &merged);
        if (rc < 0)
            break;
    }
    /* Merging waits for the end of the mapping: its own keys win, wherever "<<" stands among
     * them. */
    if (rc == 0 && merged)
        rc = merge(r, obj, merged);
    return rc;
}

/* "!" says "by its form", which for a list or mapping is what it is anyway. */
static int check_collection_tag(struct reader *r, const char *tag, const char *known)
{
    if (!tag || !strcmp(tag, known) || !strcmp(tag, "!"))
        return 0;
    return yaml_fail(r, "this tag is not known here");
}

static int read_collection(struct reader *r, struct json **out)
{
    bool mapping = r->event.type == YAML_MAPPING_START_EVENT;
    const yaml_char_t *tag =
        mapping ? r->event.data.mapping_start.tag : r->event.data.sequence_start.tag;

    if (check_collection_tag(r, (const char *)tag,
                             mapping ? "tag:yaml.org,2002:map" : "tag:yaml.org,2002:seq") < 0)
        return -1;
    if (++r->depth > JSON_DEPTH_MAX)
        return yaml_fail_code(r, ERR_LIMIT, "lists and mappings are nested deeper than 64 levels");
    struct json *made = mapping ? json_new_object() : json_new_array();
    if ((mapping ? read_pairs(r, made) : read_items(r, made)) < 0) {
        json_free(made);
        return -1;
    }
    r->depth--;
    *out = made;
    return 0;
}

static const char *anchor_of(const yaml_event_t *ev)
{
    switch (ev->type) {
    case YAML_SCALAR_EVENT:
        return (const char *)ev->data.scalar.anchor;
    case YAML_SEQUENCE_START_EVENT:
        return (const char *)ev->data.sequence_start.anchor;
    case YAML_MAPPING_START_EVENT:
        return (const char *)ev->data.mapping_start.anchor;
    default:
        return NULL;
    }
}

/* The value that starts at the current event; afterwards the current event is its last. */
static int yaml_read_value(struct reader *r, struct json **out)
{
    const char *anchor = anchor_of(&r->event);
    /* The name is copied because reading the value frees the event that holds it. */
    AUTO_FREE char *name = anchor ? xstrdup(anchor) : NULL;
    int rc;

    *out = NULL;
    switch (r->event.type) {
    case YAML_SCALAR_EVENT:
        rc = scalar_value(r, out);
        break;
    case YAML_ALIAS_EVENT:
        rc = alias_value(r, out);
        break;
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        rc = read_collection(r, out);
        break;
    default:
        rc = yaml_fail(r, "a value is expected here");
    }
    if (rc == 0 && name)
        rc = yaml_remember_anchor(r, str_of(name), *out);
    if (rc < 0)
        json_free(TAKE(*out));
    return rc;
}

/* An empty file is one document with the value null. */
static int read_document(struct reader *r, struct json **out)
{
    *out = NULL;
    if (yaml_advance(r) < 0)
        return -1;
    if (r->event.type == YAML_STREAM_START_EVENT && yaml_advance(r) < 0)
        return -1;
    if (r->event.type == YAML_STREAM_END_EVENT)
        return 0;
    if (r->event.type != YAML_DOCUMENT_START_EVENT)
        return yaml_fail(r, "a document is expected here");
    if (yaml_advance(r) < 0 || yaml_read_value(r, out) < 0)
        return -1;
    if (yaml_advance(r) < 0)
        return -1;
    if (r->event.type != YAML_DOCUMENT_END_EVENT)
        return yaml_fail(r, "the end of the document is expected here");
    if (yaml_advance(r) < 0)
        return -1;
    if (r->event.type != YAML_STREAM_END_EVENT)
        return yaml_fail(r, "a second document starts here: put it in a file of its own");
    return 0;
}

static void reader_open(struct reader *r, struct str text)
{
    if (str_starts(text, STR("\xEF\xBB\xBF")))
        text = (struct str){text.p + 3, text.n - 3};
    r->source = yaml_pairs_mask(text, &r->masked) ? buf_str(&r->masked) : text;
    ASSERT(yaml_parser_initialize(&r->parser)); /* fails only for want of memory */
    yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)r->source.p, r->source.n);
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
    buf_done(&r->masked);
    buf_done(&r->text);
    yaml_event_delete(&r->event);
    yaml_parser_delete(&r->parser);
}

/* Refuses what libyaml must not get: other encodings, which it would guess, and what takes long. */
static int yaml_check_text(struct str text, const char *name, struct err *e)
{
    size_t tag_lines = 0;
    uint32_t cp;

    if (text.n > BYTES_MAX)
        return yaml_fail_byte(text, 0, name, ERR_LIMIT,
                              "YAML is read up to 8 MiB: write larger files as JSON", e);
    for (size_t i = 0, n; i < text.n; i += n) {
        n = utf8_decode((struct str){text.p + i, text.n - i}, &cp);
        if (n == 0)
            return yaml_fail_byte(text, i, name, ERR_INVALID,
                                  "this is not UTF-8: save the file as UTF-8", e);
        if (cp == '%' && (i == 0 || !isprint((unsigned char)text.p[i - 1])) &&
            str_starts((struct str){text.p + i, text.n - i}, STR("%TAG")) &&
            ++tag_lines > TAG_LINES_MAX)
            return yaml_fail_byte(text, i, name, ERR_LIMIT,
                                  "more than 100 %TAG lines: write tags in full", e);
    }
    return 0;
}

static int yaml_parse_text(struct str text, const char *name,
                           const char *(*plain)(struct str s, struct json **out), struct json **out,
                           struct err *e)
{
    struct reader r = {.name = name ? name : "text", .plain = plain, .e = e};
    struct json *val = NULL;

    if (yaml_check_text(text, r.name, e) < 0)
        return -1;
    reader_open(&r, text);
    int rc = read_document(&r, &val);
    reader_done(&r);
    if (rc < 0)
        json_free(val);
    else
        *out = val;
    return rc;
}

int yaml_parse(struct str text, const char *name, struct json **out, struct err *e)
{
    return yaml_parse_text(text, name, yaml_plain, out, e);
}

int yaml_parse_11(struct str text, const char *name, struct json **out, struct err *e)
{
    return yaml_parse_text(text, name, yaml_plain_11, out, e);
}

/* node_conf.c - see node_conf.h */
#include "backend/node_conf.h"
#include "base/units.h"
#include "base/util.h"
#include <string.h>

/* A url without a scheme is a name that ssh knows, from ~/.ssh/config or the DNS. */
#define DEFAULT_SCHEME "ssh"

static const struct conf_key common_keys[] = {
    {"url", NULL, CONF_TEXT, 1000, CONF_RECORDED},
    {"name", NULL, CONF_TEXT, 63, CONF_RECORDED},
    {"slots", NULL, CONF_COUNT, 1000000, CONF_RECORDED},
    {"cpus", "mcpu", CONF_CPUS, INT64_C(1000000) * 1000, CONF_RECORDED},
    {"mem", "mem_bytes", CONF_SIZE, INT64_C(1) << 50, CONF_RECORDED},
    {"gpus", NULL, CONF_COUNT, NODE_MAX_GPUS, CONF_RECORDED},
    {"reserved", NULL, CONF_BOOL, 0, CONF_RECORDED},
    {"recorded", NULL, CONF_BOOL, 0, CONF_RECORDED},
};
enum { NAMES_MAX = 64 };

/* ---- the url ---- */

const struct backend_class *node_conf_class(struct str url)
{
    struct str rest, scheme = str_cut(url, ':', &rest);
    AUTO_FREE char *name = xstrndup(scheme.p, scheme.n);
    const struct backend_class *cls = str_starts(rest, STR("//")) ? backend_find(name) : NULL;

    return cls && cls->by_url ? cls : NULL;
}

static char *url_with_scheme(struct str url)
{
    bool has_scheme = memmem(url.p, url.n, "://", 3) != NULL;

    return xasprintf("%s" STR_FMT, has_scheme ? "" : DEFAULT_SCHEME "://", STR_ARG(url));
}

/* "gpu7" of ssh://ada@gpu7:2222: the part between user and port. */
static struct str url_host(struct str url)
{
    struct str rest, host;

    str_cut(url, ':', &rest);
    while (rest.n && rest.p[0] == '/')
        rest = (struct str){rest.p + 1, rest.n - 1};
    const char *at = rest.n ? memrchr(rest.p, '@', rest.n) : NULL;
    if (at)
        rest = (struct str){at + 1, rest.n - (size_t)(at + 1 - rest.p)};
    if (rest.n && rest.p[0] == '[')
        return str_cut((struct str){rest.p + 1, rest.n - 1}, ']', &host);
    host = str_cut(rest, '/', &rest);
    return str_cut(host, ':', &rest);
}

/* ---- one key ---- */

/* The i-th key that a node of this class knows; NULL after the last one. */
static const struct conf_key *key_at(const struct backend_class *cls, size_t i)
{
    if (i < ARRAY_SIZE(common_keys))
        return &common_keys[i];
    i -= ARRAY_SIZE(common_keys);
    return i < cls->n_keys ? &cls->keys[i] : NULL;
}

/* NULL with an error that suggests the nearest name. */
static const struct conf_key *key_find(const struct backend_class *cls, const char *name,
                                       struct err *e)
{
    const char *names[NAMES_MAX], *near;
    const struct conf_key *k;
    size_t n = 0;

    for (size_t i = 0; (k = key_at(cls, i)); i++) {
        if (!strcmp(k->name, name))
            return k;
        if (n < NAMES_MAX)
            names[n++] = k->name;
    }
    near = str_nearest(name, names, n);
    err_set(e, ERR_INVALID, "%.60s: unknown key%s%s%s", name, near ? "; did you mean \"" : "",
            near ? near : "", near ? "\"?" : "");
    return NULL;
}

static int read_text(const struct conf_key *k, const struct json *v, struct json *out,
                     struct err *e)
{
    struct str s = json_type(v) == JSON_STR ? json_str(v) : STR("");

    if (!s.n || s.n > (size_t)k->max || memchr(s.p, '\0', s.n))
        return err_set(e, ERR_INVALID, "%s: must be a text of 1 to %lld bytes", k->name,
                       (long long)k->max);
    json_set_take(out, k->name, json_new_str(s));
    return 0;
}

/* CPUs are stored in thousandths, sizes in bytes; both may be given as text with a unit. */
static int read_amount(const struct conf_key *k, const struct json *v, struct json *out,
                       struct err *e)
{
    int64_t n = json_type(v) == JSON_INT ? json_int(v) : -1;

    if (k->kind == CONF_CPUS && (json_type(v) == JSON_INT || json_type(v) == JSON_REAL))
        n = (int64_t)(MIN(json_real(v), 1e9) * 1000);
    if (json_type(v) == JSON_STR && k->kind == CONF_SIZE && size_parse(json_str(v), &n, e) < 0)
        return err_wrap(e, "%s", k->name);
    if (json_type(v) == JSON_STR && k->kind == CONF_CPUS && cpus_parse(json_str(v), &n, e) < 0)
        return err_wrap(e, "%s", k->name);
    if (n < 0 || n > k->max)
        return err_set(e, ERR_INVALID, "%s: must be a number from 0 to %lld", k->name,
                       (long long)(k->kind == CONF_CPUS ? k->max / 1000 : k->max));
    json_set_int(out, k->as ? k->as : k->name, n);
    return 0;
}

enum { TEXTS_MAX = 1000 };

static int read_texts(const struct conf_key *k, const struct json *v, struct json *out,
                      struct err *e)
{
    if (json_type(v) != JSON_ARRAY || json_len(v) > TEXTS_MAX)
        return err_set(e, ERR_INVALID, "%s: must be a list of at most %d texts", k->name,
                       TEXTS_MAX);
    for (size_t i = 0; i < json_len(v); i++) {
        AUTO(json) struct json *one = json_new_object();
        if (read_text(k, json_at(v, i), one, e) < 0)
            return -1;
    }
    json_set_take(out, k->name, json_copy(v));
    return 0;
}

static int read_key(const struct conf_key *k, const struct json *v, struct json *out, struct err *e)
{
    if (k->kind == CONF_TEXT)
        return read_text(k, v, out, e);
    if (k->kind == CONF_TEXTS)
        return read_texts(k, v, out, e);
    if (k->kind != CONF_BOOL)
        return read_amount(k, v, out, e);
    if (json_type(v) != JSON_BOOL)
        return err_set(e, ERR_INVALID, "%s: must be true or false", k->name);
    json_set_take(out, k->name, json_new_bool(json_bool(v)));
    return 0;
}

/* ---- all of them ---- */

/* The store keeps the settings of a recorded node as text, so secrets have no place there. */
static int check_recorded(const struct backend_class *cls, const struct json *conf, struct err *e)
{
    const struct json *recorded = json_get(conf, "recorded");
    const struct conf_key *k;

    if (recorded && !json_bool(recorded))
        return 0;
    for (size_t i = 0; (k = key_at(cls, i)); i++)
        if (k->keep != CONF_RECORDED && json_get(conf, k->name))
            return err_set(
                e, ERR_INVALID,
                "%s: the record of a node cannot hold %s; use a key or an SSH agent, or add "
                "the node with \"recorded\": false, which lasts until the daemon exits",
                k->name, k->keep == CONF_SECRET ? "secrets" : "this key");
    return 0;
}

/* The url is read first, because its scheme decides which other keys exist. */
static int read_keys(const struct json *said, struct json *out, struct err *e)
{
    const struct json *given = json_get(said, "url");

    if (json_type(said) != JSON_OBJECT || !given)
        return err_set(e, ERR_INVALID,
                       "the body must be an object with a url: {\"url\":\"ssh://user@host\"}");
    if (read_text(&common_keys[0], given, out, e) < 0)
        return -1;
    AUTO_FREE char *url = url_with_scheme(json_str(given));
    const struct backend_class *cls = node_conf_class(str_of(url));
    if (!cls)
        return err_set(e, ERR_INVALID,
                       "'%.100s' is not the address of a node; write ssh://user@host", url);
    for (struct json_it it = {0}; json_next(said, &it);) {
        const struct conf_key *k = key_find(cls, it.key, e);
        if (!k || (it.val && read_key(k, it.val, out, e) < 0))
            return -1;
    }
    json_set_str(out, "url", url);
    if (!json_get(out, "name"))
        json_set_take(out, "name", json_new_str(url_host(str_of(url))));
    return check_recorded(cls, out, e);
}

int node_conf_read(const struct json *said, struct json **out, struct err *e)
{
    AUTO(json) struct json *conf = json_new_object();

    if (read_keys(said, conf, e) < 0)
        return -1;
    *out = TAKE(conf);
    return 0;
}

/* node_add.c - POST /v1/nodes and DELETE /v1/nodes/{name}
 *
 * The body of an added node, and what of it is recorded: {"url":"ssh://user@host:22"} with name,
 * slots, cpus, mem, gpus, identity, known_hosts, host_key, accept_new, connect_timeout and reserved
 * as the caller likes.  Secrets have no place in it, unless the caller wants it not to be recorded:
 * such a node is known until the daemon ends.  The answer comes before anybody knows whether it can
 * be reached: its `state`, `trouble` and `retry_in_ms` tell.
 */
#include "api/api_priv.h"
#include "base/json.h"
#include "base/units.h"

/* Keys a caller may give, and what a backend is told; "" = the same. */
enum add_kind { ADD_TEXT, ADD_COUNT, ADD_CPUS, ADD_SIZE, ADD_BOOL };
static const struct add_key {
    const char *name, *as;
    enum add_kind kind;
    int64_t max;
    bool fleeting; /* only for nodes that are not recorded */
} add_keys[] = {
    {"url", "", ADD_TEXT, 1000, false},
    {"name", "", ADD_TEXT, 63, false},
    {"slots", "", ADD_COUNT, 1000000, false},
    {"cpus", "mcpu", ADD_CPUS, INT64_C(1000000) * 1000, false},
    {"mem", "mem_bytes", ADD_SIZE, INT64_C(1) << 50, false},
    {"gpus", "", ADD_COUNT, NODE_MAX_GPUS, false},
    {"identity", "", ADD_TEXT, 4095, false},
    {"known_hosts", "", ADD_TEXT, 4095, false},
    {"host_key", "", ADD_TEXT, 4095, false},
    {"accept_new", "", ADD_BOOL, 0, false},
    {"connect_timeout", "", ADD_COUNT, 86400, false},
    {"reserved", "", ADD_BOOL, 0, false},
    {"recorded", "", ADD_BOOL, 0, false},
    {"port", "", ADD_COUNT, 65535, true},
    {"password", "", ADD_TEXT, 4095, true},
    {"passphrase", "", ADD_TEXT, 4095, true},
    {"agent", "", ADD_TEXT, 4095, true},
    {"stage_root", "", ADD_TEXT, 4095, true},
    {"python_path", "", ADD_TEXT, 4095, true},
    {"transient", "", ADD_BOOL, 0, true},
};

static int unknown_key(const char *key, struct err *e)
{
    const char *names[ARRAY_SIZE(add_keys)], *near;

    for (size_t i = 0; i < ARRAY_SIZE(add_keys); i++)
        names[i] = add_keys[i].name;
    near = str_nearest(key, names, ARRAY_SIZE(names));
    return err_set(e, ERR_INVALID, "%.60s: unknown key%s%s%s", key, near ? "; did you mean \"" : "",
                   near ? near : "", near ? "\"?" : "");
}

static int node_read_text(const struct add_key *k, const struct json *v, struct json *out,
                          struct err *e)
{
    struct str s = json_type(v) == JSON_STR ? json_str(v) : STR("");

    if (!s.n || s.n > (size_t)k->max || memchr(s.p, '\0', s.n))
        return err_set(e, ERR_INVALID, "%s: must be a text of 1 to %lld bytes", k->name,
                       (long long)k->max);
    json_set_take(out, k->name, json_new_str(s));
    return 0;
}

static int read_amount(const struct add_key *k, const struct json *v, struct json *out,
                       struct err *e)
{
    int64_t n = json_type(v) == JSON_INT ? json_int(v) : -1;

    if (k->kind == ADD_CPUS && (json_type(v) == JSON_INT || json_type(v) == JSON_REAL))
        n = (int64_t)(MIN(json_real(v), 1e9) * 1000);
    if (json_type(v) == JSON_STR && k->kind == ADD_SIZE && size_parse(json_str(v), &n, e) < 0)
        return err_wrap(e, "%s", k->name);
    if (json_type(v) == JSON_STR && k->kind == ADD_CPUS && cpus_parse(json_str(v), &n, e) < 0)
        return err_wrap(e, "%s", k->name);
    if (n < 0 || n > k->max)
        return err_set(e, ERR_INVALID, "%s: must be a number from 0 to %lld", k->name,
                       (long long)(k->kind == ADD_CPUS ? k->max / 1000 : k->max));
    json_set_int(out, k->as[0] ? k->as : k->name, n);
    return 0;
}

static int read_member(const char *key, const struct json *v, struct json *out, struct err *e)
{
    const struct add_key *k = NULL;

    for (size_t i = 0; !k && i < ARRAY_SIZE(add_keys); i++)
        if (!strcmp(add_keys[i].name, key))
            k = &add_keys[i];
    if (!k)
        return unknown_key(key, e);
    if (!v)
        return 0;
    if (k->kind == ADD_TEXT)
        return node_read_text(k, v, out, e);
    if (k->kind != ADD_BOOL)
        return read_amount(k, v, out, e);
    if (json_type(v) != JSON_BOOL)
        return err_set(e, ERR_INVALID, "%s: must be true or false", key);
    json_set_take(out, key, json_new_bool(json_bool(v)));
    return 0;
}

/* "gpu7" of ssh://ada@gpu7:2222: what stands between user and port. */
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

static int check_fleeting(const struct json *conf, struct err *e)
{
    const struct json *recorded = json_get(conf, "recorded");

    for (size_t i = 0; i < ARRAY_SIZE(add_keys); i++)
        if (add_keys[i].fleeting && json_get(conf, add_keys[i].name) &&
            (!recorded || json_bool(recorded)))
            return err_set(
                e, ERR_INVALID,
                "%s: the record of a node cannot hold %s; use a key or an SSH agent, or add "
                "the node with \"recorded\": false, which lasts until the daemon exits",
                add_keys[i].name, strncmp(add_keys[i].name, "pass", 4) ? "this key" : "secrets");
    return 0;
}

/* Reads the body into `out`, an empty object. */
static int node_read_body(struct call *c, struct json *out)
{
    AUTO(json) struct json *j = call_json_body(c);

    if (!j)
        return -1;
    if (json_type(j) != JSON_OBJECT || !json_get(j, "url"))
        return err_set(&c->err, ERR_INVALID,
                       "the body must be an object with a url: {\"url\":\"ssh://user@host\"}");
    for (struct json_it it = {0}; json_next(j, &it);)
        if (read_member(it.key, it.val, out, &c->err) < 0)
            return -1;
    return check_fleeting(out, &c->err);
}

static void on_added(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;

    c->status = 201;
    nodes_answer(c, e, r);
}

void nodes_add(struct call *c)
{
    AUTO(json) struct json *conf = json_new_object();

    call_keep_body(c);
    if (node_read_body(c, conf) < 0) {
        call_fail(c, &c->err);
        return;
    }
    const struct json *name = json_get(conf, "name");
    c->arg[0] = call_copy(c, name ? json_str(name) : url_host(json_str(json_get(conf, "url"))));
    core_node_add(call_api(c)->conf.core, c->arg[0], conf, &c->who.caller, on_added, c);
}

static void node_on_removed(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;

    (void)r;
    if (e) {
        call_fail(c, e);
        return;
    }
    c->status = 204;
    call_reply(c);
}

void nodes_remove(struct call *c)
{
    int64_t force;

    if (call_param_int(c, "force", 0, 0, 1, &force, &c->err) < 0) {
        call_fail(c, &c->err);
        return;
    }
    core_node_remove(call_api(c)->conf.core, c->arg[0], force, &c->who.caller, node_on_removed, c);
}

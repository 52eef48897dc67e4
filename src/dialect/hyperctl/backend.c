/* backend.c - where a batch file says its jobs shall run
 *
 * Owns: the keys of `backend`, its machines and their connections, and the names and values of
 * `environments`.  A connection stands in `connection`, in older files flat in the machine; the
 * list of machines stands in `backend`, in older files in `backend.conf`.
 */
#include "dialect/hyperctl/batch_priv.h"
#include <ctype.h>
#include <stdio.h>

/* Only such names can be exported by a shell. */
static bool is_variable_name(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_')
            return false;
    return true;
}

int hyper_take_environments(const struct json *obj, const char *where, struct json **out,
                            struct err *e)
{
    const struct json *env;

    if (hyper_take_object(obj, "environments", where, &env, e) < 0)
        return -1;
    for (struct json_it it = {0}; json_next(env, &it);) {
        if (!is_variable_name(it.key))
            return err_set(e, ERR_INVALID,
                           "%senvironments: '%.60s' is not a variable name; use letters, digits "
                           "and _",
                           where, it.key);
        if (!it.val || json_type(it.val) >= JSON_ARRAY)
            return err_set(e, ERR_INVALID,
                           "%senvironments.%.60s is %s; write a text, a number, true or false",
                           where, it.key, json_type_name(json_type(it.val)));
        if (json_type(it.val) == JSON_STR && memchr(json_str(it.val).p, 0, json_str(it.val).n))
            return err_set(e, ERR_INVALID, "%senvironments.%.60s contains a NUL character", where,
                           it.key);
    }
    if (env) {
        json_free(*out);
        *out = json_copy(env);
    }
    return 0;
}

/* ---- machines ---- */

void hyper_machine_done(struct hyper_machine *m)
{
    free(m->node);
    free(m->hostname);
    free(m->username);
    free(m->password);
    free(m->key_file);
    free(m->passphrase);
    free(m->host_key);
    free(m->known_hosts);
    free(m->data_dir);
    json_free(m->environments);
}

/* Names of hosts and users become words of ssh's command line and of the scheduler. */
static int check_login(const char *text, const char *key, const char *more, const char *where,
                       struct err *e)
{
    if (!text || !*text)
        return err_set(e, ERR_INVALID, "%s%s is missing; a connection needs hostname and username",
                       where, key);
    /* ssh would take such a word for an option. */
    if (*text == '-')
        return err_set(e, ERR_INVALID, "%s%s may not begin with a dash", where, key);
    for (const char *p = text; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-", *p) && !strchr(more, *p))
            return err_set(e, ERR_INVALID, "%s%s contains '%c', which no %s has; correct it", where,
                           key, isprint((unsigned char)*p) ? *p : '?', key);
    return 0;
}

/* A password can stand in a variable, so that it is in no file. */
static int take_password(struct hyper_loader *l, const struct json *c, const char *where,
                         struct hyper_machine *m)
{
    AUTO_FREE char *name = NULL;

    if (hyper_take_text(c, "password", where, &m->password, l->e) < 0 ||
        hyper_take_text(c, "passphrase", where, &m->passphrase, l->e) < 0 ||
        hyper_take_text(c, "password_env", where, &name, l->e) < 0)
        return -1;
    l->b->has_password = l->b->has_password || m->password || m->passphrase;
    if (!name)
        return 0;
    const char *value = getenv(name);
    if (!value || !*value)
        return err_set(l->e, ERR_INVALID,
                       "%spassword_env names the variable %.60s, which is not set", where, name);
    free(m->password);
    m->password = xstrdup(value);
    return 0;
}

/* Paths in a batch file are relative to the working directory of hyperctl. */
static int connection_take_file(struct hyper_loader *l, const struct json *c, const char *key,
                                const char *where, char **out)
{
    AUTO_FREE char *text = NULL;

    if (hyper_take_text(c, key, where, &text, l->e) < 0)
        return -1;
    if (text && *text)
        *out = hyper_path(str_of(text), l->cwd);
    return 0;
}

/* The login of a machine and how its host key is checked. */
static int read_connection(struct hyper_loader *l, const struct json *c, const char *where,
                           struct hyper_machine *m)
{
    AUTO_FREE char *policy = NULL;

    if (hyper_take_text(c, "hostname", where, &m->hostname, l->e) < 0 ||
        hyper_take_text(c, "username", where, &m->username, l->e) < 0 ||
        take_password(l, c, where, m) < 0 ||
        connection_take_file(l, c, "ssh_rsa_file", where, &m->key_file) < 0 ||
        connection_take_file(l, c, "known_hosts", where, &m->known_hosts) < 0 ||
        hyper_take_text(c, "host_key", where, &m->host_key, l->e) < 0 ||
        hyper_take_text(c, "host_keys", where, &policy, l->e) < 0 ||
        hyper_take_int(c, "port", where, 1, 65535, &m->port, l->e) < 0 ||
        check_login(m->hostname, "hostname", ":%", where, l->e) < 0 ||
        check_login(m->username, "username", "$+\\", where, l->e) < 0)
        return -1;
    if (policy && strcmp(policy, "strict") != 0 && strcmp(policy, "accept-new") != 0)
        return err_set(l->e, ERR_INVALID, "%shost_keys must be strict or accept-new", where);
    if (m->host_key && strpbrk(m->host_key, "\r\n"))
        return err_set(l->e, ERR_INVALID, "%shost_key is more than one line; write one key", where);
    m->accept_new = policy && !strcmp(policy, "accept-new");
    m->port_given = json_get(c, "port") != NULL;
    return 0;
}

/* One entry of backend.machines; `i` stands in the messages. */
static int read_machine(struct hyper_loader *l, const struct json *j, size_t i,
                        struct hyper_machine *m)
{
#define OF_CONNECTION                                                                              \
    "hostname", "username", "port", "password", "password_env", "ssh_rsa_file", "passphrase",      \
        "host_key", "host_keys", "known_hosts"
#define OF_MACHINE "environments", "slots", "data_dir"
    static const char *const of_connection[] = {OF_CONNECTION, NULL};
    static const char *const of_machine[] = {"connection", OF_MACHINE, NULL};
    static const char *const flat[] = {OF_CONNECTION, OF_MACHINE, NULL};
    const struct json *connection = NULL;
    char where[64];

    snprintf(where, sizeof(where), "backend.machines[%zu].", i);
    m->port = 22;
    m->slots = 1;
    if (json_type(j) != JSON_OBJECT)
        return err_set(l->e, ERR_INVALID, "backend.machines[%zu] is %s; write an object", i,
                       json_type_name(json_type(j)));
    if (hyper_take_object(j, "connection", where, &connection, l->e) < 0)
        return -1;
    const char *bad = hyper_unknown_key(j, connection ? of_machine : flat);
    if (!bad && connection)
        bad = hyper_unknown_key(connection, of_connection);
    if (bad)
        return err_set(l->e, ERR_INVALID, "%s%.60s: unexpected keyword argument '%.60s'", where,
                       connection && json_has(connection, bad) ? "connection" : bad, bad);
    if (hyper_take_environments(j, where, &m->environments, l->e) < 0 ||
        hyper_take_int(j, "slots", where, 1, HYPER_SLOTS_MAX, &m->slots, l->e) < 0 ||
        hyper_take_text(j, "data_dir", where, &m->data_dir, l->e) < 0)
        return -1;
    snprintf(where, sizeof(where), "backend.machines[%zu].%s", i, connection ? "connection." : "");
    return read_connection(l, connection ? connection : j, where, m);
}

/* Two entries of one login share its connection. */
static bool same_login(const struct hyper_machine *a, const struct hyper_machine *b)
{
    return a->port == b->port && !strcmp(a->hostname, b->hostname) &&
           !strcmp(a->username, b->username);
}

static bool texts_equal(const char *a, const char *b)
{
    return !strcmp(a ? a : "", b ? b : "");
}

/* The slots of a login that was named before; what else is said of it must be the same. */
static int machine_join(struct hyper_loader *l, struct hyper_machine *was,
                        const struct hyper_machine *m, size_t i)
{
    if (!texts_equal(was->data_dir, m->data_dir) || !json_equal(was->environments, m->environments))
        return err_set(l->e, ERR_INVALID,
                       "backend.machines[%zu] is %.60s@%.60s once more with another data_dir or "
                       "other environments; make them the same",
                       i, m->username, m->hostname);
    /* The sum of many entries stays within the limit of one. */
    was->slots = MIN(was->slots + m->slots, HYPER_SLOTS_MAX);
    return 0;
}

const struct hyper_machine *hyper_batch_machine(const struct hyper_batch *b, const char *node)
{
    for (size_t i = 0; node && i < b->machines.n; i++)
        if (b->machines.p[i].node && !strcmp(b->machines.p[i].node, node))
            return &b->machines.p[i];
    return NULL;
}

/* "hyperctl.host1", or "hyperctl.host1-2222" and the like where two logins share a host. */
static void name_node(const struct hyper_batch *b, struct hyper_machine *m)
{
    AUTO_FREE char *host = xstrdup(m->hostname);

    for (char *p = host; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
            *p = '-';
    char *name = xasprintf(HYPER_NODE "%.30s", host);
    /* The port makes the name unique, or the next number that does. */
    for (int i = m->port; hyper_batch_machine(b, name); i++) {
        free(name);
        name = xasprintf(HYPER_NODE "%.30s-%d", host, i);
    }
    m->node = name;
}

void hyper_batch_tag(struct hyper_batch *b, const char *tag)
{
    size_t was = strlen(b->node_prefix);

    snprintf(b->node_prefix, sizeof(b->node_prefix), HYPER_NODE "%.16s.", tag);
    for (size_t i = 0; i < b->machines.n; i++) {
        struct hyper_machine *m = &b->machines.p[i];
        char *name = xasprintf("%s%s", b->node_prefix, m->node + was);
        free(m->node);
        m->node = name;
    }
}

/* The machine belongs to the batch even after an error, so that it is freed. */
static int add_machine(struct hyper_loader *l, const struct json *j, size_t i)
{
    struct hyper_machine m = {0};
    int rc = read_machine(l, j, i, &m);

    for (size_t k = 0; rc == 0 && k < l->b->machines.n; k++)
        if (same_login(&l->b->machines.p[k], &m)) {
            rc = machine_join(l, &l->b->machines.p[k], &m, i);
            hyper_machine_done(&m);
            return rc;
        }
    if (rc == 0)
        name_node(l->b, &m);
    vec_push(&l->b->machines, m);
    return rc;
}

/* At least one machine is needed: jobs would wait for ever. */
static int load_machines(struct hyper_loader *l, const struct json *j, const struct json *conf)
{
    const struct json *list = json_get(j, "machines");

    if (!list)
        list = json_get(conf, "machines");
    if (json_type(list) != JSON_ARRAY || !json_len(list))
        return err_set(l->e, ERR_INVALID,
                       "backend.machines is missing; a remote backend needs a list of machines");
    snprintf(l->b->node_prefix, sizeof(l->b->node_prefix), "%s", HYPER_NODE);
    for (size_t i = 0; i < json_len(list); i++)
        if (add_machine(l, json_at(list, i), i) < 0)
            return -1;
    return 0;
}

int hyper_load_backend(struct hyper_loader *l, const struct json *j)
{
    static const char *const known[] = {"type", "environments", "conf", "slots", "machines", NULL};
    AUTO_FREE char *type = xstrdup("local");
    const struct json *conf;
    const char *odd;

    if (!j)
        return 0;
    if (hyper_take_text(j, "type", "backend.", &type, l->e) < 0 ||
        hyper_take_object(j, "conf", "backend.", &conf, l->e) < 0)
        return -1;
    odd = hyper_unknown_key(j, known);
    if (odd)
        hyper_warn(l->b, "backend.%.60s is not a known key and is ignored", odd);
    l->b->remote = !strcmp(type, "remote");
    if (!l->b->remote && strcmp(type, "local") != 0)
        return err_set(l->e, ERR_INVALID, "unknown backend %.60s", type);
    if (hyper_take_environments(conf, "backend.conf.", &l->b->environments, l->e) < 0 ||
        hyper_take_environments(j, "backend.", &l->b->environments, l->e) < 0 ||
        hyper_take_int(j, "slots", "backend.", 1, HYPER_SLOTS_MAX, &l->b->slots, l->e) < 0)
        return -1;
    return l->b->remote ? load_machines(l, j, conf) : 0;
}

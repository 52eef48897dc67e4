/* backend.c - where a batch file says its jobs shall run
 *
 * Owns: the keys of `backend`, its machines and their connections, and the names and values of
 * `environments`.  A connection stands in `connection`, in older files flat in the machine; the
 * list of machines stands in `backend`, in older files in `backend.conf`.
 */
#include "dialect/hyperctl/batch_priv.h"
#include <ctype.h>
#include <stdio.h>

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

void hyper_machine_done(struct hyper_machine *m)
{
    free(m->hostname);
    free(m->username);
    free(m->password);
    free(m->key_file);
    free(m->passphrase);
    free(m->host_key);
    free(m->data_dir);
    json_free(m->environments);
}

static int read_connection(struct hyper_loader *l, const struct json *c, const char *where,
                           struct hyper_machine *m)
{
    AUTO_FREE char *policy = NULL;
    AUTO_FREE char *key_file = NULL;

    if (hyper_take_text(c, "hostname", where, &m->hostname, l->e) < 0 ||
        hyper_take_text(c, "username", where, &m->username, l->e) < 0 ||
        hyper_take_text(c, "password", where, &m->password, l->e) < 0 ||
        hyper_take_text(c, "ssh_rsa_file", where, &key_file, l->e) < 0 ||
        hyper_take_text(c, "passphrase", where, &m->passphrase, l->e) < 0 ||
        hyper_take_text(c, "host_key", where, &m->host_key, l->e) < 0 ||
        hyper_take_text(c, "host_keys", where, &policy, l->e) < 0 ||
        hyper_take_int(c, "port", where, 1, 65535, &m->port, l->e) < 0)
        return -1;
    if (!m->hostname || !*m->hostname || !m->username || !*m->username)
        return err_set(l->e, ERR_INVALID,
                       "%s%s is missing; a connection needs hostname and username", where,
                       m->hostname && *m->hostname ? "username" : "hostname");
    if (m->hostname[0] == '-' || m->username[0] == '-')
        return err_set(l->e, ERR_INVALID, "%s hostname and username may not begin with a dash",
                       where);
    if (policy && strcmp(policy, "strict") != 0 && strcmp(policy, "accept-new") != 0)
        return err_set(l->e, ERR_INVALID, "%shost_keys must be strict or accept-new", where);
    m->accept_new = policy && !strcmp(policy, "accept-new");
    if (key_file && *key_file)
        m->key_file = hyper_path(str_of(key_file), l->cwd);
    l->b->has_password = l->b->has_password || m->password || m->passphrase;
    return 0;
}

static int read_machine(struct hyper_loader *l, const struct json *j, size_t i,
                        struct hyper_machine *m)
{
    static const char *const of_connection[] = {"hostname", "username",     "port",
                                                "password", "ssh_rsa_file", "passphrase",
                                                "host_key", "host_keys",    NULL};
    static const char *const of_machine[] = {"connection", "environments", "slots", "data_dir",
                                             NULL};
    static const char *const flat[] = {"hostname",     "username",   "port",     "password",
                                       "ssh_rsa_file", "passphrase", "host_key", "host_keys",
                                       "environments", "slots",      "data_dir", NULL};
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

static int load_machines(struct hyper_loader *l, const struct json *j, const struct json *conf)
{
    const struct json *list = json_get(j, "machines");

    if (!list)
        list = json_get(conf, "machines");
    if (json_type(list) != JSON_ARRAY || !json_len(list))
        return err_set(l->e, ERR_INVALID,
                       "backend.machines is missing; a remote backend needs a list of machines");
    for (size_t i = 0; i < json_len(list); i++) {
        struct hyper_machine m = {0};
        int rc = read_machine(l, json_at(list, i), i, &m);
        vec_push(&l->b->machines, m);
        if (rc < 0)
            return -1;
    }
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

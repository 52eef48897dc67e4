/* conf.c - how a host is reached: the configuration of a node as the user gave it
 *
 *   url               ssh://[user@]host[:port], or the parts
 *   host user port    host may be a name from ~/.ssh/config; what is not said here is said there
 *   name              of the node; it names the home of our runs there
 *   identity          file with a private key
 *   known_hosts       file to look for the host's key in, instead of the user's own
 *   host_key          the key itself: "ssh-ed25519 AAAA…"
 *   accept_new        a host that is not known is believed at first sight (never a changed key)
 *   agent             socket of the key agent to ask, instead of the one this process knows
 *   password, passphrase          held in memory, and given to ssh when it asks
 *   connect_timeout, start_timeout    seconds
 *   stage_root        relative directories of runs are below this one, not below the login's home
 *   as                whose runs go through which login (as_rule.h, accounts.c)
 *   python_path       directory of our Python packages, for jobs there to import
 *   slots mcpu mem_bytes gpus gpus_exclude cpu_quota transient    as for the local backend, there
 */
#include "backend/ssh/ssh_priv.h"
#include "base/util.h"
#include <stdio.h>
#include <string.h>

enum { CONNECT_TIMEOUT_S = 10, START_TIMEOUT_S = 30 };

static const char *const node_keys[] = {"slots",        "mcpu",      "mem_bytes", "gpus",
                                        "gpus_exclude", "cpu_quota", "transient"};

const struct conf_key ssh_conf_keys[SSH_CONF_KEYS] = {
    {"identity", NULL, CONF_TEXT, 4095, CONF_RECORDED},
    {"known_hosts", NULL, CONF_TEXT, 4095, CONF_RECORDED},
    {"host_key", NULL, CONF_TEXT, 4095, CONF_RECORDED},
    {"accept_new", NULL, CONF_BOOL, 0, CONF_RECORDED},
    {"connect_timeout", NULL, CONF_COUNT, 86400, CONF_RECORDED},
    {"as", NULL, CONF_TEXTS, 255, CONF_RECORDED},
    {"port", NULL, CONF_COUNT, 65535, CONF_FLEETING},
    {"password", NULL, CONF_TEXT, 4095, CONF_SECRET},
    {"passphrase", NULL, CONF_TEXT, 4095, CONF_SECRET},
    {"agent", NULL, CONF_TEXT, 4095, CONF_FLEETING},
    {"stage_root", NULL, CONF_TEXT, 4095, CONF_FLEETING},
    {"python_path", NULL, CONF_TEXT, 4095, CONF_FLEETING},
    {"transient", NULL, CONF_BOOL, 0, CONF_FLEETING},
};

static char *conf_text(const struct json *conf, const char *key)
{
    const struct json *v = json_get(conf, key);
    struct str s = json_type(v) == JSON_STR ? json_str(v) : STR("");

    return s.n ? xstrndup(s.p, s.n) : NULL;
}

/* Words of ssh's command line: what begins with a dash would be an option. */
/* `also` names further characters that are not allowed.  NULL words are fine: they are not
 * given. */
static int conf_check_word(const char *what, const char *word, const char *also, struct err *e)
{
    if (!word)
        return 0;
    if (word[0] == '-')
        return err_set(e, ERR_INVALID, "the %s %.60s of an ssh node begins with a dash", what,
                       word);
    for (const char *p = word; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 127 || strchr(also, *p))
            return err_set(e, ERR_INVALID,
                           "the %s %.60s of an ssh node has a character that no %s has", what, word,
                           what);
    return 0;
}

static int parse_port(struct str s, int64_t *out, struct err *e)
{
    if (s.n && (!str_to_i64(s, out) || *out < 1 || *out > 65535))
        return err_set(e, ERR_INVALID, "port " STR_FMT " of an ssh node is not between 1 and 65535",
                       STR_ARG(s));
    return 0;
}

/* Overrides the parts that were given separately.  An IPv6 address stands in brackets. */
static int parse_url(struct ssh_conf *c, struct str url, struct err *e)
{
    static const struct str scheme = {"ssh://", 6};
    struct str rest = url, at;

    if (!str_starts(url, scheme))
        return err_set(e, ERR_INVALID, "%.*s is not ssh://[user@]host[:port]", (int)MIN(url.n, 80),
                       url.p);
    rest.p += scheme.n;
    rest.n -= scheme.n;
    if (rest.n && rest.p[rest.n - 1] == '/')
        rest.n--;
    const char *sep = memrchr(rest.p, '@', rest.n);
    if (sep) {
        struct str user = {rest.p, (size_t)(sep - rest.p)};
        if (memchr(user.p, ':', user.n))
            return err_set(e, ERR_INVALID,
                           "the address of a node must not contain a password; use a key");
        free(c->user);
        c->user = xstrndup(user.p, user.n);
        rest = (struct str){sep + 1, rest.n - user.n - 1};
    }
    free(c->host);
    if (rest.n && rest.p[0] == '[') {
        struct str inner = str_cut((struct str){rest.p + 1, rest.n - 1}, ']', &at);
        c->host = xstrndup(inner.p, inner.n);
        rest = at;
        return rest.n && rest.p[0] == ':'
                   ? parse_port((struct str){rest.p + 1, rest.n - 1}, &c->port, e)
                   : 0;
    }
    struct str host = str_cut(rest, ':', &at);
    c->host = xstrndup(host.p, host.n);
    return parse_port(at, &c->port, e);
}

static int conf_check(struct ssh_conf *c, struct err *e)
{
    if (!c->host || !c->host[0])
        return err_set(e, ERR_INVALID, "an ssh node needs a host: ssh://[user@]host[:port]");
    if (conf_check_word("host", c->host, "/@\"'", e) < 0 ||
        conf_check_word("user", c->user, "\"'", e) < 0)
        return -1;
    if (c->port < 0 || c->port > 65535)
        return err_set(e, ERR_INVALID, "port %lld of an ssh node is not between 1 and 65535",
                       (long long)c->port);
    if (c->identity && strchr(c->identity, '\n'))
        return err_set(e, ERR_INVALID, "the identity of an ssh node is not the name of a file");
    if (c->host_key && strchr(c->host_key, '\n'))
        return err_set(e, ERR_INVALID, "host_key must be one line: 'ssh-ed25519 AAAA…'");
    return 0;
}

static int64_t conf_seconds(const struct json *conf, const char *key, int64_t otherwise)
{
    const struct json *v = json_get(conf, key);

    return v && json_int(v) > 0 ? MIN(json_int(v), 86400) : otherwise;
}

int ssh_conf_read(struct ssh_conf *c, const struct json *conf, struct err *e)
{
    const struct json *url = json_get(conf, "url");

    *c = (struct ssh_conf){
        .name = conf_text(conf, "name"),
        .host = conf_text(conf, "host"),
        .user = conf_text(conf, "user"),
        .port = json_int(json_get(conf, "port")),
        .identity = conf_text(conf, "identity"),
        .known_hosts = conf_text(conf, "known_hosts"),
        .host_key = conf_text(conf, "host_key"),
        .agent = conf_text(conf, "agent"),
        .password = conf_text(conf, "password"),
        .passphrase = conf_text(conf, "passphrase"),
        .python_path = conf_text(conf, "python_path"),
        .stage_root = conf_text(conf, "stage_root"),
        .accept_new = json_bool(json_get(conf, "accept_new")),
        .connect_timeout_s = conf_seconds(conf, "connect_timeout", CONNECT_TIMEOUT_S),
        .start_timeout_ms = conf_seconds(conf, "start_timeout", START_TIMEOUT_S) * 1000,
        .node = json_new_object(),
    };
    if (json_type(url) == JSON_STR && parse_url(c, json_str(url), e) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_SIZE(node_keys); i++)
        if (json_get(conf, node_keys[i]))
            json_set_take(c->node, node_keys[i], json_copy(json_get(conf, node_keys[i])));
    if (c->python_path)
        json_set_str(c->node, "python_path", c->python_path); /* its name here, to be replaced */
    if (conf_check(c, e) < 0)
        return -1;
    if (!c->name)
        c->name = ssh_conf_where(c);
    return 0;
}

/* Before free, so that the secret does not stay in memory that is used again. */
static void secret_wipe(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

void ssh_conf_done(struct ssh_conf *c)
{
    FREE_EACH(c->name, c->host, c->user, c->identity, c->known_hosts, c->host_key, c->agent,
              c->python_path, c->stage_root);
    secret_wipe(c->password);
    secret_wipe(c->passphrase);
    json_free(c->node);
    *c = (struct ssh_conf){0};
}

char *ssh_conf_where(const struct ssh_conf *c)
{
    char port[16] = "";

    if (c->port)
        snprintf(port, sizeof(port), ":%lld", (long long)c->port);
    return xasprintf("%s%s%s%s", c->user ? c->user : "", c->user ? "@" : "", c->host, port);
}

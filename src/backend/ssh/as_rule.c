/* as_rule.c - see as_rule.h */
#include "backend/ssh/as_rule.h"
#include "backend/ssh/ssh_priv.h"
#include "base/buf.h"
#include "base/util.h"
#include <pwd.h>
#include <string.h>

#define ANY_USER "%u"

/* Names are few, and a node is added or opened seldom: the loop thread may ask for one. */
static bool uid_of(struct str name, uint32_t *out)
{
    AUTO_FREE char *text = xstrndup(name.p, name.n);
    const struct passwd *pw = getpwnam(text);
    int64_t uid;

    if (!pw && (!str_to_i64(name, &uid) || uid < 0 || uid >= UINT32_MAX))
        return false;
    *out = pw ? pw->pw_uid : (uint32_t)uid;
    return true;
}

/* By the same rules as the address of a node, with a name in the place of %u.  What would change
 * the meaning of an address is refused here. */
static bool login_ok(struct str to)
{
    struct ssh_conf conf = {0};
    AUTO(json) struct json *j = json_new_object();
    struct err e;

    for (size_t i = 0; i < to.n; i++)
        if (strchr("/?#", to.p[i]))
            return false;
    AUTO_FREE char *url =
        xasprintf("ssh://" STR_FMT "%s", STR_ARG(to), memchr(to.p, '@', to.n) ? "" : "@host");
    json_set_str(j, "url", url);
    bool ok = to.n && to.p[0] != '@' && ssh_conf_read(&conf, j, &e) == 0;
    ssh_conf_done(&conf);
    return ok;
}

static int as_rule_read(struct as_rules *r, struct str text, struct err *e)
{
    const char *sep = memchr(text.p, '=', text.n);
    struct str who = {text.p, sep ? (size_t)(sep - text.p) : 0};
    struct str to = sep ? (struct str){sep + 1, text.n - who.n - 1} : text;
    struct as_rule one = {0};

    if (!login_ok(to) || (!sep && !memmem(to.p, to.n, ANY_USER, 2)))
        return err_set(e, ERR_INVALID,
                       "as: '%.*s' is not USER=LOGIN, USER=LOGIN@HOST, %%u or %%u@HOST",
                       (int)MIN(text.n, (size_t)80), text.p);
    if (!sep) {
        free(r->others);
        r->others = xstrndup(to.p, to.n);
        r->users.all = true;
        return 0;
    }
    if (!uid_of(who, &one.uid))
        return err_set(e, ERR_INVALID, "as: there is no user '%.*s' on this machine",
                       (int)MIN(who.n, (size_t)60), who.p);
    one.to = xstrndup(to.p, to.n);
    vec_push(&r->of, one);
    vec_push(&r->uids, one.uid);
    return 0;
}

int as_rules_read(struct as_rules *r, const struct json *list, uint32_t owner_uid, struct err *e)
{
    *r = (struct as_rules){0};
    vec_push(&r->uids, owner_uid);
    for (size_t i = 0; i < json_len(list); i++)
        if (as_rule_read(r, json_str(json_at(list, i)), e) < 0)
            return -1;
    r->users.uids = r->uids.p;
    r->users.n = r->uids.n;
    return 0;
}

void as_rules_done(struct as_rules *r)
{
    for (size_t i = 0; i < r->of.n; i++)
        free(r->of.p[i].to);
    vec_done(&r->of);
    vec_done(&r->uids);
    free(r->others);
    *r = (struct as_rules){0};
}

/* The later of two lines about one user counts. */
static const char *rule_for(const struct as_rules *r, uint32_t uid)
{
    for (size_t i = r->of.n; i-- > 0;)
        if (r->of.p[i].uid == uid)
            return r->of.p[i].to;
    return r->others;
}

/* "host:port" of ssh://user@host:port. */
static struct str url_place(struct str url)
{
    const char *at = memrchr(url.p, '@', url.n);
    const char *begin = memmem(url.p, url.n, "://", 3);

    begin = at ? at + 1 : begin ? begin + 3 : url.p;
    return (struct str){begin, (size_t)(url.p + url.n - begin)};
}

char *as_rules_url(const struct as_rules *r, uint32_t uid, struct str url, struct err *e)
{
    const char *to = rule_for(r, uid);
    const struct passwd *pw = to && strstr(to, ANY_USER) ? getpwuid(uid) : NULL;
    AUTO(buf) struct buf out = {0};

    if (!to || (strstr(to, ANY_USER) && (!pw || !login_ok(str_of(pw->pw_name))))) {
        err_set(e, ERR_DENIED, "user %u is not named with --as", uid);
        return NULL;
    }
    buf_adds(&out, "ssh://");
    for (const char *p = to; *p; p++) {
        if (strncmp(p, ANY_USER, 2) != 0) {
            buf_addc(&out, *p);
            continue;
        }
        buf_adds(&out, pw->pw_name);
        p++;
    }
    if (!strchr(to, '@')) {
        struct str place = url_place(url);
        buf_addc(&out, '@');
        buf_add(&out, place.p, place.n);
    }
    return buf_take(&out, NULL);
}

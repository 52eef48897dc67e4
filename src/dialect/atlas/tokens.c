/* tokens.c - tokens with a name in them, and the routes that hand them out
 *
 * Owns: the routes of /auth, the key of the tokens, and the file of users.
 *
 * A token is a JWT signed with HMAC-SHA-256: {"preferred_username", "iat", "exp"}.  The server
 * keeps no list of tokens: a valid signature and the time of expiry decide.  The key is a file of
 * the home that only its owner reads. Users and passwords are lines `name: password` of
 * config/users.yaml, which must be as private.
 */
#include "base/file.h"
#include "base/hash.h"
#include "base/json_out.h"
#include "base/rand.h"
#include "base/util.h"
#include "base/yaml.h"
#include "dialect/atlas/atlas_priv.h"
#include "dialect/atlas/base64.h"
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

enum { KEY_BYTES = 32, TOKEN_DAYS = 30, TOKEN_MAX = 1024, USERS_MAX = 1 << 20 };

#define JWT_HEAD "{\"alg\":\"HS256\",\"typ\":\"JWT\"}"

/* ---- tokens ---- */

/* The key is made on first use.  Removing the file makes every token invalid. */
static int token_key(const struct atlas *a, uint8_t key[KEY_BYTES], struct err *e)
{
    AUTO_FREE char *path = xasprintf("%s/" ATLAS_DIR_DATABASE "/atlas-key", a->conf.home);
    AUTO_FREE char *text = NULL;
    struct err none;
    size_t n;

    if (file_read_all(path, KEY_BYTES, &text, &n, &none) == 0 && n == KEY_BYTES) {
        memcpy(key, text, KEY_BYTES);
        return 0;
    }
    random_bytes(key, KEY_BYTES);
    return file_write_atomic(path, key, KEY_BYTES, 0600, e);
}

/* Appends the signature of "head.claims". */
static void token_sign(const uint8_t key[KEY_BYTES], struct str text, struct buf *out)
{
    uint8_t mac[32];

    hmac_sha256(key, KEY_BYTES, text.p, text.n, mac);
    base64_add_url(out, (struct str){(const char *)mac, sizeof(mac)});
}

/* head.claims.signature, each in base64 for URLs. */
static int token_make(const struct atlas *a, const char *user, struct buf *out, struct err *e)
{
    AUTO(buf) struct buf claims = {0};
    uint8_t key[KEY_BYTES];
    int64_t now = (int64_t)time(NULL);

    if (token_key(a, key, e) < 0)
        return -1;
    buf_init(&claims, TOKEN_MAX);
    jw_object(&claims, NULL);
    jw_text(&claims, "preferred_username", user);
    jw_int(&claims, "iat", now);
    jw_int(&claims, "exp", now + TOKEN_DAYS * 86400LL);
    jw_end_object(&claims);
    base64_add_url(out, STR(JWT_HEAD));
    buf_addc(out, '.');
    base64_add_url(out, buf_str(&claims));
    struct str text = buf_str(out);
    AUTO(buf) struct buf mac = {0};
    buf_init(&mac, TOKEN_MAX);
    token_sign(key, text, &mac);
    buf_addc(out, '.');
    buf_add(out, mac.p, mac.n);
    return 0;
}

/* A token without a name, or one that has expired, names nobody. */
static bool claims_user(struct str text, char *user, size_t n)
{
    AUTO(json) struct json *j = NULL;
    struct err e;

    if (json_parse(text, "token", &j, &e) < 0)
        return false;
    const struct json *name = json_get(j, "preferred_username"), *exp = json_get(j, "exp");
    if (json_type(name) != JSON_STR || !json_str(name).n || json_str(name).n >= n ||
        json_type(exp) != JSON_INT || json_int(exp) <= (int64_t)time(NULL))
        return false;
    snprintf(user, n, STR_FMT, STR_ARG(json_str(name)));
    return true;
}

/* The signature is checked before anything of the token is read. */
bool atlas_token_user(const struct atlas *a, struct str token, char *user, size_t n)
{
    struct str mac, claims, head = str_cut(token, '.', &claims);
    AUTO(buf) struct buf want = {0}, text = {0};
    uint8_t key[KEY_BYTES];
    struct err e;

    claims = str_cut(claims, '.', &mac);
    if (!mac.n || !claims.n || token.n > TOKEN_MAX || token_key(a, key, &e) < 0)
        return false;
    buf_init(&want, TOKEN_MAX);
    buf_init(&text, TOKEN_MAX);
    token_sign(key, (struct str){head.p, head.n + 1 + claims.n}, &want);
    return want.n == mac.n && equal_const_time(want.p, mac.p, mac.n) &&
           base64_decode(claims, &text) && claims_user(buf_str(&text), user, n);
}

/* ---- users ---- */

/* Hashed first, so that neither length nor content can be measured by time. */
static bool password_equal(struct str a, struct str b)
{
    uint8_t x[32], y[32];

    hmac_sha256("compare", 7, a.p, a.n, x);
    hmac_sha256("compare", 7, b.p, b.n, y);
    return equal_const_time(x, y, sizeof(x));
}

/* Name and password of an Authorization: Basic header against the file of users. */
static int check_basic(const struct atlas *a, struct str header, char *user, size_t n,
                       struct err *e)
{
    AUTO_FREE char *path = xasprintf("%s/config/users.yaml", a->conf.home), *text = NULL;
    AUTO(buf) struct buf pair = {0};
    struct str basic = STR("Basic "), password;
    AUTO(json) struct json *users = NULL;
    struct stat st;
    size_t size;

    buf_init(&pair, TOKEN_MAX);
    if (!str_starts(header, basic) ||
        !base64_decode((struct str){header.p + basic.n, header.n - basic.n}, &pair))
        return err_set(e, ERR_UNAUTHENTICATED,
                       "send your name and password as HTTP basic authentication");
    struct str name = str_cut(buf_str(&pair), ':', &password);
    if (stat(path, &st) < 0)
        return err_set(e, ERR_UNAUTHENTICATED,
                       "this server has no users; add a line `name: password` to %.120s", path);
    if (st.st_mode & 077)
        return err_set(e, ERR_UNAUTHENTICATED,
                       "the server's config/users.yaml can be read by others; chmod 600 it");
    if (file_read_all(path, USERS_MAX, &text, &size, e) < 0 ||
        yaml_parse((struct str){text, size}, "users.yaml", &users, e) < 0)
        return -1;
    AUTO_FREE char *key = xstrndup(name.p ? name.p : "", name.n);
    const struct json *want = json_get(users, key);
    bool ok = json_type(want) == JSON_STR && password.n && name.n < n &&
              password_equal(json_str(want), password);
    if (!ok)
        return err_set(e, ERR_UNAUTHENTICATED, "wrong name or password");
    snprintf(user, n, "%s", key);
    return 0;
}

/* ---- routes ---- */

/* Worker thread, because it reads files.  The token stands under two names, because clients read
 * one or the other. */
static int login_work(struct call *c)
{
    AUTO(buf) struct buf token = {0};
    char user[64];

    buf_init(&token, TOKEN_MAX);
    if (check_basic(call_atlas(c), c->arg[2], user, sizeof(user), &c->err) < 0 ||
        token_make(call_atlas(c), user, &token, &c->err) < 0)
        return -1;
    jw_object(&c->out, NULL);
    jw_str(&c->out, "access_token", buf_str(&token));
    jw_str(&c->out, "token", buf_str(&token));
    jw_text(&c->out, "token_type", "Bearer");
    jw_end_object(&c->out);
    buf_addc(&c->out, '\n');
    return 0;
}

/* GET /auth/cli_login and /auth/login, with name and password in the header. */
void atlas_auth_login(struct call *c)
{
    struct str h = http_header(c->req, "authorization");

    c->arg[2] = call_copy(c, h);
    atlas_work(c, login_work, NULL);
}

static int verify_work(struct call *c)
{
    char user[64];

    if (!atlas_token_user(call_atlas(c), c->arg[2], user, sizeof(user)))
        return err_set(&c->err, ERR_UNAUTHENTICATED,
                       "the token is not one of this server, or it has expired");
    jw_object(&c->out, NULL);
    jw_text(&c->out, "preferred_username", user);
    jw_end_object(&c->out);
    buf_addc(&c->out, '\n');
    return 0;
}

/* GET /auth/verify: the name in the token of the header. */
void atlas_auth_verify(struct call *c)
{
    struct str h = http_header(c->req, "authorization"), bearer = STR("Bearer ");

    if (str_starts(h, bearer))
        h = (struct str){h.p + bearer.n, h.n - bearer.n};
    c->arg[2] = call_copy(c, h);
    atlas_work(c, verify_work, NULL);
}

void atlas_auth_logout(struct call *c)
{
    buf_adds(&c->out, "\"Logged out\"\n"); /* the token is the client's to forget */
    call_reply(c);
}

/* read.c - members of a batch file by their type, paths and ids
 *
 * Every message names the member by its path, what it is, and what to write instead.
 */
#include "base/file.h"
#include "base/rand.h"
#include "dialect/hyperctl/batch_priv.h"
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>

void hyper_warn(struct hyper_batch *b, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    vec_push(&b->warnings, xstrdup(text));
}

/* 1 with the value of a key, 0 when it is not there, -1 when it is of another type.  remedy: what
 * to write instead. */
static int take_typed(const struct json *obj, const char *key, const char *where,
                      enum json_type type, const char *remedy, const struct json **out,
                      struct err *e)
{
    const struct json *v = json_get(obj, key);

    if (v && json_type(v) != type)
        return err_set(e, ERR_INVALID, "%s%s is %s; write %s", where, key,
                       json_type_name(json_type(v)), remedy);
    *out = v;
    return v ? 1 : 0;
}

int hyper_take_text(const struct json *obj, const char *key, const char *where, char **out,
                    struct err *e)
{
    const struct json *v;
    int rc = take_typed(obj, key, where, JSON_STR, "a text", &v, e);

    if (rc <= 0)
        return rc;
    if (memchr(json_str(v).p, 0, json_str(v).n))
        return err_set(e, ERR_INVALID, "%s%s contains a NUL character; remove it", where, key);
    free(*out);
    *out = xstrndup(json_str(v).p, json_str(v).n);
    return 0;
}

int hyper_take_bool(const struct json *obj, const char *key, const char *where, bool *out,
                    struct err *e)
{
    const struct json *v;
    int rc = take_typed(obj, key, where, JSON_BOOL, "true or false", &v, e);

    if (rc > 0)
        *out = json_bool(v);
    return MIN(rc, 0);
}

int hyper_take_int(const struct json *obj, const char *key, const char *where, int64_t min,
                   int64_t max, int *out, struct err *e)
{
    const struct json *v = json_get(obj, key);

    if (!v)
        return 0;
    if (json_type(v) != JSON_INT || json_int(v) < min || json_int(v) > max)
        return err_set(e, ERR_INVALID, "%s%s must be a whole number from %lld to %lld", where, key,
                       (long long)min, (long long)max);
    *out = (int)json_int(v);
    return 0;
}

int hyper_take_object(const struct json *obj, const char *key, const char *where,
                      const struct json **out, struct err *e)
{
    return MIN(take_typed(obj, key, where, JSON_OBJECT, "an object", out, e), 0);
}

const char *hyper_unknown_key(const struct json *obj, const char *const *known)
{
    for (struct json_it it = {0}; json_next(obj, &it);) {
        size_t i = 0;
        while (known[i] && strcmp(known[i], it.key) != 0)
            i++;
        if (!known[i])
            return it.key;
    }
    return NULL;
}

/* NULL when neither HOME nor the user database says. */
static const char *home_dir(void)
{
    const char *home = getenv("HOME");
    const struct passwd *pw = home && *home ? NULL : getpwuid(getuid());

    return home && *home ? home : pw ? pw->pw_dir : NULL;
}

char *hyper_path(struct str path, const char *cwd)
{
    AUTO_FREE char *text = xstrndup(path.p, path.n);
    const char *home = home_dir();

    if (home && *home && text[0] == '~' && (!text[1] || text[1] == '/'))
        return text[1] ? xasprintf("%s%s", home, text + 1) : xstrdup(home);
    return path_absolute(text, cwd);
}

void hyper_id_make(char out[HYPER_ID_LEN + 1])
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    uint8_t raw[HYPER_ID_LEN];

    random_bytes(raw, sizeof(raw));
    for (size_t i = 0; i < HYPER_ID_LEN; i++) {
        while (raw[i] >= 256 / 62 * 62) /* every letter equally often */
            random_bytes(&raw[i], 1);
        out[i] = letters[raw[i] % 62];
    }
    out[HYPER_ID_LEN] = 0;
}

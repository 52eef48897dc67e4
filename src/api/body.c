/* body.c - the JSON body of a request, member by member
 *
 * Owns: the words in which a member of the wrong type is refused.  Every message names the member
 * and what was expected, so that a client can correct the request without the documentation.
 */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "base/json.h"

struct json *body_object(struct call *c)
{
    AUTO(json) struct json *j = call_json_body(c);

    if (j && json_type(j) != JSON_OBJECT)
        err_set(&c->err, ERR_INVALID, "the body must be a JSON object, not %s",
                json_type_name(json_type(j)));
    return c->err.code == ERR_NONE ? TAKE(j) : NULL;
}

int body_check_keys(const struct json *body, const char *const *keys, size_t n, struct err *e)
{
    for (struct json_it it = {0}; json_next(body, &it);) {
        bool known = false;
        for (size_t i = 0; i < n; i++)
            known |= !strcmp(it.key, keys[i]);
        if (known)
            continue;
        const char *near = str_nearest(it.key, keys, n);
        return err_set(e, ERR_INVALID, "%.60s: unknown key%s%s%s", it.key,
                       near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    }
    return 0;
}

int body_wrong_type(struct call *c, const char *key, const struct json *v, const char *wanted)
{
    return err_set(&c->err, ERR_INVALID, "%s: must be %s, not %s", key, wanted,
                   json_type_name(json_type(v)));
}

int body_text(struct call *c, const struct json *body, const char *key, struct str *out)
{
    const struct json *v = json_get(body, key);

    if (v && json_type(v) != JSON_STR)
        return body_wrong_type(c, key, v, "a string");
    *out = v ? json_str(v) : STR("");
    return 0;
}

int body_int(struct call *c, const struct json *body, const char *key, int64_t min, int64_t max,
             int64_t *out)
{
    const struct json *v = json_get(body, key);

    if (!v)
        return 0;
    if (json_type(v) != JSON_INT)
        return body_wrong_type(c, key, v, "a whole number");
    if (json_int(v) < min || json_int(v) > max)
        return err_set(&c->err, ERR_INVALID, "%s: must be from %lld to %lld", key, (long long)min,
                       (long long)max);
    *out = json_int(v);
    return 0;
}

int body_job_ref(const struct json *v, char number[BODY_NUMBER_MAX], struct str *out, struct err *e)
{
    if (json_type(v) == JSON_STR) {
        *out = json_str(v);
        return 0;
    }
    if (json_type(v) != JSON_INT)
        return err_set(e, ERR_INVALID, "must be a job's number or id, not %s",
                       json_type_name(json_type(v)));
    snprintf(number, BODY_NUMBER_MAX, "%lld", (long long)json_int(v));
    *out = str_of(number);
    return 0;
}

void acted_reply(struct call *c, const struct err *e, const struct acted *r, size_t members)
{
    static const char *const keys[] = {"done", "already", "denied", "unknown"};

    if (e) {
        call_fail(c, e);
        return;
    }
    const size_t values[] = {r->done, r->already, r->denied, r->unknown};
    jw_object(&c->out, NULL);
    for (size_t i = 0; i < members; i++)
        jw_int(&c->out, keys[i], (int64_t)values[i]);
    jw_end_object(&c->out);
    call_reply(c);
}

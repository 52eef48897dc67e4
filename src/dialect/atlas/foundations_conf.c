/* foundations_conf.c - submission configs, and calls to the scheduler one of them names
 *
 * <name>.config.yaml is looked for in config/submission of the directory at hand and then of the
 * home.  Of all its keys only scheduler_url must be there: paths are those of the scheduler's
 * machine, and our server knows its own.
 */
#include "base/file.h"
#include "base/util.h"
#include "base/yaml.h"
#include "dialect/atlas/config.h"
#include "dialect/atlas/foundations.h"
#include "dialect/atlas/home.h"
#include <stdio.h>

enum { TEXT_MAX = 1 << 20 };

/* *out stays NULL when there is no such file. */
static int read_from(struct foundations *f, const char *dir, const char *name, struct json **out,
                     struct err *e)
{
    AUTO_FREE char *path = xasprintf("%s/" ATLAS_DIR_SUBMISSION "/%s.config.yaml", dir, name);

    if (access(path, F_OK) < 0)
        return 0;
    found_step(f, "reading %s", path);
    return atlas_config_read(path, ATLAS_CONFIG_SUBMISSION, found_note_warning, f, out, e);
}

int found_conf_find(struct foundations *f, const char *dir, const char *name, struct json **out,
                    struct err *e)
{
    *out = NULL;
    if (!*name || strchr(name, '/')) /* a name, never a way out of the directory */
        return err_set(e, ERR_NOT_FOUND, "the name of a config has no '/'");
    if (read_from(f, dir, name, out, e) < 0)
        return -1;
    if (!*out && read_from(f, f->home, name, out, e) < 0)
        return -1;
    return *out ? 0 : err_set(e, ERR_NOT_FOUND, "there is no such submission config");
}

/* ---- the token of a login ---- */

/* FOUNDATIONS_TOKEN wins over the file of `foundations login`.  Yours; NULL = no login, or a file
 * that cannot be read. */
static char *read_token(struct foundations *f)
{
    AUTO_FREE char *path = path_join(f->home, "credentials.yaml"), *text = NULL;
    const char *set = getenv("FOUNDATIONS_TOKEN");
    AUTO(json) struct json *doc = NULL;
    struct err e = {0};
    size_t n;

    if (set && *set)
        return xstrdup(set);
    if (file_read_all(path, TEXT_MAX, &text, &n, &e) < 0)
        return NULL;
    if (yaml_parse((struct str){text, n}, path, &doc, &e) < 0) {
        found_log(f, FOUND_WARNING, "%s; log in again with `foundations login`", e.text);
        return NULL;
    }
    struct str token = json_get_str(json_get(doc, "default"), "token");
    return token.n ? xstrndup(token.p, token.n) : NULL;
}

/* The client and the token live as long as the command. */
int found_connect(struct foundations *f, const char *dir, const char *name, struct json **out)
{
    AUTO(json) struct json *conf = NULL;
    struct err e = {0};

    if (found_conf_find(f, dir, name, &conf, &e) < 0) {
        if (e.code != ERR_NOT_FOUND)
            return found_fail(f, &e);
        found_say(f, "Could not find submission configuration with name: `%s`", name);
        return 1;
    }
    struct str url = json_get_str(conf, "scheduler_url");
    if (!url.n) {
        err_set(&e, ERR_INVALID,
                "submission config `%s` has no scheduler_url; add a line such as scheduler_url: "
                "http://localhost:%d",
                name, ATLAS_SCHEDULER_PORT);
        return found_fail(f, &e);
    }
    f->token = read_token(f);
    f->http = http_client_new(url.p, f->token, NULL);
    found_step(f, "the scheduler of `%s` is " STR_FMT, name, STR_ARG(url));
    if (out)
        *out = TAKE(conf);
    return 0;
}

/* ---- calls ---- */

/* Keeps every other error as it is. */
int found_unreachable(struct err *e)
{
    char why[sizeof(e->text)];

    if (e->code != ERR_UNAVAILABLE)
        return -1;
    snprintf(why, sizeof(why), "%s", e->text);
    return err_set(e, ERR_UNAVAILABLE,
                   "Cannot currently find Atlas server. Start Atlas server with `atlas-server "
                   "start`. (%.140s)",
                   why);
}

int found_call(struct foundations *f, const char *method, const char *path, const struct json *body,
               struct http_response *out, struct err *e)
{
    AUTO_FREE char *text = body ? json_text(body) : NULL;
    struct http_response r = {0};

    found_step(f, "%s %s", method, path);
    if (http_call(f->http, method, path, NULL, str_of(text ? text : ""), &r, e) < 0)
        return found_unreachable(e);
    if (http_response_err(&r, e) < 0) {
        http_response_done(&r);
        return -1;
    }
    if (out)
        *out = r;
    else
        http_response_done(&r);
    return 0;
}

void found_job_path(struct buf *path, const char *before, const char *id, const char *after)
{
    buf_init(path, TEXT_MAX);
    buf_adds(path, before);
    url_encode(path, str_of(id));
    buf_adds(path, after);
}

int found_job(struct foundations *f, const char *id, struct json **out, struct err *e)
{
    AUTO(buf) struct buf path = {0};
    struct http_response r = {0};

    found_job_path(&path, "/jobs/", id, "?logs=0");
    if (found_call(f, "GET", path.p, NULL, &r, e) < 0)
        return -1;
    int rc = json_parse(buf_str(&r.body), "the scheduler's answer", out, e);
    http_response_done(&r);
    if (rc == 0 && json_type(*out) != JSON_OBJECT) {
        json_free(TAKE(*out));
        rc = err_set(e, ERR_INTERNAL, "the scheduler answered with something that is not a job");
    }
    return rc;
}

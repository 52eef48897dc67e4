/* facts.c - what the daemon tells the process of a container about its run
 *
 * core/container.c writes it, as one JSON object in the environment: that is private to the user,
 * leaves nothing on disk and reaches every place where runs start.  The variables of the job stand
 * in it as a list, not around it, since those of the container (LD_PRELOAD, PYTHONPATH, …) must not
 * act on a program of the host.
 */
#include "backend/docker/docker_priv.h"
#include <inttypes.h>
#include <stdio.h>

static void container_name(const char *home, struct run_key key, char out[CONTAINER_NAME_MAX])
{
    int n = snprintf(out, CONTAINER_NAME_MAX, "berth-%.32s-%" PRIu64 "-%" PRIu32, home, key.job,
                     key.run);

    if (key.tag)
        snprintf(out + n, (size_t)(CONTAINER_NAME_MAX - n), "-%08" PRIx32, key.tag);
}

bool network_is_host(const char *name)
{
    return name && !strcmp(name, "host");
}

/* In the arena of f; NULL when the key is missing or not a text. */
static const char *text(struct facts *f, const struct json *from, const char *key)
{
    const struct json *v = json_get(from, key);

    return json_type(v) == JSON_STR ? arena_strndup(&f->mem, json_str(v).p, json_str(v).n) : NULL;
}

/* 0 when the key is missing or not an integer. */
static int64_t fact_number(const struct json *from, const char *key)
{
    const struct json *v = json_get(from, key);

    return json_type(v) == JSON_INT ? json_int(v) : 0;
}

const char *facts_own(struct facts *f, const char *key)
{
    return text(f, f->own, key);
}

bool facts_flag(const struct facts *f, const char *key, bool otherwise)
{
    const struct json *v = json_get(f->own, key);

    return json_type(v) == JSON_BOOL ? json_bool(v) : otherwise;
}

int facts_parse(struct facts *f, struct str json, struct err *e)
{
    *f = (struct facts){0};
    if (json_parse(json, CONTAINER_FACTS, &f->doc, e) < 0)
        return -1;
    const struct json *d = f->doc;
    f->own = json_get(d, "container");
    f->engine = text(f, d, "engine");
    f->home = text(f, d, "home");
    f->image = text(f, d, "image");
    f->workdir = text(f, d, "workdir");
    f->run_dir = text(f, d, "run_dir");
    f->endpoint = text(f, d, "endpoint");
    f->ports_addr = text(f, d, "ports_addr");
    f->key = (struct run_key){(uint64_t)fact_number(d, "job"), (uint32_t)fact_number(d, "run"),
                              (uint32_t)fact_number(d, "tag")};
    f->mem_bytes = fact_number(d, "mem");
    f->mcpu = fact_number(d, "mcpu");
    f->grace_ms = fact_number(d, "grace_ms");
    f->uid = (uint32_t)fact_number(d, "uid");
    f->gid = (uint32_t)fact_number(d, "gid");
    if (f->home && f->image && f->run_dir && f->key.job && f->key.run) {
        container_name(f->home, f->key, f->name);
        return 0;
    }
    facts_done(f);
    return err_set(e, ERR_INVALID,
                   CONTAINER_FACTS " is not complete: this command is started by "
                                   "the daemon for jobs with an image");
}

void facts_done(struct facts *f)
{
    json_free(f->doc);
    arena_done(&f->mem);
    *f = (struct facts){0};
}

/* sweep.c - what containers leave behind: themselves when their process was killed, and files
 *
 * A container belongs to a run by its labels.  Its process holds the run's lock, through the
 * supervisor, from before the container is made until after it is removed; so one whose run is not
 * locked has nobody left.  Containers without our label are never touched.
 */
#include "backend/docker/docker_priv.h"
#include "base/file.h"
#include "base/util.h"
#include "shepherd/proto.h"
#include "shepherd/run_lock.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

enum { IMAGES_TRIED = 8, CLEAN_MS = 10 * 60 * 1000 };
#define CLEAN_AT "/berth-clean"

/* ---- containers ---- */

struct over { /* known to be over, though their lock may be held for another moment */
    const struct run_key *keys;
    size_t n;
};

/* A holder that cannot be named (-1) counts as alive. */
static bool is_over(int locks_fd, struct run_key key, const struct over *over)
{
    uint64_t id;

    for (size_t i = 0; i < over->n; i++)
        if (run_key_eq(key, over->keys[i]))
            return true;
    return run_key_pack(key, &id) && run_lock_holder(locks_fd, id) == 0;
}

/* Goes on after a failure; the error is that of the last one. */
static int sweep_list(const struct engine *g, const struct json *list, int locks_fd,
                      const struct over *over, size_t *removed, struct err *e)
{
    int rc = 0;

    for (size_t i = 0; i < json_len(list); i++) {
        const struct json *one = json_at(list, i), *id = json_get(one, "Id");
        struct run_key key;
        if (json_type(id) != JSON_STR || !container_key(one, &key) || !is_over(locks_fd, key, over))
            continue;
        AUTO_FREE char *name = xstrndup(json_str(id).p, json_str(id).n);
        if (container_remove(g, name, e) < 0)
            rc = -1;
        else if (removed)
            (*removed)++;
    }
    return rc;
}

/* The file of locks is opened anew here: this process holds no record lock in it that closing
 * the descriptor could drop. */
int container_sweep(const char *engine, const char *home_id, const char *shepherd_dir,
                    const struct run_key *over, size_t n_over, size_t *removed, struct err *e)
{
    struct engine g = {.path = engine_find(engine, e)};
    AUTO_FREE char *path = path_join(shepherd_dir, "runs.lock");
    AUTO(json) struct json *list = NULL;

    if (!g.path)
        return -1;
    AUTO_FD locks = open(path, O_RDWR | O_CLOEXEC);
    int rc = 0;
    if (locks >= 0)
        rc = containers_of(&g, home_id, 0, &list, e);
    else if (errno != ENOENT) /* else no run was ever started */
        rc = err_sys(e, "cannot open %s", path);
    if (rc == 0)
        rc = sweep_list(&g, list, locks, &(struct over){over, n_over}, removed, e);
    engine_done(&g);
    return rc;
}

/* ---- files ---- */

/* A container without network, as root inside, that sees nothing of the host but `dir`. */
static struct json *clean_body(const char *image, const char *dir)
{
    struct json *body = json_new_object(), *host = json_new_object(), *binds = json_new_array(),
                *entry = json_new_array(), *words = json_new_array();
    AUTO_FREE char *bind = xasprintf("%s:" CLEAN_AT, dir);

    json_set_str(body, "Image", image);
    json_set_str(body, "User", "0:0");
    json_set_str(body, "WorkingDir", "/");
    json_push_take(entry, json_new_str(STR("/bin/sh")));
    json_set_take(body, "Entrypoint", entry);
    json_push_take(words, json_new_str(STR("-c")));
    json_push_take(
        words, json_new_str(STR("rm -rf " CLEAN_AT "/* " CLEAN_AT "/.[!.]* " CLEAN_AT "/..?*")));
    json_set_take(body, "Cmd", words);
    json_push_take(binds, json_new_str(str_of(bind)));
    json_set_take(host, "Binds", binds);
    json_set_str(host, "NetworkMode", "none");
    json_set_take(body, "HostConfig", host);
    return body;
}

/* Waits until the container has ended, CLEAN_MS at most. */
static int clean_run(const struct engine *g, const char *id, struct err *e)
{
    AUTO_FREE char *start = engine_path("/containers/", id, "/start"),
                   *wait = engine_path("/containers/", id, "/wait?condition=not-running");
    AUTO(json) struct json *answer = NULL;
    int status, rc;

    if (engine_call(g, "POST", start, NULL, NULL, e) < 0 ||
        engine_ask(g, "POST", wait, NULL, CLEAN_MS, &status, &answer, e) < 0)
        return -1;
    const struct json *code = json_get(answer, "StatusCode");
    rc = json_type(code) == JSON_INT && json_int(code) == 0
             ? 0
             : err_set(e, ERR_INTERNAL, "the container that was to clean up failed");
    return rc;
}

/* Removes the container also after a failure. */
static int clean_with(const struct engine *g, const char *image, const char *dir, struct err *e)
{
    AUTO(json) struct json *body = clean_body(image, dir), *made = NULL;
    struct err ignored = {0};
    int rc = engine_call(g, "POST", "/containers/create", body, &made, e);

    if (rc < 0)
        return -1;
    const struct json *v = json_get(made, "Id");
    AUTO_FREE char *id = json_type(v) == JSON_STR ? xstrndup(json_str(v).p, json_str(v).n) : NULL;
    if (!id)
        return err_set(e, ERR_UNAVAILABLE, "the container engine gave no id");
    rc = clean_run(g, id, e);
    container_remove(g, id, &ignored);
    return rc;
}

/* With whatever image there is that has a shell. */
static int clean_with_any(const struct engine *g, const char *dir, struct err *e)
{
    AUTO(json) struct json *list = NULL;
    int rc = -1;

    if (engine_call(g, "GET", "/images/json", NULL, &list, e) < 0)
        return -1;
    err_set(e, ERR_NOT_FOUND, "the container engine has no image that could remove the files");
    for (size_t i = 0; i < json_len(list) && i < IMAGES_TRIED && rc < 0; i++) {
        const struct json *id = json_get(json_at(list, i), "Id");
        if (json_type(id) != JSON_STR)
            continue;
        AUTO_FREE char *image = xstrndup(json_str(id).p, json_str(id).n);
        rc = clean_with(g, image, dir, e);
    }
    return rc;
}

int container_clean_dir(const char *engine, const char *image, const char *dir, struct err *e)
{
    struct engine g = {0};
    int rc = -1;

    if (dir_remove_tree(dir, e) == 0)
        return 0;
    if (dir[0] != '/' || strchr(dir, ':')) /* no engine mounts such a path */
        return -1;
    if (geteuid() == 0 || (g.path = engine_find(engine, e)) == NULL)
        return -1; /* root is not helped by a container */
    if (image)
        rc = clean_with(&g, image, dir, e);
    if (rc < 0)
        rc = clean_with_any(&g, dir, e);
    engine_done(&g);
    if (rc < 0)
        return err_wrap(e, "removing %.80s, where a container left files that are not ours", dir);
    return dir_remove_tree(dir, e);
}

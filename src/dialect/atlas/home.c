/* home.c - the skeleton of $FOUNDATIONS_HOME, made when it is first needed
 *
 * Owns: the directories and the text of the default configs.  Nothing that exists is changed: these
 * files are the user's from the moment they are there.
 */
#include "dialect/atlas/home.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_out.h"
#include "base/util.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

enum { CONFIG_MAX = 64 << 10, DIR_MODE = 0755, FILE_MODE = 0644 };

static const char *const dirs[] = {
    ATLAS_DIR_SUBMISSION,
    ATLAS_DIR_EXECUTION,
    (ATLAS_DIR_WORKER_CONFIG "/submission"),
    (ATLAS_DIR_WORKER_CONFIG "/execution"),
    ATLAS_DIR_ARCHIVE,
    ATLAS_DIR_BUNDLES,
    ATLAS_DIR_WORK,
    ATLAS_DIR_DATABASE,
    ATLAS_DIR_TENSORBOARD,
    ATLAS_DIR_LOGS,
};

/* FOUNDATIONS_HOME may begin with ~/ where no shell has expanded it. */
char *atlas_home(void)
{
    const char *set = getenv("FOUNDATIONS_HOME"), *user = getenv("HOME");
    char cwd[4096];

    if (!set || !*set)
        return user && *user ? path_join(user, ".foundations") : NULL;
    if (set[0] == '~' && set[1] == '/' && user && *user)
        return path_join(user, set + 2);
    return path_absolute(set, getcwd(cwd, sizeof(cwd)) ? cwd : "/");
}

/* ---- ids ---- */

/* "_20261116_063000" */
static bool is_firing(const char *text)
{
    for (int i = 0; i < ATLAS_ID_LEN - ID_UUID_LEN; i++)
        if (i == 0 || i == 9 ? text[i] != '_' : text[i] < '0' || text[i] > '9')
            return false;
    return true;
}

/* The id of a scheduled run is longer than a UUID; its hash is the id in the store. */
bool atlas_id_parse(const char *text, struct id *out)
{
    size_t n = strlen(text);
    char whole[ATLAS_ID_MAX];
    uint8_t sum[32];
    struct sha256 s;

    if (n != ID_UUID_LEN && (n != ATLAS_ID_LEN || !is_firing(text + ID_UUID_LEN)))
        return false;
    if (!id_parse((struct str){text, ID_UUID_LEN}, out))
        return false;
    if (n == ID_UUID_LEN)
        return true;
    id_format_uuid(*out, whole);
    snprintf(whole + ID_UUID_LEN, sizeof(whole) - ID_UUID_LEN, "%s", text + ID_UUID_LEN);
    sha256_init(&s);
    sha256_add(&s, whole, ATLAS_ID_LEN);
    sha256_end(&s, sum);
    *out = id_from_bytes(sum);
    return true;
}

bool atlas_id_ok(const char *text)
{
    struct id id;

    return atlas_id_parse(text, &id);
}

/* A scheduled run has its own id as its name; it counts only if it hashes to the id of the job. */
void atlas_id_format(struct id id, struct str name, char out[ATLAS_ID_MAX])
{
    struct id made;

    id_format_uuid(id, out);
    if (name.n != ATLAS_ID_LEN)
        return;
    char text[ATLAS_ID_MAX];
    memcpy(text, name.p, ATLAS_ID_LEN);
    text[ATLAS_ID_LEN] = 0;
    if (atlas_id_parse(text, &made) && id_cmp(made, id) == 0)
        memcpy(out, text, sizeof(text));
}

/* ---- the skeleton ---- */

struct making {
    const char *home;
    int port;
    atlas_made_fn made;
    void *arg;
};

/* A directory that exists is left as it is. */
static int home_make_dir(const struct making *m, const char *name, struct err *e)
{
    AUTO_FREE char *path = path_join(m->home, name);
    struct stat st;

    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return 0;
        return err_set(e, ERR_CONFLICT, "%s is in the way: it is not a directory", path);
    }
    /* The database holds secrets of the server; the rest is as open as the user's umask has it. */
    if (dir_make_all(path, strcmp(name, ATLAS_DIR_DATABASE) ? DIR_MODE : 0700, e) < 0)
        return -1;
    if (m->made)
        m->made(m->arg, path);
    return 0;
}

/* A file that exists is left as it is. */
static int home_make_file(const struct making *m, const char *name, const struct buf *text,
                          struct err *e)
{
    AUTO_FREE char *path = path_join(m->home, name);

    if (access(path, F_OK) == 0)
        return 0;
    if (file_write_atomic(path, text->p, text->n, FILE_MODE, e) < 0)
        return err_wrap(e, "writing the default of %s", name);
    if (m->made)
        m->made(m->arg, path);
    return 0;
}

/* A path with special characters is quoted as JSON, which is YAML too. */
static void home_add_path(struct buf *b, const char *key, const char *home, const char *dir)
{
    AUTO_FREE char *path = path_join(home, dir);

    buf_addf(b, "%s: ", key);
    if (strpbrk(path, ":#{}[],&*!|>'\"%@`\\ \t\n"))
        jw_str(b, NULL, str_of(path)); /* JSON text is YAML too */
    else
        buf_adds(b, path);
    buf_addc(b, '\n');
}

/* The same two files for the user's commands and for the workers. */
static int make_configs(const struct making *m, struct err *e)
{
    AUTO(buf) struct buf submission = {0}, execution = {0};
    int port = m->port ? m->port : ATLAS_SCHEDULER_PORT;

    buf_init(&submission, CONFIG_MAX);
    buf_adds(&submission, "cache_config:\n  end_point: /cache_end_point\n");
    home_add_path(&submission, "container_config_root", m->home, ATLAS_DIR_WORKER_CONFIG);
    buf_adds(&submission, "job_deployment_env: local_docker_scheduler_plugin\n");
    home_add_path(&submission, "job_results_root", m->home, ATLAS_DIR_RESULTS);
    buf_addf(&submission, "scheduler_url: http://localhost:%d\n", port);
    home_add_path(&submission, "working_dir_root", m->home, ATLAS_DIR_WORK);
    buf_init(&execution, CONFIG_MAX);
    buf_addf(&execution, "results_config:\n  tracker_url: http://localhost:%d\n  ", port);
    home_add_path(&execution, "archive_end_point", m->home, ATLAS_DIR_RESULTS);
    buf_adds(&execution, "cache_config:\n  end_point: /cache_end_point\nlog_level: INFO\n");
    if (home_make_file(m, ATLAS_DIR_SUBMISSION "/scheduler.config.yaml", &submission, e) < 0 ||
        home_make_file(m, ATLAS_DIR_EXECUTION "/default.config.yaml", &execution, e) < 0 ||
        home_make_file(m, ATLAS_DIR_WORKER_CONFIG "/submission/scheduler.config.yaml", &submission,
                       e) < 0)
        return -1;
    return home_make_file(m, ATLAS_DIR_WORKER_CONFIG "/execution/default.config.yaml", &execution,
                          e);
}

int atlas_home_make(const char *home, int port, atlas_made_fn made, void *arg, struct err *e)
{
    const struct making m = {home, port, made, arg};

    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
        if (home_make_dir(&m, dirs[i], e) < 0)
            return err_wrap(e, "preparing %s", home);
    return make_configs(&m, e);
}

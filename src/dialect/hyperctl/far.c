/* far.c - batches on other machines: who they are, are they there, where output goes
 *
 * A machine is a node of the scheduler for as long as the batch runs, and takes nothing but its
 * jobs.  What is said of the machine may hold a password, so it is handed over in memory and
 * recorded nowhere: a scheduler that was started anew is told again.
 *
 * Output arrives in the scheduler's home while a job runs.  {J}/stdout and {J}/stderr are the same
 * files under another name, so they grow with it and stay when the home goes.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/util.h"
#include "cli/view.h"
#include "core/core.h"
#include "dialect/hyperctl/run.h"
#include "host/home.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

enum {
    NAP_MS = 20,
    TEST_MS = 120000, /* ssh itself gives up on a silent host long before */
    COPY_PIECE = 1 << 20,
    PATH_TEXT_MAX = 4096,
};
#define FAR_DIR "hyperctl-batches-data-dir" /* below the home of the login */

/* ---- the machines as nodes ---- */

/* "~" is the home of the login, where relative paths begin. */
static const char *data_dir(const struct hyper_machine *m)
{
    const char *dir = m->data_dir ? m->data_dir : FAR_DIR;

    if (dir[0] != '~' || (dir[1] && dir[1] != '/'))
        return dir;
    return dir[1] && dir[2] ? dir + 2 : ".";
}

/* A text that is NULL becomes null, which counts as absent. */
static struct json *node_conf(const struct hyper_machine *m, const char *python)
{
    struct json *c = json_new_object();

    bool v6 = strchr(m->hostname, ':') != NULL;
    AUTO_FREE char *url =
        xasprintf("ssh://%s@%s%s%s", m->username, v6 ? "[" : "", m->hostname, v6 ? "]" : "");

    json_set_str(c, "name", m->node);
    json_set_str(c, "url", url);
    if (m->port_given)
        json_set_int(c, "port", m->port);
    json_set_int(c, "slots", m->slots);
    json_set_str(c, "stage_root", data_dir(m));
    json_set_str(c, "identity", m->key_file);
    json_set_str(c, "password", m->password);
    json_set_str(c, "passphrase", m->passphrase);
    json_set_str(c, "host_key", m->host_key);
    json_set_str(c, "known_hosts", m->known_hosts);
    json_set_take(c, "accept_new", json_new_bool(m->accept_new));
    /* transient: gone with the batch.  reserved: only jobs that name the node.  recorded: never
     * stored. */
    json_set_take(c, "transient", json_new_bool(true));
    json_set_take(c, "reserved", json_new_bool(true));
    json_set_take(c, "recorded", json_new_bool(false));
    json_set_str(c, "agent", getenv("SSH_AUTH_SOCK"));
    json_set_str(c, "python_path", python);
    return c;
}

struct json *hyper_far_nodes(const struct hyper_batch *b)
{
    struct json *list = json_new_array();
    AUTO_FREE char *python = home_python_path();

    for (size_t i = 0; i < b->machines.n; i++) {
        struct json *o = json_new_object();
        json_set_str(o, "name", b->machines.p[i].node);
        json_set_take(o, "conf", node_conf(&b->machines.p[i], python));
        json_push_take(list, o);
    }
    return list;
}

/* ---- lent to a daemon, and taken back ---- */

/* Without `force` the daemon refuses while jobs run on the node. */
static int node_forget(struct cli *c, struct str name, bool force, struct err *e)
{
    AUTO(buf) struct buf path = {0};

    buf_init(&path, PATH_TEXT_MAX);
    buf_adds(&path, "/v1/nodes/");
    url_encode(&path, name);
    buf_adds(&path, force ? "?force=1" : "");
    return cli_call(c, "DELETE", path.p, NULL, NULL, NULL, e);
}

/* Tells the daemon of one machine. */
static int node_lend(struct cli *c, const struct json *node, struct err *e)
{
    return cli_post(c, "/v1/nodes", json_get(node, "conf"), NULL, e);
}

/* ERR_CONFLICT means that the daemon knows the node already. */
int hyper_far_lend(struct cli *c, const struct json *nodes, bool anew, struct err *e)
{
    for (size_t i = 0; i < json_len(nodes); i++) {
        const struct json *node = json_at(nodes, i);
        if (node_lend(c, node, e) == 0)
            continue;
        if (e->code != ERR_CONFLICT)
            return -1;
        /* An earlier owner's, maybe with another password; while it has runs it works. */
        if (anew && node_forget(c, json_str(json_get(node, "name")), false, e) == 0 &&
            node_lend(c, node, e) < 0)
            return -1;
    }
    return 0;
}

void hyper_far_take_back(struct cli *c, const struct json *nodes)
{
    struct err ignored = {0};

    c->unreachable = NULL; /* a daemon that is gone knows them no more */
    for (size_t i = 0; i < json_len(nodes); i++)
        node_forget(c, json_str(json_get(json_at(nodes, i), "name")), false, &ignored);
}

/* ---- machines that are in the batch no more ---- */

int hyper_far_forget(struct cli *c, const struct hyper_batch *b, struct err *e)
{
    AUTO(json) struct json *nodes = NULL;
    int rc = cli_get(c, "/v1/nodes", &nodes, e);
    const struct json *items = json_get(nodes, "items");

    for (size_t i = 0; rc == 0 && i < json_len(items); i++) {
        struct str name = text_of(json_at(items, i), "name");
        AUTO_FREE char *text = xstrndup(name.p, name.n);
        if (str_starts(name, str_of(b->node_prefix)) && !hyper_batch_machine(b, text))
            rc = node_forget(c, name, true, e);
    }
    return rc;
}

/* ---- are they there? ---- */

/* open: machines without a result yet.  good: machines that answered.  last: the last failure. */
struct testing {
    const struct hyper_batch *b;
    bool *known; /* per machine: how it went was said */
    size_t open, good;
    void (*say)(void *arg, bool bad, const char *text);
    void *arg;
    char last[160];
};

/* The SSH backend names options of `berth node add`; in a batch file they are keys.  Yours. */
static char *batch_file_words(const char *why)
{
    static const char *const words[][2] = {{"--accept-new", "host_keys: \"accept-new\""},
                                           {"--identity", "ssh_rsa_file"}};
    AUTO(buf) struct buf text = {0};

    buf_init(&text, PATH_TEXT_MAX);
    while (*why) {
        size_t i = 0;
        while (i < ARRAY_SIZE(words) && strncmp(why, words[i][0], strlen(words[i][0])) != 0)
            i++;
        if (i < ARRAY_SIZE(words)) {
            buf_addf(&text, "connection.%s", words[i][1]);
            why += strlen(words[i][0]);
        } else {
            buf_addc(&text, *why++);
        }
    }
    return xstrdup(buf_str(&text).p);
}

/* Logs how the first connection went, once for each machine. */
static void machine_test_result(struct testing *t, size_t i, bool good, const char *why)
{
    const struct hyper_machine *m = &t->b->machines.p[i];
    AUTO_FREE char *text = good ? xasprintf("connected to %s@%s port %d, %d slot%s", m->username,
                                            m->hostname, m->port, m->slots, m->slots > 1 ? "s" : "")
                                : xasprintf("test connection failed: %s@%s port %d: %s",
                                            m->username, m->hostname, m->port, why);

    t->known[i] = true;
    t->open--;
    t->good += good;
    if (!good)
        snprintf(t->last, sizeof(t->last), "%s", why);
    t->say(t->arg, !good, text);
}

/* Looks at one node of the scheduler; nodes of other batches are left out. */
static void machine_test(struct testing *t, const struct json *node)
{
    AUTO_FREE char *name = xstrndup(text_of(node, "name").p, text_of(node, "name").n);
    AUTO_FREE char *trouble = xstrndup(text_of(node, "trouble").p, text_of(node, "trouble").n);
    AUTO_FREE char *why = batch_file_words(trouble);
    const struct hyper_machine *m = hyper_batch_machine(t->b, name);

    if (!m || t->known[m - t->b->machines.p])
        return;
    size_t i = (size_t)(m - t->b->machines.p);
    if (!str_eq_c(text_of(node, "state"), "away"))
        machine_test_result(t, i, true, NULL);
    else if (json_get(node, "retry_in_ms")) /* else it is still being tried */
        machine_test_result(t, i, false, why);
}

int hyper_far_test(struct cli *c, const struct hyper_batch *b, const atomic_bool *stop,
                   void (*say)(void *arg, bool bad, const char *text), void *arg, struct err *e)
{
    int64_t until = clock_mono(&clock_system) + TEST_MS;
    AUTO_FREE bool *known = xcalloc(b->machines.n + 1, sizeof(*known));
    struct testing t = {.b = b, .known = known, .open = b->machines.n, .say = say, .arg = arg};

    while (t.open && !atomic_load(stop)) {
        AUTO(json) struct json *nodes = NULL;
        if (cli_get(c, "/v1/nodes", &nodes, e) < 0)
            return -1;
        const struct json *items = json_get(nodes, "items");
        for (size_t i = 0; i < json_len(items); i++)
            machine_test(&t, json_at(items, i));
        if (clock_mono(&clock_system) > until)
            for (size_t i = 0; i < b->machines.n; i++)
                if (!known[i])
                    machine_test_result(&t, i, false, "no answer");
        if (t.open)
            poll(NULL, 0, NAP_MS);
    }
    if (t.good || atomic_load(stop))
        return 0;
    if (b->machines.n == 1)
        return err_set(e, ERR_UNAVAILABLE, "the only machine cannot be used; no job was run: %s",
                       t.last);
    return err_set(e, ERR_UNAVAILABLE, "none of the %zu machines can be used; no job was run: %s",
                   b->machines.n, t.last);
}

/* ---- output ---- */

/* lstat: a symbolic link to the file is not the file. */
static bool same_inode(const char *a, const char *b)
{
    struct stat x, y;

    return lstat(a, &x) == 0 && lstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The file is complete under its name, or not there at all. */
static int copy_over(const char *from, const char *to, struct err *e)
{
    AUTO_FREE char *fresh = xasprintf("%s.new", to);
    AUTO_FD in = open(from, O_RDONLY | O_CLOEXEC);
    AUTO_FD out = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    ssize_t n = 0;

    if (out < 0)
        return err_sys(e, "cannot make %s", fresh);
    while (in >= 0 && (n = sendfile(out, in, NULL, COPY_PIECE)) > 0)
        ;
    if (n < 0)
        return err_sys(e, "cannot copy %s to %s", from, fresh);
    return rename(fresh, to) < 0 ? err_sys(e, "cannot make %s", to) : 0;
}

/* The file may not be there before its first byte has come, or may be on another disk: then a link
 * to its name stands in for it until the end. */
static int show_as(const char *from, const char *to, bool ended, struct err *e)
{
    if (same_inode(from, to))
        return 0;
    /* A link or file of an earlier run of the job. */
    unlink(to);
    if (link(from, to) == 0)
        return 0;
    if (ended)
        return copy_over(from, to, e);
    return symlink(from, to) < 0 ? err_sys(e, "cannot make %s", to) : 0;
}

int hyper_far_output(const char *home, const struct hyper_job *j, uint64_t number, uint32_t run,
                     bool ended, struct err *e)
{
    const struct run_key key = {number, run};
    AUTO_FREE char *out = core_run_file(home, key, ".log"), *err = core_run_file(home, key, ".err");
    AUTO_FREE char *to_out = hyper_job_file(j, "stdout"), *to_err = hyper_job_file(j, "stderr");

    if (show_as(out, to_out, ended, e) < 0)
        return -1;
    return show_as(err, to_err, ended, e);
}

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
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

enum {
    LOOK_MS = 20,     /* between two looks at machines that are being connected */
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

void hyper_far_init(struct hyper_run *r)
{
    AUTO_FREE char *python = home_python_path();

    if (!r->b->remote)
        return;
    r->far.confs = json_new_array();
    for (size_t i = 0; i < r->b->machines.n; i++)
        json_push_take(r->far.confs, node_conf(&r->b->machines.p[i], python));
}

static void names_clear(struct hyper_far *f)
{
    for (size_t i = 0; i < f->names.n; i++)
        free(f->names.p[i]);
    vec_clear(&f->names);
}

void hyper_far_done(struct hyper_run *r)
{
    names_clear(&r->far);
    vec_done(&r->far.names);
    timer_free(r->far.timer);
    free(r->far.known);
    json_free(r->far.confs);
}

/* ---- the scheduler is told of them ---- */

static const struct json *conf_at_hand(const struct hyper_run *r)
{
    return json_at(r->far.confs, r->far.at);
}

static void lend_next(struct hyper_run *r);

/* The second attempt, after an earlier owner's node of this name was forgotten. */
static void machine_lent_again(void *arg, const struct err *e, uint64_t number)
{
    struct hyper_run *r = arg;

    if (e) {
        hyper_step_done(r, e, number);
        return;
    }
    r->far.at++;
    lend_next(r);
}

/* A node that has runs is not forgotten: it works, so it stays as it is. */
static void machine_forgotten(void *arg, const struct err *e, uint64_t number)
{
    struct hyper_run *r = arg;

    if (e)
        machine_lent_again(r, NULL, number);
    else
        r->sched.link->ops->lend(r->sched.link, conf_at_hand(r), machine_lent_again, r);
}

/* ERR_CONFLICT means that the scheduler knows the node already: from us, or from an earlier owner,
 * maybe with another password. */
static void machine_lent(void *arg, const struct err *e, uint64_t number)
{
    struct hyper_run *r = arg;

    if (!e || e->code != ERR_CONFLICT)
        machine_lent_again(r, e, number);
    else if (r->far.told)
        machine_lent_again(r, NULL, number);
    else
        r->sched.link->ops->forget(r->sched.link, text_of(conf_at_hand(r), "name"), false,
                                   machine_forgotten, r);
}

static void lend_next(struct hyper_run *r)
{
    if (r->far.at < json_len(r->far.confs)) {
        r->sched.link->ops->lend(r->sched.link, conf_at_hand(r), machine_lent, r);
        return;
    }
    r->far.told = true;
    hyper_step_done(r, NULL, 0);
}

void hyper_step_lend(struct hyper_run *r)
{
    r->far.at = 0;
    lend_next(r);
}

/* ---- nodes that are not needed any more ---- */

/* One after the other; the last answer ends it. */
static void forget_next(void *arg, const struct err *e, uint64_t number)
{
    struct hyper_run *r = arg;
    struct hyper_far *f = &r->far;

    if ((e && f->strict) || f->at == f->names.n)
        f->then(r, f->strict ? e : NULL, number);
    else
        r->sched.link->ops->forget(r->sched.link, str_of(f->names.p[f->at++]), f->strict,
                                   forget_next, r);
}

static void forget_names(struct hyper_run *r, bool strict, hyper_done_fn then)
{
    r->far.at = 0;
    r->far.strict = strict;
    r->far.then = then;
    forget_next(r, NULL, 0);
}

void hyper_far_take_back(struct hyper_run *r, hyper_done_fn then)
{
    names_clear(&r->far);
    for (size_t i = 0; i < json_len(r->far.confs); i++)
        vec_push(&r->far.names, xstrdup(r->b->machines.p[i].node));
    forget_names(r, false, then);
}

/* A node with the prefix of this batch that is in the batch file no longer. */
static void keep_strange_node(void *arg, const struct hyper_node *n)
{
    struct hyper_run *r = arg;
    AUTO_FREE char *name = xstrndup(n->name.p, n->name.n);

    if (str_starts(n->name, str_of(r->b->node_prefix)) && !hyper_batch_machine(r->b, name))
        vec_push(&r->far.names, TAKE(name));
}

static void strange_nodes_listed(void *arg, const struct err *e, uint64_t number)
{
    if (e)
        hyper_step_done(arg, e, number);
    else
        forget_names(arg, true, hyper_step_done);
}

void hyper_step_forget(struct hyper_run *r)
{
    names_clear(&r->far);
    if (r->sched.leftover)
        r->sched.link->ops->nodes(r->sched.link, keep_strange_node, strange_nodes_listed, r);
    else
        hyper_step_done(r, NULL, 0);
}

/* ---- are they there? ---- */

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
static void machine_tested(struct hyper_run *r, size_t i, bool good, const char *why)
{
    const struct hyper_machine *m = &r->b->machines.p[i];

    r->far.known[i] = true;
    r->far.open--;
    r->far.good += good;
    if (good) {
        hyper_log(r->h, HYPER_INFO, "backend", "connected to %s@%s port %d, %d slot%s", m->username,
                  m->hostname, m->port, m->slots, m->slots > 1 ? "s" : "");
        return;
    }
    snprintf(r->far.last, sizeof(r->far.last), "%s", why);
    hyper_log(r->h, HYPER_WARN, "backend", "test connection failed: %s@%s port %d: %s", m->username,
              m->hostname, m->port, why);
}

/* Looks at one node of the scheduler; nodes of other batches are left out, and so are those that
 * are still being connected. */
static void machine_test(void *arg, const struct hyper_node *n)
{
    struct hyper_run *r = arg;
    AUTO_FREE char *name = xstrndup(n->name.p, n->name.n);
    AUTO_FREE char *trouble = xstrndup(n->trouble.p, n->trouble.n);
    AUTO_FREE char *why = batch_file_words(trouble);
    const struct hyper_machine *m = hyper_batch_machine(r->b, name);

    if (m && !r->far.known[m - r->b->machines.p] && (!n->away || n->failed))
        machine_tested(r, (size_t)(m - r->b->machines.p), !n->away, why);
}

/* One machine that works is enough for the batch to run. */
static void test_end(struct hyper_run *r)
{
    struct err e = {0}; /* not ERR_UNAVAILABLE: the scheduler itself answers */

    if (r->far.good || r->signo) {
        hyper_step_done(r, NULL, 0);
        return;
    }
    if (r->b->machines.n == 1)
        err_set(&e, ERR_INVALID, "the only machine cannot be used; no job was run: %s",
                r->far.last);
    else
        err_set(&e, ERR_INVALID, "none of the %zu machines can be used; no job was run: %s",
                r->b->machines.n, r->far.last);
    hyper_step_done(r, &e, 0);
}

/* All nodes were looked at once.  Machines that have not answered by until_ms count as failed. */
static void machines_seen(void *arg, const struct err *e, uint64_t number)
{
    struct hyper_run *r = arg;

    if (e) {
        hyper_step_done(r, e, number);
        return;
    }
    for (size_t i = 0; i < r->b->machines.n && clock_mono(&clock_system) > r->far.until_ms; i++)
        if (!r->far.known[i])
            machine_tested(r, i, false, "no answer");
    if (r->far.open && !r->signo)
        timer_start(r->far.timer, LOOK_MS, 0);
    else
        test_end(r);
}

static void machines_look(void *arg)
{
    struct hyper_run *r = arg;

    if (r->sched.active)
        r->sched.link->ops->nodes(r->sched.link, machine_test, machines_seen, r);
}

void hyper_step_test(struct hyper_run *r)
{
    if (!r->b->remote) {
        hyper_step_done(r, NULL, 0);
        return;
    }
    if (!r->far.timer) {
        r->far.timer = timer_new(r->loop, machines_look, r);
        r->far.known = xcalloc(r->b->machines.n + 1, sizeof(*r->far.known));
        r->far.open = r->b->machines.n;
        r->far.until_ms = clock_mono(&clock_system) + TEST_MS;
    }
    machines_look(r);
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

int hyper_far_output(const char *home, const struct hyper_job *j, uint32_t run, bool ended,
                     struct err *e)
{
    struct run_key key = {j->number, run, run_tag(j->id)};
    AUTO_FREE char *tagged = run_file_path(home, key, ".log");

    /* The scheduler makes its copies before it says that the run has started.  Runs of jobs that an
     * earlier version submitted have no tag. */
    if (access(tagged, F_OK) < 0)
        key.tag = 0;
    AUTO_FREE char *out = run_file_path(home, key, ".log"), *err = run_file_path(home, key, ".err");
    AUTO_FREE char *to_out = hyper_job_file(j, "stdout"), *to_err = hyper_job_file(j, "stderr");

    if (show_as(out, to_out, ended, e) < 0)
        return -1;
    return show_as(err, to_err, ended, e);
}

/* stray.c - runs here that the daemon has not named
 *
 * The daemon names all its runs when it connects.  Others that still run are of jobs which its
 * database does not know, after a restore, or of another home that is a copy of this one.  They are
 * left alone; the daemon's log names them.
 */
#include "backend/live_runs.h"
#include "base/file.h"
#include "base/util.h"
#include "far/far_priv.h"
#include <stdio.h>

struct live_run {
    struct run_key key;
    pid_t pid;
};
struct stray_search {
    struct far *f;
    char *dir;
    VEC(struct live_run) found;
};

static void stray_found(void *arg, struct run_key key, pid_t supervisor UNUSED, pid_t pid)
{
    struct stray_search *x = arg;

    vec_push(&x->found, ((struct live_run){key, pid}));
}

static void stray_work(void *arg)
{
    struct stray_search *x = arg;

    live_runs(x->dir, stray_found, x, NULL); /* what cannot be asked is not told */
}

static void stray_done(void *arg)
{
    struct stray_search *x = arg;
    char key[RUN_KEY_TEXT_MAX], text[WIRE_DETAIL_MAX];

    for (size_t i = 0; i < x->found.n; i++) {
        const struct live_run *r = &x->found.p[i];
        if (runs_find(x->f, r->key))
            continue;
        run_key_format(r->key, key);
        snprintf(text, sizeof(text),
                 "run %s (pid %d there) belongs to a job that the database does not know; it is "
                 "left running and its files stay",
                 key, (int)r->pid);
        wire_put_text(&x->f->out, WIRE_NOTICE, str_of(text));
    }
    far_send(x->f);
    vec_done(&x->found);
    free(x->dir);
    free(x);
}

void stray_look(struct far *f)
{
    struct stray_search *x = xcalloc(1, sizeof(*x));

    x->f = f;
    x->dir = path_join(f->home, "shepherd");
    work_submit(f->loop, stray_work, stray_done, x);
}

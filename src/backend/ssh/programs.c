/* programs.c - what is sent to other hosts: berth-far, berth-shepherd and the library
 *
 * All are read and hashed once, on a worker, and shared by all hosts of the process.  Their hash is
 * that of one followed by the other; it names the directory they are kept in over there.
 */
#include "backend/ssh/ssh_priv.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/util.h"
#include <stdio.h>

enum { PROGRAM_MAX = 256 << 20 };

static struct far_programs *shared; /* of the loop thread */

/* One request for the programs.  The worker owns p until load_done. */
struct loading {
    struct backend *b; /* NULL = closed meanwhile */
    struct far_programs *p;
    loop_fn done;
};

/* The last backend frees the programs. */
static void programs_release(struct far_programs *p)
{
    if (!p || --p->refs > 0)
        return;
    if (shared == p)
        shared = NULL;
    FREE_EACH(p->far, p->shepherd, p->python_path, p->bytes, p);
}

/* On the worker.  The hash is over the same bytes in the same order as the script on the other
 * side hashes them. */
static int read_both(struct far_programs *p, struct err *e)
{
    AUTO_FREE char *far = NULL, *shepherd = NULL;
    struct sha256 s;
    uint8_t sum[32];

    p->far = child_find("BERTH_FAR", "berth-far");
    p->shepherd = child_find("BERTH_SHEPHERD", "berth-shepherd");
    if (!p->far || !p->shepherd)
        return err_set(e, ERR_UNAVAILABLE,
                       "%s, which ssh nodes need, was not found; it is installed in libexec/berth",
                       p->far ? "berth-shepherd" : "berth-far");
    if (file_read_all(p->far, PROGRAM_MAX, &far, &p->far_n, e) < 0 ||
        file_read_all(p->shepherd, PROGRAM_MAX, &shepherd, &p->shepherd_n, e) < 0)
        return -1;
    struct buf library;
    library_make(&library, p->python_path);
    p->library_n = library.n;
    size_t n = p->far_n + p->shepherd_n;
    p->bytes = xmalloc(n + library.n + 1);
    memcpy(p->bytes, far, p->far_n);
    memcpy(p->bytes + p->far_n, shepherd, p->shepherd_n);
    memcpy(p->bytes + n, library.p ? library.p : "", library.n);
    sha256_init(&s);
    sha256_add(&s, p->bytes, n + library.n);
    buf_done(&library);
    sha256_end(&s, sum);
    for (size_t i = 0; i < sizeof(sum); i++)
        snprintf(p->hash + 2 * i, 3, "%02x", sum[i]);
    return 0;
}

static void load_work(void *arg)
{
    struct loading *l = arg;

    read_both(l->p, &l->p->e);
}

/* Only programs that were read without an error are shared; after an error the next attempt
 * reads again. */
static void load_done(void *arg)
{
    struct loading *l = arg;
    struct backend *b = l->b;
    loop_fn done = l->done;

    if (b) {
        b->link.loading = NULL;
        b->link.programs = l->p;
        if (!l->p->e.code && !shared)
            shared = l->p;
    } else {
        programs_release(l->p);
    }
    free(l);
    if (b)
        done(b);
}

void programs_load(struct backend *b, loop_fn done)
{
    struct loading *l = xcalloc(1, sizeof(*l));

    programs_drop(b);
    l->b = b;
    l->done = done;
    bool same = shared && !strcmp(shared->python_path ? shared->python_path : "",
                                  b->conf.python_path ? b->conf.python_path : "");
    l->p = same ? shared : xcalloc(1, sizeof(*l->p));
    if (!same)
        l->p->python_path = xstrdup(b->conf.python_path);
    l->p->refs++;
    b->link.loading = l;
    if (same)
        loop_post(b->loop, load_done, l);
    else
        work_submit(b->loop, load_work, load_done, l);
}

void programs_drop(struct backend *b)
{
    if (b->link.loading)
        b->link.loading->b = NULL;
    b->link.loading = NULL;
    programs_release(TAKE(b->link.programs));
}

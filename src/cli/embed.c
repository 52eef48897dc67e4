/* embed.c - a host inside this process, on a thread of its own */
#include "cli/embed.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "io/loop.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>

enum { MESSAGES_MS = 12000 }; /* a little longer than one request of a hook may take */

struct embed {
    pthread_t thread;
    sem_t opened;          /* posted once `open` and `err` are set */
    bool open;             /* else the thread has ended, and err says why */
    struct host_conf conf; /* texts are the caller's */
    /* Made by the thread of the command, run by the host's thread.  loop_post is safe from any
     * thread. */
    struct loop *loop;
    struct err err;
};

/* host_open, the loop and host_close run on the same thread: the host expects to be called by one
 * thread only. */
static void *host_thread(void *arg)
{
    struct embed *x = arg;
    struct host *h = NULL;

    x->open = host_open(&h, &x->conf, x->loop, &x->err) == 0;
    sem_post(&x->opened);
    if (!h)
        return NULL;
    loop_run(x->loop);
    host_send_messages(h, MESSAGES_MS);
    host_close(h);
    return NULL;
}

static void embed_on_stop(void *arg)
{
    loop_stop(arg);
}

/* Waits for the thread, which may still finish commits. */
static void embed_free(struct embed *x)
{
    pthread_join(x->thread, NULL);
    loop_free(x->loop);
    sem_destroy(&x->opened);
    free(x);
}

int embed_log(const char *home, struct err *e)
{
    AUTO_FREE char *path = path_join(home, "log");

    if (dir_make_all(home, 0700, e) < 0)
        return err_wrap(e, "creating the home %s", home);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, "cannot open %s", path);
    log_setup(LOG_WARN_, false, fd);
    return 0;
}

int embed_open(struct embed **out, const struct host_conf *conf, struct err *e)
{
    struct embed *x = xcalloc(1, sizeof(*x));

    x->conf = *conf;
    sem_init(&x->opened, 0, 0);
    x->loop = loop_new();
    if (pthread_create(&x->thread, NULL, host_thread, x) != 0) {
        loop_free(x->loop);
        free(x);
        return err_set(e, ERR_INTERNAL, "cannot start a thread for the scheduler");
    }
    while (sem_wait(&x->opened) < 0 && errno == EINTR)
        ;
    if (!x->open && e)
        *e = x->err;
    return HAND_OUT(x->open ? 0 : -1, out, x, embed_free);
}

void embed_close(struct embed *x)
{
    if (!x)
        return;
    loop_post(x->loop, embed_on_stop, x->loop);
    embed_free(x);
}

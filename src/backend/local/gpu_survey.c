/* gpu_survey.c - one look at the GPUs of this machine, in words */
#include "backend/gpu_survey.h"
#include "backend/local/gpu_priv.h"
#include <pthread.h>
#include <time.h>

enum { PATIENCE_S = 5 };

/* On a thread of its own, because a driver may hang. */
static void *survey(void *arg)
{
    struct gpu_sources s;

    gpu_sources_open(&s);
    gpu_sources_read(&s, arg);
    gpu_sources_close(&s);
    return NULL;
}

/* "2 × NVIDIA A100, 1 × NVIDIA T4" */
static void say_kinds(const struct gpu_look *l, struct buf *text)
{
    for (size_t i = 0; i < l->devices.n; i++) {
        size_t same = 0, first = i;
        for (size_t k = 0; k < l->devices.n; k++)
            if (!strcmp(l->devices.p[k].kind, l->devices.p[i].kind)) {
                same++;
                first = MIN(first, k);
            }
        if (first == i)
            buf_addf(text, "%s%zu × %s", i ? ", " : "", same, l->devices.p[i].kind);
    }
}

static int survey_check(const struct gpu_look *l, struct err *e)
{
    size_t lost = 0;
    const char *why = "";

    for (size_t i = 0; i < l->devices.n; i++)
        if (l->devices.p[i].state == DEVICE_LOST) {
            lost++;
            why = l->devices.p[i].trouble;
        }
    if (lost)
        return err_set(e, ERR_UNAVAILABLE, "%zu of %zu GPUs do not answer: %s", lost, l->devices.n,
                       why);
    if (!l->devices.n)
        return err_set(e, ERR_UNAVAILABLE, "a GPU driver is there, but shows no GPU: %s",
                       l->drivers);
    return 0;
}

int gpu_survey(struct buf *text, struct err *e)
{
    static struct gpu_look look; /* a thread that hangs may come back and write to it */
    struct timespec until;
    pthread_t thread;

    if (!gpu_sources_likely()) {
        buf_adds(text, "none: no driver of NVIDIA or AMD is loaded");
        return 0;
    }
    if (pthread_create(&thread, NULL, survey, &look) != 0)
        return err_set(e, ERR_INTERNAL, "cannot start a thread to look at the GPUs");
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    if (pthread_timedjoin_np(thread, NULL, &until) != 0) {
        pthread_detach(thread);
        return err_set(e, ERR_UNAVAILABLE, "the GPU driver has not answered for %d s", PATIENCE_S);
    }
    say_kinds(&look, text);
    buf_addf(text, ", seen by %s", look.drivers);
    int rc = survey_check(&look, e);
    gpu_look_done(&look);
    return rc;
}

/* foundations_signal.c - Ctrl-C, which means two things
 *
 * Until the job is submitted it takes everything back, so it is only noted and looked at between
 * and inside the steps; a second one does not wait for them.  Once the job is submitted it ends the
 * stream alone, with status 0, wherever that is.
 */
#include "dialect/atlas/foundations.h"
#include <signal.h>

static atomic_bool interrupted;

static void signal_on_interrupt(int signo)
{
    (void)signo;
    if (atomic_exchange(&interrupted, true))
        _exit(EXIT_INTERRUPTED);
}

static void signal_on_leave(int signo)
{
    (void)signo;
    _exit(0);
}

void found_catch_interrupt(void)
{
    struct sigaction sa = {.sa_handler = signal_on_interrupt};

    sigaction(SIGINT, &sa, NULL);
}

bool found_interrupted(void *unused)
{
    (void)unused;
    return atomic_load(&interrupted);
}

const atomic_bool *found_interrupt_flag(void)
{
    return &interrupted;
}

void found_leave_on_interrupt(void)
{
    struct sigaction sa = {.sa_handler = signal_on_leave};

    sigaction(SIGINT, &sa, NULL);
    if (atomic_load(&interrupted))
        _exit(0);
}

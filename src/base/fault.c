/* fault.c - faults that tests ask for through the environment */
#include "base/fault.h"

#ifdef BERTH_FAULT_POINTS
#include "base/str.h"
#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* 0 when the variable is not set, or is no positive number. */
static int64_t fault_number(const char *variable)
{
    const char *text = getenv(variable);
    int64_t n;

    return text && str_to_i64(str_of(text), &n) && n > 0 ? n : 0;
}

bool fault_every(const char *variable, int64_t *calls)
{
    int64_t n = fault_number(variable);

    return n && ++*calls % n == 0;
}

void fault_sleep(const char *variable)
{
    int64_t ms = fault_number(variable);

    if (!ms)
        return;
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}
#endif

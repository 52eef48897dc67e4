/* fault.c - faults that tests ask for through the environment */
#include "base/fault.h"

#ifdef BERTH_FAULT_POINTS
#include "base/str.h"
#include <errno.h>
#include <stdlib.h>
#include <time.h>

void fault_sleep(const char *variable)
{
    const char *text = getenv(variable);
    int64_t ms;

    if (!text || !str_to_i64(str_of(text), &ms) || ms <= 0)
        return;
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}
#endif

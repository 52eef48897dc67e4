/* stop_asks.c - the file asks_stop of a run: one pid per line, appended by each process */
#include "base/stop_asks.h"
#include "base/util.h"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

size_t stop_asks_read(const char *run_dir, pid_t out[STOP_ASKS_MAX])
{
    char path[4096], text[4096], *pos = text, *end;
    size_t n = 0;

    if (!run_dir || snprintf(path, sizeof(path), "%s/asks_stop", run_dir) >= (int)sizeof(path))
        return 0;
    /* The job may have put a link or a pipe there. */
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    text[MAX(got, 0)] = 0;
    for (long v; n < STOP_ASKS_MAX && (v = strtol(pos, &end, 10)) > 0 && *end == '\n';
         pos = end + 1)
        if (v > 1 && v < INT32_MAX)
            out[n++] = (pid_t)v;
    return n;
}

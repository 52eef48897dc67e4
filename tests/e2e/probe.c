/* probe.c - a job that tells on the scheduler: probe DIR MS CODE
 *
 * Holds an exclusive lock named after its job while it runs and leaves a line per start, so that a
 * second copy at the same time, or a second start of the same run, cannot go unnoticed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static int append(const char *dir, const char *name, const char *text, int n)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return fd < 0 || write(fd, text, (size_t)n) != n;
}

int main(int argc, char **argv)
{
    const char *run = getenv("BERTH_RUN"), *job = getenv("BERTH_JOB_NUMBER");
    char path[4096], line[128];

    if (argc != 4 || !run || !job)
        return 99;
    snprintf(path, sizeof(path), "%s/%s.lock", argv[1], job);
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    int n = snprintf(line, sizeof(line), "%s\n", run);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
        append(argv[1], "twice-at-once", line, n);
    if (append(argv[1], "starts", line, n))
        return 98;
    long ms = strtol(argv[2], NULL, 10);
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
    append(argv[1], "ends", line, n);
    return (int)strtol(argv[3], NULL, 10);
}

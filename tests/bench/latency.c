/* latency.c - how long a submit command takes, and when its job starts
 *
 *   latency COUNT FIFO COMMAND…     a command that leads to `latency --stamp FIFO` being run
 *   latency COUNT - COMMAND…        just the command
 *   latency --stamp FIFO            the job: writes its start time
 *
 * One line per round: microseconds until the command returned, microseconds until the job's first
 * instruction (-1 without a FIFO), and at the end "cpu" with microseconds of CPU per command.
 * The command is started by vfork semantics and timed here, not in a script, whose own start-up
 * would be most of the figure.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
enum { START_TIMEOUT_MS = 20000 };

static int64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static int stamp(const char *fifo)
{
    int64_t at = now_us();
    int fd = open(fifo, O_WRONLY | O_NONBLOCK);

    return fd >= 0 && write(fd, &at, sizeof(at)) == (ssize_t)sizeof(at) ? 0 : 1;
}

/* Microseconds of CPU of all children so far. */
static int64_t children_us(void)
{
    struct rusage u;

    getrusage(RUSAGE_CHILDREN, &u);
    return (int64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec +
           u.ru_stime.tv_usec;
}

static int64_t read_stamp(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int64_t at = 0;

    if (poll(&p, 1, START_TIMEOUT_MS) != 1 || read(fd, &at, sizeof(at)) != (ssize_t)sizeof(at)) {
        fprintf(stderr, "latency: the job did not start within 20 s\n");
        exit(1);
    }
    return at;
}

static int round_trip(char **argv, int fifo, const posix_spawn_file_actions_t *quiet)
{
    int64_t began = now_us(), returned, started = -1;
    pid_t pid;
    int status, rc = posix_spawnp(&pid, argv[0], quiet, NULL, argv, environ);

    if (rc) {
        fprintf(stderr, "latency: cannot start %s: %s\n", argv[0], strerror(rc));
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    returned = now_us();
    if (status) {
        fprintf(stderr, "latency: %s failed with status %d\n", argv[0], status);
        return -1;
    }
    if (fifo >= 0)
        started = read_stamp(fifo) - began;
    printf("%lld %lld\n", (long long)(returned - began), (long long)started);
    return 0;
}

int main(int argc, char **argv)
{
    posix_spawn_file_actions_t quiet;
    int fifo = -1;

    if (argc == 3 && !strcmp(argv[1], "--stamp"))
        return stamp(argv[2]);
    if (argc < 4) {
        fprintf(stderr, "usage: latency COUNT FIFO|- COMMAND…\n");
        return 2;
    }
    long count = strtol(argv[1], NULL, 10);
    if (strcmp(argv[2], "-") && (fifo = open(argv[2], O_RDWR | O_CLOEXEC)) < 0) {
        fprintf(stderr, "latency: cannot open %s: %s\n", argv[2], strerror(errno));
        return 1;
    }
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    for (long i = 0; i < count; i++)
        if (round_trip(argv + 3, fifo, &quiet) < 0)
            return 1;
    printf("cpu %lld\n", (long long)(children_us() / (count > 0 ? count : 1)));
    posix_spawn_file_actions_destroy(&quiet);
    return 0;
}

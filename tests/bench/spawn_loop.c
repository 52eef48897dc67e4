/* spawn_loop.c - the physical limit: start and reap a program as fast as this machine can
 *
 *   spawn_loop COUNT IN_FLIGHT PROGRAM [ARG…]
 *
 * Prints one line: programs per second, milliseconds of CPU per program (its own and ours).
 * No files, no state, no promises: what a scheduler reaches is a share of this.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double cpu_s(int who)
{
    struct rusage u;

    getrusage(who, &u);
    return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void start(char **argv, const posix_spawn_file_actions_t *quiet)
{
    pid_t pid;
    int rc = posix_spawnp(&pid, argv[0], quiet, NULL, argv, environ);

    if (rc) {
        fprintf(stderr, "spawn_loop: cannot start %s: %s\n", argv[0], strerror(rc));
        exit(1);
    }
}

int main(int argc, char **argv)
{
    posix_spawn_file_actions_t quiet;
    long count, in_flight, started = 0, ended = 0;

    if (argc < 4 || (count = strtol(argv[1], NULL, 10)) < 1 ||
        (in_flight = strtol(argv[2], NULL, 10)) < 1) {
        fprintf(stderr, "usage: spawn_loop COUNT IN_FLIGHT PROGRAM [ARG…]\n");
        return 2;
    }
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    double began = now_s();
    while (ended < count) {
        while (started < count && started - ended < in_flight) {
            start(argv + 3, &quiet);
            started++;
        }
        if (waitpid(-1, NULL, 0) > 0)
            ended++;
        else if (errno != EINTR)
            break;
    }
    double took = now_s() - began, cpu = cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN);
    posix_spawn_file_actions_destroy(&quiet);
    printf("%.1f %.4f\n", (double)ended / took, cpu * 1000 / (double)ended);
    return 0;
}

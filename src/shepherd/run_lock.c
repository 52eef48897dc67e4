/* run_lock.c - byte locks by fcntl */
#include "shepherd/run_lock.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int run_lock_take(int fd, uint64_t id)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)id, .l_len = 1};

    if (fcntl(fd, F_SETLK, &l) == 0)
        return 0;
    if (errno == EACCES)
        errno = EAGAIN;
    return -1;
}

void run_lock_drop(int fd, uint64_t id)
{
    struct flock l = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = (off_t)id, .l_len = 1};

    fcntl(fd, F_SETLK, &l);
}

pid_t run_lock_holder(int fd, uint64_t id)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)id, .l_len = 1};

    if (fcntl(fd, F_GETLK, &l) < 0)
        return -1;
    if (l.l_type == F_UNLCK)
        return 0;
    return l.l_pid > 0 ? l.l_pid : -1;
}

int lock_file_held(int fd)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

    if (fcntl(fd, F_GETLK, &l) < 0)
        return -1;
    return l.l_type != F_UNLCK;
}

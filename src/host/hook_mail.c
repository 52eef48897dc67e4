/* hook_mail.c - hands a mail to the machine's sendmail; on a worker thread
 *
 * Owns: the process for as long as it runs, 30 s at most.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/spawn.h"
#include "base/util.h"
#include "host/hook_send.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAIL_MS = 30000, LOOK_US = 10000 };

/* $BERTH_SENDMAIL, else where mail programs are installed.  NULL: not found; yours. */
static char *sendmail_path(void)
{
    static const char *const places[] = {"/usr/sbin/sendmail", "/usr/lib/sendmail",
                                         "/usr/local/sbin/sendmail", "/usr/bin/sendmail"};
    const char *said = getenv("BERTH_SENDMAIL");

    if (said && *said)
        return xstrdup(said);
    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        if (access(places[i], X_OK) == 0)
            return xstrdup(places[i]);
    return NULL;
}

/* The recipient comes from the header To (-t); a line with a single dot ends nothing (-i). */
static pid_t sendmail_start(const char *path, int in, int errs, struct err *e)
{
    char *argv[] = {(char *)path, (char *)"-t", (char *)"-i", NULL};
    pid_t pid = spawn_alone(path, argv, environ, (const int[3]){in, -1, errs});

    if (pid < 0)
        err_sys(e, "cannot run %s", path);
    return pid;
}

/* What the program said about its failure, on one line.  The descriptor does not block: a child of
 * the program may keep the pipe open. */
static void sendmail_complaint(int errs, char *out, size_t n)
{
    ssize_t got = read(errs, out, n - 1);

    out[got > 0 ? got : 0] = 0;
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
}

/* -1: the program failed, or did not exit in time and was killed.  The whole session is killed,
 * since a mail program may be a script that started others.  Every failure is ERR_UNAVAILABLE, so
 * the message is sent again later. */
static int sendmail_wait(const char *path, pid_t pid, int errs, struct err *e)
{
    int64_t ends = clock_mono(&clock_system) + MAIL_MS;
    char said[120];
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (clock_mono(&clock_system) > ends) {
            kill(-pid, SIGKILL);
            waitpid(pid, NULL, 0);
            return err_set(e, ERR_UNAVAILABLE, "%s did not end within %d s", path, MAIL_MS / 1000);
        }
        usleep(LOOK_US);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    sendmail_complaint(errs, said, sizeof(said));
    return err_set(e, ERR_UNAVAILABLE, "%s failed with %s %d%s%s", path,
                   WIFEXITED(status) ? "exit code" : "signal",
                   WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), said[0] ? ": " : "",
                   said);
}

int hook_mail_send(const struct hook_letter *l, struct str to, const char *id, struct err *e)
{
    AUTO_FREE char *path = sendmail_path();
    AUTO(buf) struct buf mail = {0};
    int errs[2] = {-1, -1}, rc = -1;

    if (!path)
        return err_set(e, ERR_UNAVAILABLE,
                       "there is no sendmail program; install one, or set BERTH_SENDMAIL for the "
                       "daemon");
    buf_init(&mail, 256 << 10);
    hook_mail_write(&mail, l, to, id);
    /* A file in memory: a pipe would block while the program does not read it. */
    AUTO_FD in = memfd_create("mail", MFD_CLOEXEC);
    if (in < 0 || fd_write_all(in, mail.p, mail.n, e) < 0 || lseek(in, 0, SEEK_SET) < 0 ||
        pipe2(errs, O_CLOEXEC) < 0)
        return err_sys(e, "cannot give a mail to %s", path);
    fcntl(errs[0], F_SETFL, O_NONBLOCK);
    pid_t pid = sendmail_start(path, in, errs[1], e);
    if (pid > 0)
        rc = sendmail_wait(path, pid, errs[0], e);
    close(errs[0]);
    close(errs[1]);
    return rc;
}

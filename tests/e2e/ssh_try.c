/* ssh_try.c - one run on one host by way of the ssh backend, for tests of logins and hosts
 *
 *   ssh-try CONF HOME COMMAND      CONF: the configuration of the backend, JSON
 *
 * Prints "trouble TEXT" whenever the node is away for a reason, the output of the command, and
 * "ended STATUS" or "refused WHY".  Gives up after the first trouble that it is refused for.
 */
#include "backend/backend.h"
#include "base/file.h"
#include "base/util.h"
#include "io/loop.h"
#include <stdio.h>

struct
try {
    struct loop *loop;
    struct backend *b;
    int rc;
};

static void on_started(void *owner, struct run_key k, int64_t pid, int64_t pid_start, int64_t at_ms)
{
    (void)owner, (void)k, (void)pid, (void)pid_start, (void)at_ms;
}

static void on_ended(void *owner, struct run_key k, const struct run_outcome *o, struct str detail)
{
    struct try *t = owner;

    printf("ended %d " STR_FMT "\n", run_outcome_exit_code(o), STR_ARG(detail));
    t->rc = 0;
    backend_ssh.settled(t->b, k);
    loop_stop(t->loop);
}

static void on_absent(void *owner, struct run_key k)
{
    (void)owner, (void)k;
}

static void on_notice(void *owner, struct str text)
{
    (void)owner;
    printf("notice " STR_FMT "\n", STR_ARG(text));
}

static void on_node(void *owner, const struct node *n)
{
    (void)owner;
    if (n->away)
        printf("trouble %s\n", n->trouble);
    else
        printf("node %d slots\n", n->slots);
    fflush(stdout);
}

static void on_refused(void *owner, struct run_key k UNUSED, int sys UNUSED, struct str why)
{
    struct try *t = owner;

    printf("refused " STR_FMT "\n", STR_ARG(why));
    t->rc = 3;
    loop_stop(t->loop);
}

int main(int argc, char **argv)
{
    static const struct backend_events ev = {.started = on_started,
                                             .ended = on_ended,
                                             .absent = on_absent,
                                             .notice = on_notice,
                                             .node = on_node,
                                             .refused = on_refused};
    struct try t = {.rc = 1};
    struct json *conf = NULL;
    struct err e = {0};

    if (argc != 4 || json_parse(str_of(argv[1]), "conf", &conf, &e) < 0) {
        fprintf(stderr, "usage: ssh-try CONF HOME COMMAND; %s\n", e.text);
        return 2;
    }
    t.loop = loop_new();
    if (backend_ssh.open(&t.b, argv[2], conf, t.loop, &ev, &t, &e) < 0) {
        printf("invalid %s\n", e.text);
        json_free(conf);
        loop_free(t.loop);
        return 2;
    }
    json_free(conf);
    AUTO_FREE char *log = path_join(argv[2], "log");
    char *words[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", argv[3], NULL};
    char *env[] = {NULL};
    struct run_start s = {.key = {1, 1},
                          .argv = words,
                          .envp = env,
                          .log_path = log,
                          .limits = {.grace_ms = 1000},
                          .journal = 1};
    if (backend_ssh.start(t.b, &s, &e) < 0)
        printf("invalid %s\n", e.text);
    else
        loop_run(t.loop);
    AUTO_FREE char *text = NULL;
    size_t n;
    if (file_read_all(log, 1 << 20, &text, &n, NULL) == 0)
        fwrite(text, 1, n, stdout);
    backend_ssh.close(t.b);
    loop_free(t.loop);
    return t.rc;
}

/* parts.c - programs atlas-server makes use of: nvidia-smi, python, tensorboard
 *
 * TensorBoard is a child of the server and ends with it, also when it is killed.
 */
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/home.h"
#include "dialect/atlas/server.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { BOARD_WAIT_MS = 5000, BOARD_STEP_MS = 20 };

/* The PATH is searched by hand: the caller wants the name, not a process. */
bool atlas_find_program(const char *name, char *out, size_t n)
{
    struct str rest = str_of(getenv("PATH") ? getenv("PATH") : "/usr/local/bin:/usr/bin:/bin");

    while (rest.n > 0) {
        struct str dir = str_cut(rest, ':', &rest);
        snprintf(out, n, STR_FMT "/%s", STR_ARG(dir), name);
        if (access(out, X_OK) == 0)
            return true;
    }
    return false;
}

/* ---- GPUs ---- */

/* "GPU 0: Tesla K80 (UUID: GPU-5d1e…)" */
static void read_gpu(struct atlas_gpus *g, const char *line)
{
    const char *uuid = strstr(line, "UUID: ");

    if (strncmp(line, "GPU ", 4) != 0 || g->n == NODE_MAX_GPUS)
        return;
    snprintf(g->uuids[g->n++], sizeof(g->uuids[0]), "%.*s",
             uuid ? (int)strcspn(uuid + 6, ")\n") : 0, uuid ? uuid + 6 : "");
}

/* -1 when there is no nvidia-smi, or it fails. */
int atlas_gpus(struct atlas_gpus *g)
{
    FILE *f = popen("nvidia-smi -L 2>/dev/null", "re");
    char line[1000];

    g->n = 0;
    while (f && fgets(line, sizeof(line), f))
        read_gpu(g, line);
    return f && pclose(f) == 0 ? 0 : -1;
}

/* Devices are listed by number or by the beginning of their UUID. */
static bool is_listed(const char *list, const struct atlas_gpus *g, int id)
{
    for (struct str rest = str_of(list), word; rest.n > 0;) {
        int64_t n;
        word = str_trim(str_cut(rest, ',', &rest));
        if (str_to_i64(word, &n) ? n == id : word.n > 4 && str_starts(str_of(g->uuids[id]), word))
            return true;
    }
    return false;
}

/* CUDA_VISIBLE_DEVICES of the server hides GPUs from its workers. */
char *atlas_hidden_gpus(const struct atlas_gpus *g, int *visible)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    AUTO(buf) struct buf hidden = {0};

    *visible = g->n;
    if (!list)
        return NULL;
    buf_init(&hidden, 1 << 16);
    for (int i = 0; i < g->n; i++)
        if (!is_listed(list, g, i)) {
            buf_addf(&hidden, "%s%d", hidden.n ? "," : "", i);
            --*visible;
        }
    return hidden.n ? buf_take(&hidden, NULL) : NULL;
}

/* ---- TensorBoard ---- */

/* Runs between fork and exec. */
static void board_child(const char *const *argv, const char *log)
{
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    int null = open("/dev/null", O_RDONLY);

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0); /* Ctrl-C is for the server, which ends it in turn */
    dup2(null, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execv(argv[0], (char *const *)argv);
    _exit(127);
}

pid_t atlas_board_start(const struct atlas_opts *o, const char *home)
{
    AUTO_FREE char *logdir = path_join(home, ATLAS_DIR_TENSORBOARD);
    AUTO_FREE char *log = path_join(home, ATLAS_DIR_LOGS "/tensorboard.log");
    AUTO_FREE char *port = xasprintf("%d", o->tensorboard_port);
    char program[4096];

    if (o->no_tensorboard || !atlas_find_program("tensorboard", program, sizeof(program)))
        return 0;
    const char *argv[] = {program,      "--logdir", logdir, "--host",
                          o->conf.addr, "--port",   port,   NULL};
    pid_t pid = fork(); /* no thread was started yet */
    if (pid == 0)
        board_child(argv, log);
    return MAX(pid, 0);
}

/* TensorBoard gets five seconds to end before it is killed. */
void atlas_board_stop(pid_t pid)
{
    if (pid <= 0)
        return;
    kill(-pid, SIGTERM);
    for (int ms = 0; ms < BOARD_WAIT_MS; ms += BOARD_STEP_MS) {
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return;
        usleep(BOARD_STEP_MS * 1000);
    }
    kill(-pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

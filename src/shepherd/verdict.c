/* verdict.c - the word a container's process leaves: "KIND name"
 *
 *   engine      no engine answered
 *   image NAME  the image is not there and could not be had
 *   exec NAME   the command is not in the image
 *   gone NAME   the container was removed by somebody else
 *   container   the engine would not make or start it
 *   oom         it reached its limit of memory
 */
#include "shepherd/verdict.h"
#include "base/str.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

enum { WORD_MAX = 1200 };

static const struct {
    const char *kind;
    enum start_stage stage;
    int sys;
} stages[] = {
    {"engine", START_ENGINE, ENOENT}, {"image", START_IMAGE, ENOENT},
    {"exec", START_EXEC, ENOENT},     {"container", START_CONTAINER, EINVAL},
    {"gone", START_GONE, ENOENT},
};

static void verdict_apply(struct str kind, const char *name, struct journal_record *end)
{
    if (str_eq_c(kind, "oom"))
        end->why = RUN_END_OUT_OF_MEMORY;
    for (size_t i = 0; i < ARRAY_SIZE(stages); i++) {
        if (!str_eq_c(kind, stages[i].kind))
            continue;
        end->why = RUN_END_START_FAILED;
        end->stage = stages[i].stage;
        end->sys = (uint16_t)stages[i].sys;
        journal_set_name(end, name);
    }
}

void verdict_read(const char *run_dir, struct journal_record *end)
{
    char path[4096], text[WORD_MAX + 1];
    struct str name;

    if (snprintf(path, sizeof(path), "%s/container.end", run_dir) >= (int)sizeof(path))
        return;
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    ssize_t n = read(fd, text, WORD_MAX);
    if (n <= 0)
        return;
    text[n] = 0;
    text[strcspn(text, "\n")] = 0;
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    struct str kind = str_cut(str_of(text), ' ', &name);
    verdict_apply(kind, name.n ? name.p : "", end);
}

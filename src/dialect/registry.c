/* registry.c - the dialects this program was built with, and the lists made of them */
#include "base/util.h"
#include "base/vec.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "dialect/dialect.h"
#include "dialect/selected.h"
#include "host/part.h"

#define DECLARE(name) extern const struct dialect dialect_##name;
#define ROW(name) &dialect_##name,
DIALECTS(DECLARE)
const struct dialect *const dialects[] = {DIALECTS(ROW) NULL};

enum { ALIGNMENT = 16 }; /* of the structs of options, as malloc has it */

static size_t serve_place(size_t end)
{
    return (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* `berth serve` with the options of the dialects, before those all commands share. */
static const struct command *serve_joined(void)
{
    struct command *cmd = xmalloc(sizeof(*cmd));
    VEC(const struct opt_group *) groups = {0};
    const struct opt_group *const *g = cmd_serve.groups;

    *cmd = cmd_serve;
    for (; *g && !(*g)->shared; g++)
        vec_push(&groups, *g);
    for (const struct dialect *const *d = dialects; *d; d++) {
        if (!(*d)->serve)
            continue;
        struct opt_group *own = xmalloc(sizeof(*own));
        *own = *(*d)->serve;
        own->base = serve_place(cmd->opts_size);
        cmd->opts_size = own->base + (*d)->serve_size;
        vec_push(&groups, own);
    }
    for (; *g; g++)
        vec_push(&groups, *g);
    vec_push(&groups, NULL);
    cmd->groups = groups.p;
    return cmd;
}

const struct command *const *dialects_commands(void)
{
    VEC(const struct command *) all = {0};

    for (const struct command *const *c = cli_commands; *c; c++)
        vec_push(&all, *c == &cmd_serve ? serve_joined() : *c);
    for (const struct dialect *const *d = dialects; *d; d++)
        for (const struct command *const *c = (*d)->commands; c && *c; c++)
            vec_push(&all, *c);
    vec_push(&all, NULL);
    return all.p;
}

const struct host_part *const *dialects_parts(void)
{
    VEC(const struct host_part *) all = {0};

    for (const struct dialect *const *d = dialects; *d; d++)
        if ((*d)->part)
            vec_push(&all, (*d)->part);
    vec_push(&all, NULL);
    return all.p;
}

int dialects_settings(const void *opts, struct host_setting **out, struct err *e)
{
    VEC(struct host_setting) all = {0};
    size_t end = cmd_serve.opts_size;

    for (const struct dialect *const *d = dialects; *d; d++) {
        if (!(*d)->serve)
            continue;
        const void *own = (const char *)opts + serve_place(end);
        end = serve_place(end) + (*d)->serve_size;
        if ((*d)->serve_check && (*d)->serve_check(own, e) < 0) {
            vec_done(&all);
            return -1;
        }
        vec_push(&all, ((struct host_setting){(*d)->part->name, own}));
    }
    vec_push(&all, (struct host_setting){0});
    *out = all.p;
    return 0;
}

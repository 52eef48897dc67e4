/* script.c - run.sh: what the shell of a job is told
 *
 * Every value stands in double quotes with what the shell would act on escaped.  In two places
 * people rely on variables of the machine that runs the job, in `environments` and `working_dir`:
 * there exactly $NAME and ${NAME} stay as they are, nothing else does.
 *
 * The script redirects its own output before the command, which follows as it was written: not in
 * braces, so that `exit`, comments and here-documents mean what they say.
 *
 * For another machine the script is uploaded beside its files and started in their directory, the
 * only path it knows; its output is streamed back by whoever started it.
 */
#include "dialect/hyperctl/layout.h"
#include "dialect/hyperctl/py_str.h"
#include <ctype.h>

/* The length of $NAME or ${NAME} at the start of s, or 0. */
static size_t reference(struct str s)
{
    bool braces = s.n > 1 && s.p[1] == '{';
    size_t start = braces ? 2 : 1, i = start;

    while (i < s.n && (isalnum((unsigned char)s.p[i]) || s.p[i] == '_'))
        i++;
    if (i == start || isdigit((unsigned char)s.p[start]))
        return 0;
    if (!braces)
        return i;
    return i < s.n && s.p[i] == '}' ? i + 1 : 0;
}

/* One word of the shell.  `variables`: $NAME and ${NAME} are left to the shell. */
static void quote(struct buf *out, struct str s, bool variables)
{
    buf_addc(out, '"');
    for (size_t i = 0; i < s.n;) {
        char c = s.p[i];
        size_t n = variables && c == '$' ? reference((struct str){s.p + i, s.n - i}) : 0;
        if (n) {
            buf_add(out, s.p + i, n);
            i += n;
            continue;
        }
        if (c == '$' || c == '`' || c == '"' || c == '\\')
            buf_addc(out, '\\');
        buf_addc(out, c);
        i++;
    }
    buf_addc(out, '"');
}

static void export_to(struct buf *out, const char *name, const char *value, bool variables)
{
    buf_addf(out, "export %s=", name);
    quote(out, str_of(value), variables);
    buf_addc(out, '\n');
}

/* A file beside the script, which on another machine is wherever that one was put. */
static void export_path(struct buf *out, const char *name, bool far, const struct hyper_job *j,
                        const char *file)
{
    AUTO_FREE char *path = hyper_job_file(j, file);

    if (far)
        buf_addf(out, "export %s=\"$PWD/%s\"\n", name, file);
    else
        export_to(out, name, path, false);
}

/* Values are written as Python's str() writes them, as the original did. */
static void export_environments(struct buf *out, const struct json *env)
{
    for (struct json_it it = {0}; json_next(env, &it);) {
        AUTO(buf) struct buf value = {0};
        buf_init(&value, 1 << 20);
        py_str_write(&value, it.val);
        export_to(out, it.key, buf_str(&value).p, true);
    }
}

/* Which machine it will be is not known when the script is written. */
static void export_of_machines(struct buf *out, const struct hyper_batch *b)
{
    size_t n = 0;

    for (size_t i = 0; i < b->machines.n; i++)
        n += json_len(b->machines.p[i].environments) > 0;
    if (!n)
        return;
    buf_adds(out, "case \"$BERTH_NODE\" in\n");
    for (size_t i = 0; i < b->machines.n; i++) {
        if (!json_len(b->machines.p[i].environments))
            continue;
        quote(out, str_of(b->machines.p[i].node), false);
        buf_adds(out, ")\n");
        export_environments(out, b->machines.p[i].environments);
        buf_adds(out, ";;\n");
    }
    buf_adds(out, "esac\n");
}

/* Output goes to the files that users know, not to the scheduler's log. */
static void redirect(struct buf *out, const char *op, const struct hyper_job *j, const char *file)
{
    AUTO_FREE char *path = hyper_job_file(j, file);

    buf_adds(out, op);
    quote(out, str_of(path), false);
}

static void export_dirs(struct buf *out, const struct hyper_job *j, bool far, bool own_dir,
                        const char *portal)
{
    const char *work = far && own_dir ? "$PWD" : j->working_dir;
    bool variables = far || !own_dir; /* in a path nobody wrote, a dollar is a dollar */

    export_to(out, "HYPERCTL_JOB_NAME", j->name, false);
    export_to(out, "HYPERCTL_JOB_DATA_DIR", far ? "$PWD" : j->data_dir, far);
    export_to(out, "HYPERCTL_SERVER_PORTAL", portal, false);
    export_to(out, "HYPERCTL_JOB_WORKING_DIR", work, variables);
    export_to(out, "HYPERCTL_DAEMON_PORTAL", portal, false);
    export_to(out, "HYPERCTL_JOB_EXECUTION_WORKING_DIR", work, variables);
    export_path(out, "HYPERCTL_JOB_PARAMS_FILE", far, j, "params.json");
}

void hyper_script(struct buf *out, const struct hyper_batch *b, const struct hyper_job *j,
                  const char *portal)
{
    bool far = b->remote, own_dir = !strcmp(j->working_dir, j->data_dir);

    buf_adds(out, "#!/bin/sh\n");
    export_dirs(out, j, far, own_dir, portal);
    if (b->independent_tmp) {
        export_path(out, "TMP", far, j, "tmp");
        buf_adds(out, "export TMPDIR=\"$TMP\"\n");
    }
    export_environments(out, b->environments);
    export_of_machines(out, b);
    if (!far) { /* from another machine its output comes by itself */
        redirect(out, "exec >", j, "stdout");
        redirect(out, " 2>", j, "stderr");
        buf_addc(out, '\n');
    }
    buf_adds(out, "if [ -n \"$TMP\" ] && [ ! -d \"$TMP\" ]; then mkdir -p \"$TMP\"; fi\n");
    if (!far || !own_dir) {
        buf_adds(out, "cd ");
        quote(out, str_of(j->working_dir), !own_dir);
        buf_adds(out, " || exit 1\n");
    }
    buf_adds(out, j->command);
    buf_addc(out, '\n');
}

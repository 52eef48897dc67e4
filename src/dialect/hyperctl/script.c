/* script.c - run.sh: what the shell of a job is told
 *
 * Every value stands in double quotes with what the shell would act on escaped.  In two places
 * people rely on variables of the machine that runs the job, in `environments` and `working_dir`:
 * there exactly $NAME and ${NAME} stay as they are, nothing else does.
 *
 * The script redirects its own output before the command, which follows as it was written: not in
 * braces, so that `exit`, comments and here-documents mean what they say.
 */
#include "dialect/hyperctl/layout.h"
#include "dialect/hyperctl/py_json.h"
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

static void export_path(struct buf *out, const char *name, const struct hyper_job *j,
                        const char *file)
{
    AUTO_FREE char *path = hyper_job_file(j, file);

    export_to(out, name, path, false);
}

static void export_environments(struct buf *out, const struct json *env)
{
    for (struct json_it it = {0}; json_next(env, &it);) {
        AUTO(buf) struct buf value = {0};
        buf_init(&value, 1 << 20);
        py_str_write(&value, it.val);
        export_to(out, it.key, buf_str(&value).p, true);
    }
}

static void redirect(struct buf *out, const char *op, const struct hyper_job *j, const char *file)
{
    AUTO_FREE char *path = hyper_job_file(j, file);

    buf_adds(out, op);
    quote(out, str_of(path), false);
}

void hyper_script(struct buf *out, const struct hyper_batch *b, const struct hyper_job *j,
                  const char *portal)
{
    bool variables = strcmp(j->working_dir, j->data_dir) != 0; /* that one nobody wrote */

    buf_adds(out, "#!/bin/sh\n");
    export_to(out, "HYPERCTL_JOB_NAME", j->name, false);
    export_to(out, "HYPERCTL_JOB_DATA_DIR", j->data_dir, false);
    export_to(out, "HYPERCTL_SERVER_PORTAL", portal, false);
    export_to(out, "HYPERCTL_JOB_WORKING_DIR", j->working_dir, variables);
    export_to(out, "HYPERCTL_DAEMON_PORTAL", portal, false);
    export_to(out, "HYPERCTL_JOB_EXECUTION_WORKING_DIR", j->working_dir, variables);
    export_path(out, "HYPERCTL_JOB_PARAMS_FILE", j, "params.json");
    if (b->independent_tmp) {
        export_path(out, "TMP", j, "tmp");
        buf_adds(out, "export TMPDIR=\"$TMP\"\n");
    }
    export_environments(out, b->environments);
    redirect(out, "exec >", j, "stdout");
    redirect(out, " 2>", j, "stderr");
    buf_adds(out, "\nif [ -n \"$TMP\" ] && [ ! -d \"$TMP\" ]; then mkdir -p \"$TMP\"; fi\ncd ");
    quote(out, str_of(j->working_dir), variables);
    buf_adds(out, " || exit 1\n");
    buf_adds(out, j->command);
    buf_addc(out, '\n');
}

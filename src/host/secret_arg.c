/* secret_arg.c - values of secrets reach a submission without being on a command line
 *
 * Everybody on a machine can read the words of every command, and a shell keeps them in its
 * history. So a word that holds a value is refused, and no message repeats what stands behind the
 * =.
 */
#include "host/secret_arg.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/util.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { SECRET_VALUE_MAX = 64 << 10 };

/* One line of standard input, byte by byte: what follows belongs to somebody else. */
static int secret_from_stdin(const char *name, char **out, struct err *e)
{
    AUTO(buf) struct buf b = {0};
    char c;
    ssize_t n;

    buf_init(&b, SECRET_VALUE_MAX);
    while ((n = read(0, &c, 1)) == 1 && c != '\n')
        if (!buf_addc(&b, c))
            return err_set(e, ERR_LIMIT, "--secret %s=-: the line is longer than %d KiB", name,
                           SECRET_VALUE_MAX >> 10);
    if (n < 0)
        return err_sys(e, "--secret %s=-: cannot read standard input", name);
    if (n == 0 && !b.n)
        return err_set(e, ERR_INVALID, "--secret %s=-: standard input is empty", name);
    *out = xstrndup(b.n ? b.p : "", b.n);
    return 0;
}

static int secret_from_file(const char *name, const char *path, char **out, struct err *e)
{
    char *text = NULL;
    size_t n = 0;

    if (file_read_all(path, SECRET_VALUE_MAX, &text, &n, e) < 0)
        return err_wrap(e, "--secret %s", name);
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        text[--n] = 0;
    *out = text;
    return 0;
}

static int secret_from_environment(const char *name, char **out, struct err *e)
{
    const char *value = getenv(name);

    if (!value)
        return err_set(e, ERR_INVALID,
                       "--secret %.100s: there is no such variable here; set it, or use "
                       "--secret %.100s=@FILE",
                       name, name);
    *out = xstrdup(value);
    return 0;
}

static int secret_value(const char *name, const char *from, char **out, struct err *e)
{
    if (!from)
        return secret_from_environment(name, out, e);
    if (from[0] == '@' && from[1])
        return secret_from_file(name, from + 1, out, e);
    if (!strcmp(from, "-"))
        return secret_from_stdin(name, out, e);
    return err_set(e, ERR_INVALID,
                   "--secret %.100s=…: a value on a command line can be read by every user of this "
                   "machine; use --secret NAME, NAME=@FILE, or NAME=- for standard input",
                   name);
}

static void add_name(struct json *list, const char *before, const char *name)
{
    AUTO_FREE char *text = xasprintf("%s%s", before, name);

    json_push_take(list, json_new_str(str_of(text)));
}

/* What the file names comes from here, unless the file or an option gave it a value. */
static void take_named(const struct json *list, struct json *env)
{
    for (size_t i = 0; i < json_len(list); i++) {
        struct str s =
            json_type(json_at(list, i)) == JSON_STR ? json_str(json_at(list, i)) : STR("");
        AUTO_FREE char *name = xstrndup(s.p, s.n);
        const char *value = getenv(name);
        if (value && !json_has(env, name))
            json_set_str(env, name, value);
    }
}

int secret_args_add(struct json *spec, struct json *env, const struct secret_words *w,
                    struct err *e)
{
    const struct json *had = json_get(spec, "secrets");
    struct json *list = json_type(had) == JSON_ARRAY ? json_copy(had) : json_new_array();
    int rc = 0;

    if (json_type(had) == JSON_STR)
        json_push_take(list, json_copy(had));
    for (size_t i = 0; i < w->n_hide && rc == 0; i++) {
        const char *eq = strchr(w->hide[i], '=');
        AUTO_FREE char *name =
            xstrndup(w->hide[i], eq ? (size_t)(eq - w->hide[i]) : strlen(w->hide[i]));
        char *value = NULL;
        rc = secret_value(name, eq ? eq + 1 : NULL, &value, e);
        if (rc == 0) {
            json_set_str(env, name, value);
            add_name(list, "", name);
            explicit_bzero(value, strlen(value));
        }
        free(value);
    }
    for (size_t i = 0; i < w->n_show; i++)
        add_name(list, "!", w->show[i]);
    take_named(list, env);
    if (json_len(list) && rc == 0)
        json_set_take(spec, "secrets", TAKE(list));
    json_free(list);
    return rc;
}

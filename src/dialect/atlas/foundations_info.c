/* foundations_info.c - foundations info, setup and login: the home and what is in it */
#include "base/file.h"
#include "base/json_out.h"
#include "base/util.h"
#include "dialect/atlas/base64.h"
#include "dialect/atlas/foundations.h"
#include "dialect/atlas/home.h"
#include "dialect/help_python.h"
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <termios.h>

enum { TEXT_MAX = 1 << 20, HEAD_ROOM = 2 };
#define SUFFIX ".config.yaml"

/* ---- info --env ---- */

/* One config of the home: its name without the ending, and its path. */
struct environment {
    char *name, *path;
};
struct environments {
    VEC(struct environment) list;
};

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct environment *)a)->path, ((const struct environment *)b)->path);
}

/* Names end at the first dot; a file that begins with a dot is no config. */
static void environments_load(struct environments *out, const struct foundations *f,
                              const char *place)
{
    AUTO_FREE char *dir = path_join(f->home, place);
    DIR *d = opendir(dir);

    if (!d)
        return;
    for (struct dirent *ent; (ent = readdir(d));) {
        size_t n = strlen(ent->d_name), dot = strcspn(ent->d_name, ".");
        if (n <= strlen(SUFFIX) || strcmp(ent->d_name + n - strlen(SUFFIX), SUFFIX) || dot == 0)
            continue;
        struct environment v = {xstrndup(ent->d_name, dot), path_join(dir, ent->d_name)};
        vec_push(&out->list, v);
    }
    closedir(d);
    if (out->list.n)
        qsort(out->list.p, out->list.n, sizeof(out->list.p[0]), by_path);
}

static void environments_done(struct environments *v)
{
    for (size_t i = 0; i < v->list.n; i++) {
        free(v->list.p[i].name);
        free(v->list.p[i].path);
    }
    vec_done(&v->list);
}

static void add_rule(struct buf *b, size_t n)
{
    while (n-- > 0)
        buf_addc(b, '-');
}

/* Heads with two cells of air, two blanks between the columns, nothing at the end of a line. */
static void add_table(struct buf *b, const struct environments *v)
{
    size_t wide_name = strlen("env_name") + HEAD_ROOM, wide_path = strlen("env_path") + HEAD_ROOM;

    for (size_t i = 0; i < v->list.n; i++) {
        wide_name = MAX(wide_name, strlen(v->list.p[i].name));
        wide_path = MAX(wide_path, strlen(v->list.p[i].path));
    }
    buf_addf(b, "%-*s  env_path\n", (int)wide_name, "env_name");
    add_rule(b, wide_name);
    buf_adds(b, "  ");
    add_rule(b, wide_path);
    buf_addc(b, '\n');
    for (size_t i = 0; i < v->list.n; i++)
        buf_addf(b, "%-*s  %s\n", (int)wide_name, v->list.p[i].name, v->list.p[i].path);
}

static void add_group(struct buf *b, const char *group, const struct environments *v)
{
    if (!v->list.n) {
        buf_addf(b, "\nNo %s environments available\n", group);
        return;
    }
    buf_addf(b, "\n%s configs:\n", group);
    add_table(b, v);
}

int found_info(struct foundations *f, const struct found_opts *o)
{
    struct environments submission = {0}, execution = {0};
    AUTO(buf) struct buf b = {0};

    if (!o->env)
        return found_say(f, "usage: foundations info --env   (lists the configs jobs can be "
                            "submitted with)");
    environments_load(&submission, f, ATLAS_DIR_SUBMISSION);
    environments_load(&execution, f, ATLAS_DIR_EXECUTION);
    buf_init(&b, TEXT_MAX);
    if (!submission.list.n && !execution.list.n) {
        buf_adds(&b, "No environments available\n");
    } else {
        add_group(&b, "submission", &submission);
        add_group(&b, "execution", &execution);
    }
    cli_print(&b);
    environments_done(&submission);
    environments_done(&execution);
    return 0;
}

/* ---- setup ---- */

static void on_made(void *arg, const char *path)
{
    struct foundations *f = arg;

    found_say(f, "%s", path);
}

int found_setup(struct foundations *f, const struct found_opts *o)
{
    struct err e = {0};

    (void)o;
    if (atlas_home_make(f->home, 0, on_made, f, &e) < 0)
        return found_fail(f, &e);
    return found_say(f, "%s is complete", f->home);
}

/* ---- login ---- */

/* One line of the terminal, without its end; empty at the end of the input. */
static char *prompt(const char *text, bool hidden)
{
    struct termios before, quiet;
    bool tty = hidden && tcgetattr(STDIN_FILENO, &before) == 0;
    char *line = NULL;
    size_t cap = 0;

    fputs(text, stdout);
    fflush(stdout);
    if (tty) {
        quiet = before;
        quiet.c_lflag &= ~(tcflag_t)ECHO;
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    }
    ssize_t n = getline(&line, &cap, stdin);
    if (tty) {
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
        fputc('\n', stdout);
        fflush(stdout);
    }
    while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
        line[--n] = '\0';
    if (n <= 0) {
        free(line);
        return xstrdup("");
    }
    return line;
}

/* {"access_token": …}, {"token": …} or the bare text. */
static char *token_in(const struct buf *body)
{
    AUTO(json) struct json *doc = NULL;
    struct err ignored;
    struct str text = str_trim(buf_str(body));

    if (json_parse(text, "reply", &doc, &ignored) == 0) {
        const struct json *v = doc;
        if (json_type(doc) == JSON_OBJECT)
            v = json_get(doc, json_has(doc, "access_token") ? "access_token" : "token");
        text = json_type(v) == JSON_STR ? json_str(v) : STR("");
    }
    return text.n && !memchr(text.p, '\n', text.n) ? xstrndup(text.p, text.n) : NULL;
}

/* Readable by the owner only, because the token is a password. */
static int save_token(struct foundations *f, const char *token, struct err *e)
{
    AUTO_FREE char *path = path_join(f->home, "credentials.yaml");
    AUTO(buf) struct buf b = {0};

    buf_init(&b, TEXT_MAX);
    buf_adds(&b, "default:\n  token: ");
    jw_str(&b, NULL, str_of(token)); /* a quoted text of YAML too */
    buf_addc(&b, '\n');
    return file_write_atomic(path, b.p, b.n, 0600, e);
}

static int ask_token(struct foundations *f, const char *host, const char *user,
                     const char *password, struct http_response *out, struct err *e)
{
    AUTO_FREE char *url = xasprintf("%s%s", strstr(host, "://") ? "" : "http://", host);
    AUTO_FREE char *pair = xasprintf("%s:%s", user, password);
    AUTO(buf) struct buf line = {0};

    buf_init(&line, TEXT_MAX);
    buf_adds(&line, "Authorization: Basic ");
    base64_add(&line, str_of(pair));
    f->http = http_client_new(url, NULL, NULL);
    found_step(f, "GET %s/api/v2beta/auth/cli_login", url);
    if (http_call(f->http, "GET", "/api/v2beta/auth/cli_login", (const char *[]){line.p, NULL},
                  STR(""), out, e) < 0)
        return found_unreachable(e);
    return 0;
}

int found_login(struct foundations *f, const struct found_opts *o)
{
    AUTO_FREE char *user = NULL, *password = NULL, *token = NULL;
    struct http_response r = {0};
    struct err e = {0};

    if (o->username && !o->password)
        return python_mistake("foundations login",
                              "usage: foundations login [-h] [--debug] [-u USERNAME] [-p "
                              "PASSWORD] host",
                              "-p/--password is required when --username is given");
    user = o->username ? xstrdup(o->username) : prompt("Username: ", false);
    password = o->password ? xstrdup(o->password) : prompt("Password: ", true);
    if (ask_token(f, o->ops.p[0], user, password, &r, &e) < 0)
        return found_fail(f, &e);
    if (r.status == 200)
        token = token_in(&r.body);
    int rc = token ? save_token(f, token, &e) : 0;
    if (token && rc == 0)
        found_say(f, "\nLogin Succeeded!");
    else if (!token)
        found_say(f, "\nLogin Failed!\n" STR_FMT, STR_ARG(str_trim(buf_str(&r.body))));
    http_response_done(&r);
    return rc < 0 ? found_fail(f, &e) : token ? 0 : 1;
}

/* prop_json.c - JSON there and back, and jansson's opinion on what is JSON
 *
 * jansson runs in a process of its own (jansson_oracle): its names are also ours.
 * Left out of the comparison: numbers beyond jansson's range, nesting deeper than ours, and texts
 * with a NUL byte, which jansson takes for the end.
 */
#include "base/file.h"
#include "base/json.h"
#include "base/json_in.h"
#include "base/util.h"
#include "base/yaml.h"
#include "prop.h"
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

extern char **environ;

static int oracle[2] = {-1, -1}; /* from it, to it */
static pid_t oracle_pid;

static bool oracle_start(const char *path)
{
    int to[2], from[2];
    posix_spawn_file_actions_t acts;
    char *argv[] = {(char *)(uintptr_t)path, NULL};

    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
        return false;
    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_adddup2(&acts, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&acts, from[1], STDOUT_FILENO);
    int rc = posix_spawn(&oracle_pid, path, &acts, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&acts);
    close(to[0]);
    close(from[1]);
    oracle[0] = from[0];
    oracle[1] = to[1];
    return rc == 0;
}

static bool read_exactly(void *p, size_t n)
{
    for (char *at = p; n > 0;) {
        ssize_t got = read(oracle[0], at, n);
        if (got <= 0)
            return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

static struct json *any_value(struct prop *p, unsigned depth)
{
    uint64_t kind = prop_choice(p, depth < 5 ? 7 : 5);
    struct json *j;
    size_t n;

    switch (kind) {
    case 0:
        return NULL;
    case 1:
        return json_new_bool(prop_bool(p));
    case 2:
        return json_new_int((int64_t)prop_u64(p));
    case 3:
        return json_new_real(prop_double(p));
    case 4:
    case 5:
        return json_new_str(prop_text(p, 30));
    case 6:
        j = json_new_array();
        n = prop_size(p, 8);
        for (size_t i = 0; i < n; i++)
            json_push_take(j, any_value(p, depth + 1));
        return j;
    default:
        j = json_new_object();
        n = prop_size(p, 8);
        for (size_t i = 0; i < n; i++)
            json_set_take(j, prop_text(p, 10).p, any_value(p, depth + 1));
        return j;
    }
}

static bool back_the_same(struct prop *p, void *ctx UNUSED)
{
    struct json *j = any_value(p, 0), *back = NULL, *copy = json_copy(j);
    struct buf b = {0};
    struct err e = {0};

    json_write(&b, j, prop_bool(p) ? JSON_PRETTY : JSON_COMPACT);
    bool ok = prop_check(p, json_parse(buf_str(&b), "t", &back, &e) == 0, "%s: %s", b.p, e.text) &&
              prop_check(p, json_equal(j, back), "%s came back changed", b.p) &&
              prop_check(p, json_equal(j, copy), "the copy of %s differs", b.p);
    AUTO_FREE char *first = json_text(j);
    AUTO_FREE char *second = json_text(back);
    ok = ok && prop_check(p, strcmp(first, second) == 0, "%s then %s", first, second);
    json_free(j);
    json_free(copy);
    json_free(back);
    buf_done(&b);
    return ok;
}

/* Asks the oracle; its answer starts with '+' and its own rendering, '!' (out of its range) or
 * '-' and its reason. */
static const char *ask(struct prop *p, struct str text)
{
    uint32_t n = (uint32_t)text.n;
    struct err e;

    if (fd_write_all(oracle[1], &n, sizeof(n), &e) < 0 ||
        fd_write_all(oracle[1], text.p, text.n, &e) < 0 || !read_exactly(&n, sizeof(n)))
        abort();
    char *answer = arena_alloc(prop_arena(p), (size_t)n + 1);
    if (!read_exactly(answer, n))
        abort();
    return answer;
}

/* Both accept with the same value, or both refuse. */
static bool agree(struct prop *p, struct str text)
{
    struct json *ours = NULL, *theirs = NULL;
    struct err e = {0};
    bool we = json_parse(text, "t", &ours, &e) == 0;
    const char *answer = ask(p, text);
    bool ok = answer[0] == '!' || (!we && e.code == ERR_LIMIT) || memchr(text.p, '\0', text.n);

    if (!ok)
        ok = prop_check(p, we == (answer[0] == '+'), "<%.*s>: we say %s, jansson says %s",
                        STR_ARG(text), we ? "yes" : e.text, answer);
    if (ok && we && answer[0] == '+')
        ok = prop_check(
            p, json_parse(str_of(answer + 1), "t", &theirs, &e) == 0 && json_equal(ours, theirs),
            "<%.*s> is to jansson %s", STR_ARG(text), answer + 1);
    json_free(ours);
    json_free(theirs);
    return ok;
}

static bool agree_on_pieces(struct prop *p, void *ctx UNUSED)
{
    static const char *const pieces[] = {"[",
                                         "]",
                                         "{",
                                         "}",
                                         ",",
                                         ":",
                                         "\"",
                                         "\"a\"",
                                         "\"b\"",
                                         "1",
                                         "-",
                                         "0",
                                         "0.5",
                                         ".",
                                         "e",
                                         "E+",
                                         "1e5",
                                         "-0",
                                         "true",
                                         "false",
                                         "null",
                                         "nul",
                                         " ",
                                         "\n",
                                         "\t",
                                         "\\",
                                         "\\n",
                                         "\\u0041",
                                         "\\ud800",
                                         "\\udc00",
                                         "\\u",
                                         "\xC3\xA9",
                                         "\xC3",
                                         "\xFF",
                                         "\x01",
                                         "/",
                                         "//",
                                         "'",
                                         "NaN",
                                         "\"\\u0000\"",
                                         "9223372036854775807",
                                         "12345678901",
                                         "+1",
                                         "01",
                                         "1.",
                                         "\"k\":",
                                         "\"k\":1",
                                         "[]",
                                         "{}"};
    struct buf b = {0};
    size_t n = prop_size(p, 24);

    for (size_t i = 0; i < n; i++)
        buf_adds(&b, PROP_PICK(p, pieces));
    bool ok = agree(p, buf_str(&b));
    buf_done(&b);
    return ok;
}

/* A valid text with a few bytes changed: nearer to the edge than chance gets. */
static bool agree_on_damage(struct prop *p, void *ctx UNUSED)
{
    struct json *j = any_value(p, 2);
    struct buf b = {0};

    json_write(&b, j, prop_bool(p) ? JSON_PRETTY : JSON_COMPACT);
    size_t changes = prop_size(p, 3);
    for (size_t i = 0; i < changes && b.n > 0; i++) {
        size_t at = (size_t)prop_choice(p, b.n - 1);
        if (prop_bool(p))
            b.p[at] = (char)prop_choice(p, 255);
        else
            buf_consume(&b, at);
    }
    bool ok = agree(p, buf_str(&b));
    json_free(j);
    buf_done(&b);
    return ok;
}

static bool split_is_parse(struct prop *p, void *ctx UNUSED)
{
    struct json *j = json_new_array(), *back = json_new_array();
    size_t n = prop_size(p, 10);
    struct buf b = {0};
    struct str item;
    struct err e = {0};
    int rc;

    for (size_t i = 0; i < n; i++)
        json_push_take(j, any_value(p, 2));
    json_write(&b, j, prop_bool(p) ? JSON_PRETTY : JSON_COMPACT);
    struct json_in in = {.text = buf_str(&b), .e = &e};
    json_in_next(&in);
    while ((rc = json_in_raw(&in, &item)) > 0) {
        struct json *one = NULL;
        if (json_parse(item, "t", &one, &e) < 0)
            break;
        json_push_take(back, one);
    }
    bool ok = prop_check(p, rc == 0, "%s: %s", b.p, e.text) &&
              prop_check(p, json_equal(j, back), "%s", b.p);
    json_free(j);
    json_free(back);
    buf_done(&b);
    return ok;
}

/* JSON is YAML.  Left out: characters YAML does not allow raw in a document. */
static bool yaml_reads_json(struct prop *p, void *ctx UNUSED)
{
    struct json *j = any_value(p, 0), *back = NULL;
    struct buf b = {0};
    struct err e = {0};

    json_write(&b, j, prop_bool(p) ? JSON_PRETTY : JSON_COMPACT);
    bool ok = memchr(b.p, 0x7F, b.n) || strstr(b.p, "\xC2\x85") || strstr(b.p, "\xE2\x80\xA8") ||
              strstr(b.p, "\xEF\xBB\xBF");
    if (!ok)
        ok = prop_check(p, yaml_parse(buf_str(&b), "t", &back, &e) == 0, "%s: %s", b.p, e.text) &&
             prop_check(p, json_equal(j, back), "%s came back changed", b.p);
    json_free(j);
    json_free(back);
    buf_done(&b);
    return ok;
}

int main(int argc, char **argv)
{
    prop_run("what is written reads back", 2000, back_the_same, NULL);
    prop_run("values as text are what parsing gives", 1000, split_is_parse, NULL);
    prop_run("YAML reads what JSON writes", 2000, yaml_reads_json, NULL);
    if (argc > 1 && oracle_start(argv[1])) {
        prop_run("jansson agrees on pieces of JSON", 10000, agree_on_pieces, NULL);
        prop_run("jansson agrees on damaged JSON", 5000, agree_on_damage, NULL);
        close(oracle[1]);
        close(oracle[0]);
        waitpid(oracle_pid, NULL, 0);
    }
    return prop_end();
}

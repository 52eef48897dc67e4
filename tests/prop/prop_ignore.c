/* prop_ignore.c - ignore files mean what git takes them to mean
 *
 *   prop_ignore [GIT]
 *
 * Without git the comparison is left out; what can be said without it is still checked.
 */
#include "archive/ignore.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/util.h"
#include "prop.h"
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;
enum { PATHS = 24 };
static char root[] = "/tmp/prop-ignore-XXXXXX";

static const char *const pieces[] = {
    "a", "b",   "ab", "*", "**", "?",  "/",  "/",  "!",   "\\",  "[a",          "]",     "-b]",
    "^", "[!b", " ",  "#", ".",  "b*", "/*", "*/", "**/", "/**", "[[:alpha:]]", "[a-b]", "[]a]"};
static const char *const names[] = {"a", "b", "ab", "ba", "a b", "#a", "!b", "a*", ".a", "aab"};

static char *random_lines(struct prop *p)
{
    struct buf out = {0};

    for (size_t line = 0, lines = 1 + prop_size(p, 3); line < lines; line++) {
        for (size_t i = 0, n = 1 + prop_size(p, 5); i < n; i++)
            buf_adds(&out, PROP_PICK(p, pieces));
        buf_addc(&out, '\n');
    }
    return buf_take(&out, NULL);
}

static char *random_path(struct prop *p)
{
    struct buf out = {0};

    for (size_t i = 0, n = 1 + prop_size(p, 3); i < n; i++) {
        if (i)
            buf_addc(&out, '/');
        buf_adds(&out, PROP_PICK(p, names));
    }
    return buf_take(&out, NULL);
}

/* Makes the path, where nothing stands in its way. */
static bool make(const char *path, bool is_dir)
{
    AUTO_FREE char *full = path_join(root, path);
    AUTO_FREE char *parent = xstrndup(full, (size_t)(strrchr(full, '/') - full));

    if (dir_make_all(parent, 0755, NULL) < 0)
        return false;
    if (is_dir)
        return mkdir(full, 0755) == 0;
    AUTO_FD fd = open(full, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return fd >= 0;
}

/* Nothing here need survive a crash. */
static void write_file(const char *path, struct str text)
{
    AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    ASSERT(fd >= 0 && fd_write_all(fd, text.p, text.n, NULL) == 0);
}

static int run(const char *const argv[], const char *in, const char *out)
{
    posix_spawn_file_actions_t files;
    pid_t pid;
    int status = -1;

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, in, O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&pid, argv[0], &files, NULL, (char *const *)(uintptr_t)argv, environ) == 0)
        waitpid(pid, &status, 0);
    posix_spawn_file_actions_destroy(&files);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool listed(const char *list, const char *path)
{
    for (const char *at = list; *at; at += strlen(at) + 1)
        if (strcmp(at, path) == 0)
            return true;
    return false;
}

/* What git would leave out of these paths; NUL after each. */
static char *ask_git(const char *git, const struct buf *paths)
{
    AUTO_FREE char *in = path_join(root, ".git/in"), *out = path_join(root, ".git/out");
    const char *argv[] = {git, "-C", root, "check-ignore", "--no-index", "-z", "--stdin", NULL};
    char *text = NULL;
    size_t n;

    write_file(in, buf_str(paths));
    int rc = run(argv, in, out);
    if ((rc != 0 && rc != 1) || file_read_all(out, 1 << 20, &text, &n, NULL) < 0)
        return NULL;
    return text;
}

static void clean(void)
{
    AUTO_FREE char *trash = path_join(root, "x");

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        free(trash);
        trash = path_join(root, names[i]);
        dir_remove_tree(trash, NULL);
    }
}

static bool as_git(struct prop *p, void *ctx)
{
    AUTO_FREE char *lines = random_lines(p), *file = path_join(root, ".gitignore");
    AUTO(buf) struct buf asked = {0};
    char *paths[PATHS];
    bool dirs[PATHS], ok = true;
    size_t n = 0;

    clean();
    for (int i = 0; i < PATHS; i++) {
        char *path = random_path(p);
        dirs[n] = prop_bool(p);
        if (make(path, dirs[n])) {
            buf_add(&asked, path, strlen(path) + 1);
            paths[n++] = path;
        } else {
            free(path);
        }
    }
    write_file(file, str_of(lines));
    AUTO_FREE char *git = ask_git(ctx, &asked);
    struct ignore *ig = ignore_parse(str_of(lines));
    for (size_t i = 0; git && i < n && ok; i++) {
        bool ours = ignore_covers(ig, paths[i], dirs[i]), theirs = listed(git, paths[i]);
        ok = prop_check(p, ours == theirs, "'%s' leaves %s '%s' %s, git says %s", lines,
                        dirs[i] ? "directory" : "file", paths[i], ours ? "out" : "in",
                        theirs ? "out" : "in");
    }
    ignore_free(ig);
    for (size_t i = 0; i < n; i++)
        free(paths[i]);
    return ok && prop_check(p, git != NULL, "git did not answer");
}

static bool taking_back_wins(struct prop *p, void *ctx UNUSED)
{
    AUTO_FREE char *lines = random_lines(p), *path = random_path(p);
    AUTO_FREE char *all_back = xasprintf("%s!*\n!**/*\n", lines);
    bool is_dir = prop_bool(p);
    struct ignore *ig = ignore_parse(str_of(all_back));
    bool out = ignore_covers(ig, path, is_dir);

    ignore_free(ig);
    return prop_check(p, !out, "'%s' leaves '%s' out", all_back, path);
}

static bool any_bytes(struct prop *p, void *ctx UNUSED)
{
    struct str text = prop_bytes(p, 60), path = prop_text(p, 20);
    AUTO_FREE char *name = xstrndup(path.n ? path.p : "x", path.n ? path.n : 1);
    struct ignore *ig = ignore_parse(text);

    ignore_covers(ig, name, prop_bool(p));
    ignore_free(ig);
    return true;
}

int main(int argc, char **argv)
{
    if (!mkdtemp(root))
        return 1;
    if (argc > 1) {
        const char *init[] = {argv[1], "-C", root, "init", "-q", NULL};
        setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
        setenv("HOME", root, 1);
        unsetenv("XDG_CONFIG_HOME");
        if (run(init, "/dev/null", "/dev/null") == 0)
            prop_run("every path is left out as git would", 120, as_git, argv[1]);
    } else {
        printf("# no git here to compare with\n");
    }
    prop_run("what is taken back last is in", 2000, taking_back_wins, NULL);
    prop_run("any bytes may be an ignore file", 2000, any_bytes, NULL);
    dir_remove_tree(root, NULL);
    return prop_end();
}

/* archive_tool.c - the archive room from a command line, for its bench and for tests with real tars
 *
 *   archive_tool pack DIR TOP            bundle to stdout
 *   archive_tool unpack DEST [TOP]       bundle from stdin into a directory
 *   archive_tool take STORE NAME TOP     bundle from stdin into the store
 *   archive_tool keep STORE NAME SRC [DEST [ends]]
 *   archive_tool out STORE NAME DEST
 *   archive_tool tgz STORE NAME TOP      kept tree to stdout
 *   archive_tool drop STORE NAME
 *   archive_tool collect STORE
 *   archive_tool ignore FILE             "d PATH" or "f PATH" lines from stdin; those left out
 *
 * Exit status 1 and one line on stderr when refused.
 */
#include "archive/bundle.h"
#include "archive/cas.h"
#include "archive/tgz.h"
#include "archive/unpack.h"
#include "base/file.h"
#include "base/util.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int fail(const struct err *e)
{
    fprintf(stderr, "%s\n", e->text);
    return 1;
}

static void on_warn(void *ctx, const char *sentence)
{
    (void)ctx;
    fprintf(stderr, "warning: %s\n", sentence);
}
static const struct archive_watch watch = {.warn = on_warn};

static int to_stdout(void *ctx, const void *p, size_t n, struct err *e)
{
    (void)ctx;
    return fd_write_all(STDOUT_FILENO, p, n, e);
}

static int do_pack(char **arg, struct err *e)
{
    AUTO_FREE char *ignore_path = path_join(arg[0], ".foundationsignore");
    struct bundle_part part = {.name = "job_source", .tree = arg[0]};
    struct bundle b = {.top = arg[1], .parts = &part, .count = 1, .wall_s = 1};
    struct ignore *ig = NULL;

    if (ignore_load(ignore_path, &ig, e) < 0)
        return -1;
    part.ignore = ig;
    int rc = bundle_write(&b, to_stdout, NULL, &watch, e);
    ignore_free(ig);
    return rc;
}

static int feed_stdin(struct unpack *u, struct err *e)
{
    static char chunk[65536];
    ssize_t n;
    int rc = 0;

    while (rc == 0 && (n = read(STDIN_FILENO, chunk, sizeof(chunk))) > 0)
        rc = unpack_feed(u, chunk, (size_t)n, e);
    if (rc == 0)
        rc = unpack_finish(u, e);
    unpack_free(u);
    return rc;
}

static int do_unpack(char **arg, struct err *e)
{
    struct unpack_conf conf = {.top = arg[1]};
    struct unpack *u;

    return unpack_open_dir(arg[0], &conf, &u, e) < 0 ? -1 : feed_stdin(u, e);
}

static int do_take(struct cas *c, char **arg, struct err *e)
{
    struct unpack_conf conf = {.top = arg[1], .outside_links = true};
    struct unpack *u;

    return unpack_open_store(c, arg[0], &conf, &u, e) < 0 ? -1 : feed_stdin(u, e);
}

static int do_keep(struct cas *c, char **arg, struct err *e)
{
    bool ends = arg[2] && arg[3] && strcmp(arg[3], "ends") == 0;
    struct cas_tally t;

    if (cas_keep_tree(c, arg[0], arg[1], arg[2], ends ? CAS_SOURCE_ENDS : 0, &watch, &t, e) < 0)
        return -1;
    printf("entries %lld bytes %lld new %lld %lld hashed %lld left_out %lld\n",
           (long long)t.entries, (long long)t.bytes, (long long)t.new_blobs, (long long)t.new_bytes,
           (long long)t.hashed_bytes, (long long)t.left_out);
    return 0;
}

static int do_tgz(struct cas *c, char **arg, struct err *e)
{
    static char chunk[65536];
    struct tgz *t;
    size_t n;
    int rc;

    if (tgz_open_tree(c, arg[0], arg[1], &watch, &t, e) < 0)
        return -1;
    while ((rc = tgz_fill(t, chunk, sizeof(chunk), &n, e)) == 0 && n > 0)
        if ((rc = fd_write_all(STDOUT_FILENO, chunk, n, e)) < 0)
            break;
    tgz_close(t);
    return rc;
}

static int do_collect(struct cas *c, struct err *e)
{
    struct cas_freed freed;

    if (cas_collect(c, &freed, e) < 0)
        return -1;
    printf("blobs %lld bytes %lld\n", (long long)freed.blobs, (long long)freed.bytes);
    return 0;
}

static int with_store(const char *word, char **arg, struct err *e)
{
    struct cas *c;
    int rc = -1;

    if (cas_open(arg[0], &c, e) < 0)
        return -1;
    if (strcmp(word, "take") == 0)
        rc = do_take(c, arg + 1, e);
    else if (strcmp(word, "keep") == 0)
        rc = do_keep(c, arg + 1, e);
    else if (strcmp(word, "out") == 0)
        rc = cas_check_out(c, arg[1], arg[2], &watch, e);
    else if (strcmp(word, "tgz") == 0)
        rc = do_tgz(c, arg + 1, e);
    else if (strcmp(word, "drop") == 0)
        rc = cas_drop_tree(c, arg[1], e);
    else if (strcmp(word, "collect") == 0)
        rc = do_collect(c, e);
    else
        err_set(e, ERR_INVALID, "unknown word %s", word);
    cas_close(c);
    return rc;
}

static int do_ignore(char **arg, struct err *e)
{
    struct ignore *ig;
    char *line = NULL;
    size_t cap = 0;

    if (ignore_load(arg[0], &ig, e) < 0)
        return -1;
    while (getline(&line, &cap, stdin) > 2) {
        line[strcspn(line, "\n")] = '\0';
        if (ignore_covers(ig, line + 2, line[0] == 'd'))
            puts(line + 2);
    }
    free(line);
    ignore_free(ig);
    return 0;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    char *arg[6] = {0};
    int rc;

    for (int i = 2; i < argc && i < 8; i++)
        arg[i - 2] = argv[i];
    if (argc < 3) {
        fprintf(stderr, "archive_tool: see the head of its source\n");
        return 2;
    }
    if (strcmp(argv[1], "pack") == 0)
        rc = do_pack(arg, &e);
    else if (strcmp(argv[1], "unpack") == 0)
        rc = do_unpack(arg, &e);
    else if (strcmp(argv[1], "ignore") == 0)
        rc = do_ignore(arg, &e);
    else
        rc = with_store(argv[1], arg, &e);
    return rc < 0 ? fail(&e) : 0;
}

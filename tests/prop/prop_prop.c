/* prop_prop.c - the property tester on itself: it finds failures and shrinks them to the least
 *
 * Its own runs of failing properties must not count, so they happen in a child whose output is
 * read back.
 */
#include "prop.h"
#include "base/file.h"
#include "base/util.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>

static bool below_1000(struct prop *p, void *ctx UNUSED)
{
    uint64_t v = prop_u64(p);

    return prop_check(p, v < 1000, "v=%llu", (unsigned long long)v);
}

static bool no_list_has_a_big_element(struct prop *p, void *ctx UNUSED)
{
    size_t n = prop_size(p, 50);
    bool ok = true;
    struct buf list = {0};

    for (size_t i = 0; i < n; i++) {
        int64_t v = prop_int(p, -10000, 10000);
        buf_addf(&list, " %lld", (long long)v);
        ok &= v < 77;
    }
    prop_check(p, ok, "list:%s.", list.p ? list.p : "");
    buf_done(&list);
    return ok;
}

static bool no_quote(struct prop *p, void *ctx UNUSED)
{
    struct str s = prop_text(p, 40);

    return prop_check(p, !memchr(s.p, '"', s.n), "text=<%.*s>", STR_ARG(s));
}

/* The output of a failing run in a child, yours. */
static char *output_of(prop_fn *fn, const char *seed)
{
    int fds[2];
    char *out = NULL;

    if (pipe2(fds, O_CLOEXEC) < 0)
        abort();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        unsetenv("PROP_CASES");
        setenv("PROP_SEED", seed, 1);
        prop_run("inner", 2000, fn, NULL);
        fflush(stdout);
        _exit(0);
    }
    close(fds[1]);
    if (fd_read_all(fds[0], 1 << 20, &out, NULL, NULL) < 0)
        abort();
    close(fds[0]);
    waitpid(pid, NULL, 0);
    return out;
}

struct want {
    prop_fn *fn;
    const char *text;
};

static bool finds_the_least(struct prop *p, void *ctx)
{
    const struct want *w = ctx;
    char seed[24];

    snprintf(seed, sizeof(seed), "%llu", (unsigned long long)prop_choice(p, 1u << 30) + 1);
    AUTO_FREE char *out = output_of(w->fn, seed);
    AUTO_FREE char *again = output_of(w->fn, seed);
    return prop_check(p, strstr(out, w->text) && strstr(out, seed), "wanted <%s> in <%s>", w->text,
                      out) &&
           prop_check(p, strcmp(out, again) == 0, "seed %s replays differently", seed);
}

static bool ranges_hold(struct prop *p, void *ctx UNUSED)
{
    int64_t a = (int64_t)prop_u64(p), b = (int64_t)prop_u64(p);
    int64_t lo = MIN(a, b), hi = MAX(a, b);
    int64_t v = prop_int(p, lo, hi);
    size_t n = prop_size(p, 33);
    double d = prop_double(p), u = prop_unit(p);
    struct str s = prop_text(p, 64);

    return prop_check(p, v >= lo && v <= hi, "%lld not in %lld…%lld", (long long)v, (long long)lo,
                      (long long)hi) &&
           prop_check(p, n <= 33, "size %zu", n) &&
           prop_check(p, d - d == 0, "%g is not finite", d) &&
           prop_check(p, u >= 0 && u < 1, "%g is not in the unit interval", u) &&
           prop_check(p, s.n <= 64 && str_is_utf8(s) && strlen(s.p) == s.n, "bad text");
}

int main(void)
{
    struct want number = {below_1000, "v=1000\n"};
    struct want list = {no_list_has_a_big_element, "list: 77.\n"};
    struct want text = {no_quote, "text=<\">\n"};

    prop_run("generators stay in their ranges", 2000, ranges_hold, NULL);
    prop_run("a number shrinks to the boundary", 5, finds_the_least, &number);
    prop_run("a list shrinks to one element", 5, finds_the_least, &list);
    prop_run("a text shrinks to one character", 5, finds_the_least, &text);
    return prop_end();
}

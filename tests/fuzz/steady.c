/* steady.c - runs a fuzz target on its corpus and on a fixed number of inputs made from it
 *
 *   steady_NAME CORPUS COUNT [FIRST]
 *
 * libFuzzer follows what the program does, and that differs between two runs where hash keys,
 * threads or the clock take part.  script/test needs the same inputs in every run of a commit, so
 * here input k depends on the corpus, on k and on nothing else.  script/fuzz explores with
 * libFuzzer.
 *
 * A failure names k, and writes the input to finding-NAME in the current directory; COUNT 1 and
 * FIRST k run that input alone.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/rand.h"
#include "base/str.h"
#include "base/util.h"

enum { SEEDS_MAX = 512, INPUT_MAX = 1 << 16, MUTATIONS_MAX = 6 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Numbers and marks at which parsers change their mind. */
static const char *const TOKENS[] = {
    "\"",     "'",    "\\",  "{",  "}", "[",   "]",    ":",          ",",
    "\n",     "\r\n", " ",   "\t", "-", "0",   "-1",   "4294967296", "9223372036854775808",
    "1e9999", "%",    "%00", "..", "/", "../", "\xff", "\xc3\xa9",   "*",
    "null",
};

static struct buf seeds[SEEDS_MAX];
static size_t n_seeds;
static struct buf input;
static unsigned long long number;
static const char *target;

static int seed_order(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* In the order of names: a directory has another order on another disk. */
static void seeds_read(const char *folder)
{
    struct dirent **names;
    int n = scandir(folder, &names, NULL, seed_order);

    ASSERT(n >= 0);
    for (int i = 0; i < n; i++) {
        char path[4096];
        char part[4096];
        ssize_t got;
        ASSERT(snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name) < (int)sizeof(path));
        int fd = names[i]->d_name[0] == '.' ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && n_seeds < SEEDS_MAX) {
            struct buf *b = &seeds[n_seeds++];
            while ((got = read(fd, part, sizeof(part))) > 0)
                buf_add(b, part, (size_t)got);
            ASSERT(got == 0);
        }
        if (fd >= 0)
            close(fd);
        free(names[i]);
    }
    free(names);
}

static void input_replace(size_t at, size_t drop, const void *with, size_t n)
{
    struct buf next = {0};

    ASSERT(at + drop <= input.n);
    buf_add(&next, input.p, at);
    buf_add(&next, with, n);
    buf_add(&next, input.p + at + drop, input.n - at - drop);
    buf_done(&input);
    input = next;
}

/* A piece of any seed; NULL when that seed is empty. */
static const char *seed_piece(struct rng *r, size_t *n)
{
    const struct buf *from = &seeds[rng_below(r, n_seeds)];
    size_t at;

    if (!from->n)
        return NULL;
    at = rng_below(r, from->n);
    *n = 1 + rng_below(r, from->n - at < 64 ? from->n - at : 64);
    return from->p + at;
}

static void input_mutate(struct rng *r)
{
    size_t at = rng_below(r, input.n + 1), left = input.n - at, n = 0;
    const char *piece;
    unsigned char byte = (unsigned char)rng_next(r);

    switch (rng_below(r, 7)) {
    case 0: /* one bit */
        if (left)
            input.p[at] = (char)(input.p[at] ^ (1 << rng_below(r, 8)));
        return;
    case 1: /* one byte */
        input_replace(at, left ? 1 : 0, &byte, 1);
        return;
    case 2:
        input_replace(at, 0, &byte, 1);
        return;
    case 3: /* a piece is missing */
        input_replace(at, left ? 1 + rng_below(r, left < 32 ? left : 32) : 0, "", 0);
        return;
    case 4: /* a token in its place, or between */
        piece = TOKENS[rng_below(r, ARRAY_SIZE(TOKENS))];
        input_replace(at, left ? rng_below(r, 2) : 0, piece, strlen(piece));
        return;
    case 5: /* a piece of a seed, in place of as much or between */
        piece = seed_piece(r, &n);
        if (piece)
            input_replace(at, rng_below(r, 2) ? (n < left ? n : left) : 0, piece, n);
        return;
    default: /* cut short */
        if (!rng_below(r, 8))
            input_replace(at, left, "", 0);
    }
}

/* Input k: the seeds as they are come first, then changed ones. */
static void input_make(unsigned long long k)
{
    struct rng r;

    buf_done(&input);
    rng_seed(&r, k);
    const struct buf *from = &seeds[k < n_seeds ? k : rng_below(&r, n_seeds)];
    buf_add(&input, from->p, from->n);
    if (k < n_seeds)
        return;
    for (uint64_t left = 1 + rng_below(&r, MUTATIONS_MAX); left > 0; left--)
        input_mutate(&r);
    if (input.n > INPUT_MAX)
        input_replace(INPUT_MAX, input.n - INPUT_MAX, "", 0);
}

/* From a block of the input's size, so that AddressSanitizer sees a read beyond it. */
static void input_run(void)
{
    uint8_t *block = malloc(input.n ? input.n : 1);

    ASSERT(block);
    if (input.n)
        memcpy(block, input.p, input.n);
    LLVMFuzzerTestOneInput(block, input.n);
    free(block);
}

/* The program is about to die: keeps the input that did it. */
static void finding_keep(int sig)
{
    static char text[512];
    int n = snprintf(text, sizeof(text), "finding-%s", target);
    int fd = open(text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (n > 0 && fd >= 0 && write(fd, input.p, input.n) >= 0) {
        n = snprintf(text, sizeof(text), "# input %llu failed; it is in finding-%s\n", number,
                     target);
        if (write(STDOUT_FILENO, text, (size_t)n) < 0)
            _exit(1);
    }
    signal(sig, SIG_DFL);
    raise(sig);
}

int main(int argc, char **argv)
{
    static const int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    int64_t count = 0, first = 0;

    if (argc < 3 || !str_to_i64(str_of(argv[2]), &count) ||
        (argc > 3 && !str_to_i64(str_of(argv[3]), &first))) {
        fprintf(stderr, "usage: %s CORPUS COUNT [FIRST]\n", argv[0]);
        return 2;
    }
    target = strrchr(argv[1], '/') ? strrchr(argv[1], '/') + 1 : argv[1];
    for (size_t i = 0; i < ARRAY_SIZE(deadly); i++)
        signal(deadly[i], finding_keep);
    seeds_read(argv[1]);
    ASSERT(n_seeds);
    printf("1..1\n");
    fflush(stdout);
    for (number = (unsigned long long)first; number < (unsigned long long)(first + count);
         number++) {
        input_make(number);
        input_run();
    }
    printf("ok 1 - %s, %lld inputs\n", target, (long long)count);
    buf_done(&input);
    for (size_t i = 0; i < n_seeds; i++)
        buf_done(&seeds[i]);
    return 0;
}

/* cmd_tune.c - berth tune: a search engine for hyper-parameters on standard input and output
 *
 * One study per process.  The protocol and the engines are src/tune; this file reads lines and
 * writes answers.  No daemon is asked or started.
 */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "tune/lines.h"
#include <errno.h>

/* A space of 1 000 parameters with 10 000 choices each is larger; nobody writes one. */
enum { LINE_BYTES_MAX = 64 << 20, READ_BYTES = 64 << 10 };

struct tune_opts {
    const char *engine;
};

/* Answers every whole line of `in` and removes it; false: the line was close. */
static bool answer_lines(struct tune_lines *t, struct buf *in, struct buf *out)
{
    size_t used = 0;
    bool open = true;

    while (open && used < in->n) {
        const char *end = memchr(in->p + used, '\n', in->n - used);
        if (!end)
            break;
        struct str line = {in->p + used, (size_t)(end - in->p) - used};
        used += line.n + 1;
        if (str_trim(line).n)
            open = tune_lines_answer(t, line, out);
    }
    buf_consume(in, used);
    return open;
}

static int tune_run(struct cli *c UNUSED, const void *opts, const struct operands *ops UNUSED)
{
    struct tune_lines t = {.engine = ((const struct tune_opts *)opts)->engine};
    AUTO(buf) struct buf in = {0}, out = {0};
    struct err e = {0};
    ssize_t got = 1;

    buf_init(&in, LINE_BYTES_MAX);
    for (bool open = true; open && got > 0;) {
        char *room = buf_reserve(&in, READ_BYTES);
        if (!room) {
            err_set(&e, ERR_LIMIT, "a line is longer than %d MiB", LINE_BYTES_MAX >> 20);
            break;
        }
        do
            got = read(STDIN_FILENO, room, READ_BYTES);
        while (got < 0 && errno == EINTR);
        if (got < 0)
            err_sys(&e, "cannot read standard input");
        else if (got > 0)
            in.n += (size_t)got;
        else if (in.n)
            buf_addc(&in, '\n'); /* the last line may lack its end */
        open = answer_lines(&t, &in, &out);
        cli_print(&out);
    }
    tune_lines_done(&t);
    return e.code ? cli_fail(&e) : 0;
}

#define OWN(member) offsetof(struct tune_opts, member)
static const struct opt tune_opts[] = {
    {"engine", 'e', OPT_CHOICE, "NAME", OWN(engine), tune_engine_help, COMPLETE_CHOICES,
     tune_engine_names},
};
static const struct opt_group tune_group = OPT_GROUP("The search", tune_opts);
const struct command cmd_tune = {
    BERTH_COMMAND(SECTION_LOOK, "tune", "[--engine NAME]", tune_run,
                  "propose hyper-parameters to a program, by lines of JSON"),
    .description =
        "Reads one JSON object per line from standard input and answers each by one line. "
        "create describes the space, ask returns the parameters of the next trial, tell takes its "
        "result, record adds a trial with given parameters, close ends the process:\n\n"
        "{\"op\": \"create\", \"seed\": 1, \"direction\": \"minimize\", \"n_trials\": 200, "
        "\"space\": [{\"name\": \"lr\", \"type\": \"float\", \"low\": 1e-5, \"high\": 0.1, "
        "\"log\": true}]}\n\n"
        "{\"op\": \"ask\"} is answered by {\"id\": 1, \"params\": {\"lr\": 0.01}}\n\n"
        "{\"op\": \"tell\", \"id\": 1, \"value\": 0.5} is answered by {\"ok\": true}\n\n"
        "A space may also be a map: {\"lr\": {\"log\": [1e-5, 0.1]}, \"opt\": [\"adam\", "
        "\"sgd\"]}. With \"directions\": [\"minimize\", \"maximize\"] a trial has several "
        "values, told as \"values\": [0.5, 80].\n\n"
        "Several trials may be in flight. The same seed and the same order of lines give the same "
        "answers.",
    OPTIONS(struct tune_opts, &tune_group),
    .examples = EXAMPLES({"berth tune --engine sobol", "serve one study until close"}),
};

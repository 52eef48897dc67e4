/* say.c - how a command speaks: results on stdout, errors as one line "berth: …" on stderr, and the
 * exit status of base/err.h
 */
#include "base/file.h"
#include "base/util.h"
#include "cli/cli.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

void cli_say(const char *fmt, ...)
{
    char line[1024];

    FORMAT_ARGS(line, fmt);
    fprintf(stderr, "berth: %s\n", line);
}

int cli_refuse(const char *fmt, ...)
{
    char line[1024];

    FORMAT_ARGS(line, fmt);
    cli_say("%s", line);
    return err_exit_code(ERR_INVALID);
}

int cli_fail(const struct err *e)
{
    cli_say("%s",
            e->text[0] ? e->text : "an error without a description occurred; please report it");
    return err_exit_code(e->code);
}

const char *plural_end(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* 141 is what a shell reports for a program that SIGPIPE ended (128 + 13). */
void cli_print(struct buf *b)
{
    struct err e;

    if (b->n && fd_write_all(STDOUT_FILENO, b->p, b->n, &e) < 0) {
        if (e.sys != EPIPE)
            cli_say("cannot write the output: %s", e.text);
        _exit(e.sys == EPIPE ? 141 : 74);
    }
    buf_reset(b);
}

void cli_print_line(const char *text)
{
    AUTO(buf) struct buf b = {0};

    buf_addf(&b, "%s\n", text);
    cli_print(&b);
}

void cli_print_json(const struct json *j)
{
    AUTO_FREE char *text = json_text(j);

    cli_print_line(text);
}

bool cli_json(const struct cli *c)
{
    return c->opt.output && !strcmp(c->opt.output, "json");
}

bool cli_csv(const struct cli *c)
{
    return c->opt.output && !strcmp(c->opt.output, "csv");
}

int cli_report(const struct cli *c, const struct buf *report,
               void (*show)(struct buf *out, const struct json *report))
{
    AUTO(json) struct json *j = NULL;
    AUTO(buf) struct buf text = {0};
    struct err e = {0};

    if (json_parse(buf_str(report), "report", &j, &e) < 0)
        return cli_fail(&e);
    if (cli_json(c)) {
        cli_print_json(j);
    } else {
        show(&text, j);
        cli_print(&text);
    }
    return 0;
}

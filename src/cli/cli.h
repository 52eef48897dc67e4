/* cli.h - what every command shares: options, terminal, connection, the way errors are said
 *
 * A command is a function that returns an exit status.  It speaks HTTP to a daemon; when none
 * answers, `unreachable` brings one up (a background daemon; for `berth run` a host inside this
 * process) and the call is made again.
 */
#pragma once
#include "base/json.h"
#include "base/table.h"
#include "cli/opt.h"
#include "io/http_client.h"

struct cli;
struct dialect;
struct host_part;
struct host_setting;

/* What the program was made of.  There are two: the full program has everything, the small client
 * (src/client.c) a few commands.  Static data of the program; everything here lives as long as the
 * process. */
struct program {
    const char *version;
    const struct command *const *commands;
    const struct dialect *const *dialects; /* ends with NULL; NULL = none */
    const struct host_part *const *parts;  /* of a host it opens; ends with NULL */
    /* Checks the options of `berth serve` that belong to parts; *out is yours. */
    int (*settings)(const void *serve_opts, struct host_setting **out, struct err *e);
};

/* Options that many commands accept.  A pointer is NULL and a flag false when the option was not
 * given.  The texts point into argv. */
struct shared_opts {
    const char *home, *server, *token_file, *ca_file;
    /* no_start: report an error instead of starting a daemon. */
    bool no_start;
    const char *output; /* table json csv; NULL = table */
    /* listings */
    struct opt_num limit;
    const char *sort, *project, *state, *user, *queue, *batch;
    bool all;
};

/* State of one command line.  The main thread uses it; another thread makes a connection of its own
 * with cli_connect_again.  cli_main frees home, target and http. */
struct cli {
    const struct program *program;
    struct shared_opts opt;
    struct term out, err;
    char *home;   /* made absolute */
    char *target; /* "unix:…" or a URL */
    /* NULL until cli_open or the first call. */
    struct http_client *http;
    /* The target is a socket of this machine, so a daemon may be started for it. */
    bool is_unix;
    /* Called when nobody answers; 0 = try again.  NULL = give up. */
    int (*unreachable)(struct cli *c, struct err *e);
    /* For the function `unreachable`, which reads it from c. */
    void *unreachable_arg;
    bool no_reminder; /* do not say on the terminal that an answer takes long */
};

/* Runs the command that argv names and returns the exit status of the process. */
int cli_main(int argc, char **argv, const struct program *program);
/* Prints "berth: sentence" and returns the exit status of the code. */
int cli_fail(const struct err *e);
/* Says why the command line cannot be carried out; returns the exit status of ERR_INVALID. */
int cli_refuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* One line on stderr: "berth: …". */
void cli_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Writes all of b to stdout and empties it; a closed pipe ends the process quietly. */
void cli_print(struct buf *b);
void cli_print_line(const char *text);
void cli_print_json(const struct json *j); /* one line */
/* Prints the report (JSON) of work that a command did itself: as it is with -o json, else as the
 * text that `show` makes of it.  Returns the exit status. */
int cli_report(const struct cli *c, const struct buf *report,
               void (*show)(struct buf *out, const struct json *report));
/* The ending of a counted noun: "job%s" with plural_end(n) is "1 job" and "2 jobs". */
const char *plural_end(int64_t n);
/* Which form did -o ask for?  Both false means a table for people. */
bool cli_json(const struct cli *c);
bool cli_csv(const struct cli *c);

extern const struct command *const cli_commands[]; /* Berth's own, see cli/commands.h */
extern const struct opt_group common_group, output_group, list_group;
extern const struct opt_group *const leading_groups[];

/* ---- connection ---- */
/* Fills in c->home: --home, else $BERTH_HOME and the defaults of host_home.  whole_machine: the
 * home of the system daemon, /var/lib/berth, is the default. */
int cli_find_home(struct cli *c, bool whole_machine, struct err *e);
int cli_open(struct cli *c, struct err *e); /* finds home and target; no traffic */
/* The client of a target that is a URL, with its token: c->http.  The token is that of
 * --token-file, else $BERTH_TOKEN, else, on loopback only, the home's own. */
int cli_connect_url(struct cli *c, struct err *e);
/* One call; a status of 400 or more becomes the error.  *out is NULL for an empty body.  *out is
 * the caller's; out may be NULL.  body NULL = no body.  headers ends with NULL; NULL = none.  When
 * nobody answers, `unreachable` is called and the call is repeated, three tries in all. */
int cli_call(struct cli *c, const char *method, const char *path, const char *const *headers,
             const struct json *body, struct json **out, struct err *e);
int cli_get(struct cli *c, const char *path, struct json **out, struct err *e);
/* The same with a path as printf makes it. */
int cli_getf(struct cli *c, struct json **out, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int cli_post(struct cli *c, const char *path, const struct json *body, struct json **out,
             struct err *e);
/* Raw body, as it is.  After success the caller frees *out with http_response_done; after a failure
 * *out is empty. */
int cli_fetch(struct cli *c, const char *method, const char *path, const char *const *headers,
              struct str body, struct http_response *out, struct err *e);
/* Adds "?key=value" or "&key=value", encoded; nothing for a NULL value. */
void query_add(struct buf *b, const char *key, const char *value);
void query_add_int(struct buf *b, const char *key, int64_t value);
/* "/v1/KIND/NAME" + rest, NAME encoded; b is made fresh. */
void resource_path(struct buf *b, const char *kind, const char *name, const char *rest);
/* GET of the same path. */
int resource_get(struct cli *c, const char *kind, const char *name, const char *rest,
                 struct json **out, struct err *e);
/* POST to the same path, without a body.  The exit status; a failure is said. */
int resource_post(struct cli *c, const char *kind, const char *name, const char *rest);
/* What a word of a command asks of a resource: "pause" is POST /v1/KIND/NAME/pause. */
struct resource_verb {
    const char *verb, *method, *rest;
};
/* Prints the reply to one request; the exit status.  A reply without a body is not printed. */
typedef int (*resource_fn)(struct cli *c, const char *verb, const struct json *reply);
/* "VERB NAME…": one request for each name, until one fails.  `verbs` ends with an empty row;
 * `usage` is said when the word is none of them or no name follows.  user NULL: not part of the
 * path. */
int resource_act(struct cli *c, const char *kind, const struct resource_verb *verbs,
                 const char *user, const struct operands *ops, resource_fn print,
                 const char *usage);
/* Another connection to the same target, for use by another thread; yours. */
struct http_client *cli_connect_again(const struct cli *c);

/* ---- the background daemon (daemon.c) ---- */
/* ERR_UNAVAILABLE when the daemon does not answer within five seconds; the text then has the last
 * line of its log. */
int daemon_start(struct cli *c, struct err *e); /* returns once it answers */
/* Starts it without waiting; *out_pid may be NULL.  Refuses inside of a job, because the daemon
 * would end with the job. */
int daemon_spawn(struct cli *c, int *out_pid, struct err *e);
/* Asks for /healthz on a connection of its own.  Does not start anything. */
bool daemon_answers(const char *target); /* "unix:…" */

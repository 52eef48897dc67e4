/* cmd_hook.c - berth hook: who is told when jobs and batches end, fail or wait too long */
#include "base/file.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"

enum { SECRET_FILE_MAX = 4000 };

struct hook_opts {
    struct opt_list on;
    const char *scope, *filter, *secret_file;
    bool everyone, paused;
};
#define HOOK(field) offsetof(struct hook_opts, field)
static const struct opt hook_own_opts[] = {
    {"on", 0, OPT_LIST, "EVENT", HOOK(on),
     "event: queued, start, success, failure, cancel, end or waiting>2h; without one the hook is "
     "used by its name in --notify"},
    {"scope", 0, OPT_CHOICE, "SCOPE", HOOK(scope),
     "events of each job (default), or the end of whole batches or searches (study)",
     COMPLETE_CHOICES, "job|batch|study"},
    {"filter", 0, OPT_TEXT, "FILTER", HOOK(filter), "only jobs that match, as in berth ls"},
    {"secret-file", 0, OPT_TEXT, "FILE", HOOK(secret_file),
     "file with the key that signs a webhook, or with the URL or token for Slack", COMPLETE_FILE},
    {"everyone", 0, OPT_FLAG, NULL, HOOK(everyone), "for the jobs of all users (admins)"},
    {"paused", 0, OPT_FLAG, NULL, HOOK(paused), "add the hook without starting it"},
};
static const struct opt_group hook_group = OPT_GROUP("Hook", hook_own_opts);

static const struct column hook_columns[] = {
    {"HOOK", "name", CELL_TEXT, true, NULL},
    {"ON", "on", CELL_COMMAND, true, ""},
    {"SCOPE", "scope", CELL_TEXT, false, "job"},
    {"FILTER", "filter", CELL_TEXT, true, ""},
    {"DO", "do", CELL_TEXT, true, NULL},
    {"PAUSED", "paused", CELL_YES, false, ""},
    {"PENDING", "pending", CELL_NUMBER, false, "0"},
    {"SENT", "sent", CELL_NUMBER, false, NULL},
    {"LAST SENT", "last_sent", CELL_AGE, false, ""},
    {"LAST ERROR", "last_error", CELL_TEXT, true, ""},
    {"USER", "user", CELL_TEXT, false, NULL},
};

static int hook_add(struct cli *c, const struct hook_opts *o, const char *name, const char *action)
{
    AUTO(json) struct json *body = json_new_object(), *reply = NULL;
    AUTO_FREE char *secret = NULL;
    struct err e = {0};
    size_t n;

    json_set_take(body, "on", json_new_words(o->on.p, o->on.n));
    if (o->secret_file && file_read_all(o->secret_file, SECRET_FILE_MAX, &secret, &n, &e) < 0)
        return cli_fail(&e);
    json_set_str(body, "name", name);
    json_set_str(body, "do", action);
    json_set_str(body, "secret", secret);
    opt_put_json(body, OPTION_GROUPS(&hook_group), o, "scope|filter|everyone|paused");
    if (cli_post(c, "/v1/hooks", body, &reply, &e) < 0)
        return cli_fail(&e);
    if (cli_json(c))
        cli_print_json(reply);
    else if (text_of(reply, "secret").n)
        cli_say("the secret that signs its messages, shown only now: " STR_FMT,
                STR_ARG(text_of(reply, "secret")));
    return 0;
}

/* Exit status 1: the receiver did not accept the test message. */
static int hook_print(struct cli *c, const char *verb, const struct json *reply)
{
    bool test = !strcmp(verb, "test"), sent = json_bool(json_get(reply, "sent"));
    AUTO(json) struct json *rows = json_new_array();

    json_push_take(rows, json_copy(reply));
    if (cli_json(c))
        cli_print_json(reply);
    else if (test && sent)
        cli_print_line("sent");
    else if (test)
        cli_say("not sent: " STR_FMT, STR_ARG(text_of(reply, "error")));
    else if (!strcmp(verb, "show"))
        view_rows(c, rows, hook_columns, ARRAY_SIZE(hook_columns));
    return test && !sent;
}

static const struct resource_verb hook_verbs[] = {
    {"show", "GET", ""},         {"rm", "DELETE", ""},          {"test", "POST", "/test"},
    {"pause", "POST", "/pause"}, {"resume", "POST", "/resume"}, {0}};

static int hook(struct cli *c, const void *opts, const struct operands *ops)
{
    if (!ops->n || (ops->n == 1 && !strcmp(ops->p[0], "ls")))
        return view_list(c, "/v1/hooks", hook_columns, ARRAY_SIZE(hook_columns),
                         "no hooks yet; add one with berth hook add");
    if (ops->n == 3 && !strcmp(ops->p[0], "add"))
        return hook_add(c, opts, ops->p[1], ops->p[2]);
    return resource_act(c, "hooks", hook_verbs, NULL, ops, hook_print,
                        "the actions are: berth hook add NAME ACTION, berth hook ls, berth hook "
                        "show|rm|test|pause|resume NAME…");
}

const struct command cmd_hook = {
    BERTH_COMMAND(SECTION_CHANGE, "hook",
                  "[ls]\nadd NAME ACTION [OPTION…]\nshow|rm|test|pause|resume NAME…", hook,
                  "send a message or run a command when jobs end or fail"),
    .description =
        "ACTION is command:LINE, webhook:URL, mail:ADDRESS or slack:#CHANNEL. A message is "
        "repeated for a day until its receiver has accepted it; `berth hook ls` shows the last "
        "error. For single jobs and batches use --notify of berth submit and berth run.",
    OPTIONS(struct hook_opts, &hook_group, &output_group, &common_group),
    .examples = EXAMPLES(
        {"berth hook add mine mail:ada@example.org --on failure", "mail for every job that fails"},
        {"berth hook add slow mail:ada --on 'waiting>2h' --filter project:vision",
         "mail when a job of the project has waited for two hours"},
        {"berth hook add team 'slack:#team' --on end --scope batch --secret-file slack-url",
         "tell Slack when a batch has ended"},
        {"berth hook add ci webhook:https://ci.example.org/berth --on end",
         "post signed JSON to a URL"},
        {"berth hook test team", "send a test message now"}, {"berth hook ls", "list all hooks"}),
    OPERANDS("action", 0, SIZE_MAX, COMPLETE_CHOICES),
    .choices = "ls|add|show|rm|test|pause|resume",
};

/* cmd_track.c - berth tag, note, project: what people add to experiments */
#include "base/file.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"
#include <unistd.h>

enum { NOTE_MAX = 64 << 10 };

/* ---- berth tag ---- */

struct tag_opts {
    bool remove;
};
static const struct opt tag_own[] = {
    {"remove", 'r', OPT_FLAG, NULL, offsetof(struct tag_opts, remove), "remove the tags"},
};
static const struct opt_group tag_group = OPT_GROUP("Tag", tag_own);

/* word is NAME or NAME=VALUE; without a value the tag is an empty text.  A removal ignores the
 * value. */
static int tag_one(struct cli *c, const char *job, const char *word, bool remove, struct err *e)
{
    AUTO(buf) struct buf path = {0};
    struct str value, name = str_cut(str_of(word), '=', &value);
    AUTO_FREE char *key = xstrndup(name.p, name.n);
    AUTO(json) struct json *body = json_new_object();

    resource_path(&path, "jobs", job, "/tags");
    query_add(&path, "name", remove ? key : NULL);
    json_set_str(body, "name", key);
    json_set_take(body, "value", json_new_str(value));
    return cli_call(c, remove ? "DELETE" : "POST", path.p, NULL, remove ? NULL : body, NULL, e);
}

static int tag(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct tag_opts *o = opts;
    struct err e = {0};

    for (size_t i = 1; i < ops->n; i++)
        if (tag_one(c, ops->p[0], ops->p[i], o->remove, &e) < 0)
            return cli_fail(&e);
    return 0;
}
const struct command cmd_tag = {
    BERTH_COMMAND(SECTION_CHANGE, "tag", "[OPTION…] JOB NAME[=VALUE]…", tag,
                  "set or remove tags of a job"),
    .description = "The last value of a tag counts, whether a person or the job itself set it.",
    OPTIONS(struct tag_opts, &tag_group, &common_group),
    .examples = EXAMPLES({"berth tag 42 best data=v2", "two tags, one with a value"},
                         {"berth tag 42 --remove best", "remove one tag"},
                         {"berth tag 42 data=v3",
                          "another value: the last one counts; berth ls tag:data finds the job"}),
    OPERANDS("job", 2, SIZE_MAX, COMPLETE_JOB),
};

/* ---- berth note ---- */

struct note_opts {
    const char *project, *author;
};
static const struct opt note_own[] = {
    {"about", 0, OPT_TEXT, "PROJECT", offsetof(struct note_opts, project),
     "write or list notes of a project instead of a job"},
    {"author", 0, OPT_TEXT, "NAME", offsetof(struct note_opts, author),
     "author of the note (default: you)"},
};
static const struct opt_group note_group = OPT_GROUP("Note", note_own);

static int note_list(struct cli *c, const char *path)
{
    static const struct column cols[] = {
        {"WHEN", "at", CELL_AGE, false, NULL},
        {"AUTHOR", "author", CELL_TEXT, true, NULL},
        {"NOTE", "text", CELL_TEXT, true, NULL},
    };

    return view_list(c, path, cols, ARRAY_SIZE(cols), "no notes yet");
}

static void join_words(struct buf *b, const struct operands *ops, size_t from)
{
    for (size_t i = from; i < ops->n; i++) {
        buf_adds(b, i > from ? " " : "");
        buf_adds(b, ops->p[i]);
    }
}

/* Without words the notes are listed.  With --about all operands are words of the note. */
static int note(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct note_opts *o = opts;
    size_t from = o->project ? 0 : 1;
    AUTO(buf) struct buf path = {0}, text = {0};
    struct err e = {0};

    if (!o->project && !ops->n)
        return cli_refuse("berth note needs a job or --about PROJECT");
    resource_path(&path, o->project ? "projects" : "jobs", o->project ? o->project : ops->p[0],
                  "/notes");
    join_words(&text, ops, from);
    if (ops->n <= from)
        return note_list(c, path.p);
    AUTO(json) struct json *body = json_new_object();
    json_set_take(body, "text", json_new_str(buf_str(&text)));
    if (o->author)
        json_set_str(body, "author", o->author);
    return cli_post(c, path.p, body, NULL, &e) < 0 ? cli_fail(&e) : 0;
}
const struct command cmd_note = {
    BERTH_COMMAND(SECTION_CHANGE, "note", "[OPTION…] JOB [TEXT…]\n--about PROJECT [TEXT…]", note,
                  "write or list notes about a job or project"),
    OPTIONS(struct note_opts, &note_group, &output_group, &common_group),
    .examples = EXAMPLES({"berth note 42 'diverged after step 900'", "about a job"},
                         {"berth note 42", "list the notes of job 42"},
                         {"berth note --about vision 'new data from today'", "about a project"}),
    OPERANDS("job", 0, SIZE_MAX, COMPLETE_JOB),
};

/* ---- berth project ---- */

static int project_show(struct cli *c, const char *path)
{
    AUTO(json) struct json *p = NULL;
    struct err e = {0};
    AUTO(buf) struct buf b = {0};

    if (cli_get(c, path, &p, &e) < 0)
        return cli_fail(&e);
    if (cli_json(c)) {
        json_write(&b, p, JSON_PRETTY);
        buf_addc(&b, '\n');
    } else {
        struct str text = text_of(p, "description");
        int64_t jobs = int_of(p, "total"), notes = int_of(p, "notes");
        buf_addf(&b, STR_FMT ", owner " STR_FMT ", %lld job%s, %lld note%s\n",
                 STR_ARG(text_of(p, "name")), STR_ARG(text_of(p, "owner")), (long long)jobs,
                 plural_end(jobs), (long long)notes, plural_end(notes));
        if (text.n)
            buf_addf(&b, "\n" STR_FMT "\n", STR_ARG(text));
    }
    cli_print(&b);
    return 0;
}

/* "-" as the only word reads the description from standard input. */
static int project(struct cli *c, const void *opts UNUSED, const struct operands *ops)
{
    AUTO(buf) struct buf path = {0}, text = {0};
    const char *verb = ops->p[0];
    struct err e = {0};

    resource_path(&path, "projects", ops->p[1], "");
    if (!strcmp(verb, "show"))
        return project_show(c, path.p);
    if (strcmp(verb, "describe") != 0)
        return cli_refuse("berth project has no action '%.40s'; the actions are show and describe",
                          verb);
    if (ops->n == 3 && !strcmp(ops->p[2], "-")) {
        AUTO_FREE char *all = NULL;
        size_t n;
        if (fd_read_all(STDIN_FILENO, NOTE_MAX, &all, &n, &e) < 0)
            return cli_fail(&e);
        buf_add(&text, all, n);
    } else {
        join_words(&text, ops, 2);
    }
    AUTO(json) struct json *body = json_new_object();
    json_set_take(body, "description", json_new_str(buf_str(&text)));
    return cli_call(c, "PUT", path.p, NULL, body, NULL, &e) < 0 ? cli_fail(&e) : 0;
}
const struct command cmd_project = {
    BERTH_COMMAND(SECTION_CHANGE, "project", "show NAME\ndescribe NAME TEXT…|-", project,
                  "show or describe a project"),
    .description = "berth projects lists all projects.",
    .groups = OPTION_GROUPS(&output_group, &common_group),
    .examples = EXAMPLES(
        {"berth project describe vision 'all that looks'", "set a short description"},
        {"berth project describe vision - < README.md", "set the description from a Markdown file"},
        {"berth project show vision", "description, owner and number of jobs"}),
    OPERANDS("action", 2, SIZE_MAX, COMPLETE_CHOICES),
    .choices = "show|describe",
};

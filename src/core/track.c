/* track.c - tags, notes and descriptions by hand
 *
 * They change nothing that the controller keeps in memory: each is checked, staged and answered
 * after its commit.
 */
#include "core/track.h"
#include "core/core_priv.h"

struct tracking {
    core_act_fn done;
    void *arg;
};

static void on_tracked(void *arg, const struct err *e)
{
    struct tracking *x = arg;
    const struct acted one = {.done = 1};

    x->done(x->arg, e, e ? NULL : &one);
    free(x);
}

void track_answer(struct core *c, core_act_fn done, void *arg)
{
    struct tracking *x = xmalloc(sizeof(*x));

    *x = (struct tracking){done, arg};
    trouble_barrier(c, TROUBLE_NOT_RECORDED, on_tracked, x);
}

static void stage_and_answer(struct core *c, const struct change *ch, core_act_fn done, void *arg)
{
    core_stage(c, ch);
    track_answer(c, done, arg);
}

/* It is there, and theirs. */
static int may_change(struct core *c, uint64_t job, const struct caller *who, struct err *e)
{
    const struct job *j = core_job(c, job);
    struct ledger *led = &c->conf.ledger;
    struct job_record rec;
    uint32_t uid;

    if (j) {
        uid = j->uid;
    } else {
        if (led->read_job(led->self, job, &rec, e) < 0)
            return -1;
        uid = rec.uid;
    }
    if (caller_sees(who, uid))
        return 0;
    return err_set(e, ERR_DENIED, "job %llu is another user's; only its owner may change it",
                   (unsigned long long)job);
}

/* min and max are bytes. */
static int check_text(struct str s, const char *what, size_t min, size_t max, struct err *e)
{
    if (s.n < min)
        return err_set(e, ERR_INVALID, "%s: the text is empty", what);
    if (s.n > max)
        return err_set(e, ERR_INVALID, "%s: at most %zu bytes, this has %zu", what, max, s.n);
    if (memchr(s.p, 0, s.n) || !str_is_utf8(s))
        return err_set(e, ERR_INVALID, "%s: not text in UTF-8", what);
    return 0;
}

void core_tag(struct core *c, uint64_t job, struct str name, struct str value,
              const struct caller *who, core_act_fn done, void *arg)
{
    struct err e = {0};

    if (check_text(name, "tag", 1, TRACK_NAME_MAX, &e) < 0 ||
        check_text(value, "tag value", 0, TRACK_TEXT_MAX, &e) < 0 ||
        may_change(c, job, who, &e) < 0) {
        done(arg, &e, NULL);
        return;
    }
    stage_and_answer(
        c,
        &(struct change){
            CHANGE_BY(c, who, CHANGE_MARK),
            .mark = {.key = {job, 0}, .kind = 't', .name = name, .text = value, .step = -1}},
        done, arg);
}

void core_untag(struct core *c, uint64_t job, struct str name, const struct caller *who,
                core_act_fn done, void *arg)
{
    struct err e = {0};

    if (may_change(c, job, who, &e) < 0) {
        done(arg, &e, NULL);
        return;
    }
    stage_and_answer(c,
                     &(struct change){CHANGE_BY(c, who, CHANGE_MARK_GONE),
                                      .mark_gone = {.job = job, .kind = 't', .name = name}},
                     done, arg);
}

void core_note(struct core *c, struct str project, uint64_t job, struct str text, struct str author,
               const struct caller *who, core_act_fn done, void *arg)
{
    struct err e = {0};

    if (check_text(text, "note", 1, TRACK_NOTE_MAX, &e) < 0 ||
        check_text(author, "author", 0, TRACK_AUTHOR_MAX, &e) < 0 ||
        (job ? may_change(c, job, who, &e)
             : check_text(project, "project", 1, TRACK_NAME_MAX, &e)) < 0) {
        done(arg, &e, NULL);
        return;
    }
    stage_and_answer(c,
                     &(struct change){CHANGE_BY(c, who, CHANGE_NOTE),
                                      .note = {.job = job,
                                               .project = project,
                                               .text = text,
                                               .author = author.n ? author : str_of(who->user),
                                               .uid = who->uid}},
                     done, arg);
}

void core_describe(struct core *c, struct str project, struct str text, const struct caller *who,
                   core_act_fn done, void *arg)
{
    struct err e = {0};

    if (check_text(project, "project", 1, TRACK_NAME_MAX, &e) < 0 ||
        check_text(text, "description", 0, TRACK_NOTE_MAX, &e) < 0) {
        done(arg, &e, NULL);
        return;
    }
    stage_and_answer(
        c,
        &(struct change){CHANGE_BY(c, who, CHANGE_PROJECT),
                         .project = {.name = project, .description = text, .uid = who->uid}},
        done, arg);
}

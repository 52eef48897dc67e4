/* prop_schedule.c - schedules under clocks that jump and daemons that die
 *
 * A schedule lives through a random history: time passes, the wall clock is set forward and back,
 * the daemon crashes with and without its last commit, is down for a while, and comes back.  At the
 * end every committed job names its moment.
 */
#include "base/util.h"
#include "core/bench.h"
#include "core/schedule.h"
#include "prop.h"
#include <stdio.h>
#include <string.h>

struct one {
    struct submission s;
    struct spec_row spec;
    struct job_row job;
    int64_t at_s;
};

/* The wall clock is the world's time and what people did to the clock. */
struct life {
    struct bench *b;
    int64_t shift_ms;
};
static struct life life;

static int64_t wall(void *self)
{
    return ((struct bench *)self)->world.now + SIM_EPOCH_MS + life.shift_ms;
}

static int64_t mono(void *self)
{
    return ((struct bench *)self)->world.now;
}

static void free_one(struct submission *s)
{
    free(s);
}

static void on_fire(void *self, struct firing *f)
{
    struct one *x = xcalloc(1, sizeof(*x));

    (void)self;
    x->spec = (struct spec_row){.body = STR("{}"),
                                .name = STR("n"),
                                .project = STR("p"),
                                .queue = STR("default"),
                                .need = {.slots = 1}};
    x->s = (struct submission){
        .specs = &x->spec, .n_specs = 1, .jobs = &x->job, .n_jobs = 1, .free_fn = free_one};
    x->at_s = f->at_s;
    core_fired_take(f, &x->s, NULL);
}

static const struct core_ops ops = {.fire = on_fire};

static void on_added(void *arg, const struct err *e, const struct acted *r)
{
    (void)arg;
    (void)r;
    ASSERT(!e);
}

static void one_turn(struct life *l, bool commit)
{
    core_turn(l->b->core);
    disk_seal(&l->b->disk);
    if (commit)
        disk_commit(&l->b->disk);
}

static void some_step(struct prop *p, struct life *l)
{
    switch (prop_choice(p, 9)) {
    case 0:
        l->shift_ms += prop_int(p, -7200, 7200) * 1000;
        break;
    case 1:
        bench_crash(l->b);
        world_advance(&l->b->world, prop_int(p, 0, 7200) * 1000);
        bench_boot(l->b);
        break;
    case 2:
        one_turn(l, false); /* a crash may come before its commit */
        break;
    default:
        world_advance(&l->b->world, prop_int(p, 0, 300) * 1000);
        one_turn(l, true);
    }
}

/* Whatever is due now is done.  The core looks at the wall clock every 20 s at least, and `all`
 * makes up for one moment a turn. */
static void come_to_rest(struct life *l)
{
    size_t before;

    world_advance(&l->b->world, 21000);
    do {
        before = l->b->disk.jobs.n;
        world_advance(&l->b->world, 1);
        for (int i = 0; i < 3; i++)
            one_turn(l, true);
    } while (l->b->disk.jobs.n > before);
}

/* A moment has at most one job; every moment of a schedule that catches up on all has exactly
 * one. */
static bool check_moments(struct prop *p, const struct life *l, const struct schedule *s,
                          int64_t begin_s)
{
    const struct disk *d = &l->b->disk;
    struct schedule_rules rules = s->rules;
    int64_t expected = begin_s, before = 0;
    bool ok = true;

    for (size_t i = 0; ok && i < d->jobs.n; i++) {
        if (!d->jobs.p[i].exists)
            continue;
        int64_t at = ((const struct one *)d->jobs.p[i].submission)->at_s;
        expected = schedule_after(&rules, &s->zone, expected);
        ok = prop_check(p, at > before, "job %zu has moment %lld, not after %lld", i + 1,
                        (long long)at, (long long)before) &&
             prop_check(p, schedule_after(&rules, &s->zone, at - 1) == at, "%lld is no moment",
                        (long long)at) &&
             prop_check(p, rules.catch_up != CATCH_UP_ALL || at == expected,
                        "moment %lld has no job", (long long)expected);
        before = at;
    }
    if (ok && rules.catch_up == CATCH_UP_ALL) {
        int64_t left = schedule_after(&rules, &s->zone, expected);
        ok = prop_check(p, !left || left * 1000 > wall(l->b), "moment %lld is left over",
                        (long long)left);
    }
    return ok;
}

static bool each_moment_once(struct prop *p, void *ctx)
{
    static const char *const crons[] = {"\"* * * * *\"", "\"*/15 * * * *\"", "\"7 3 * * *\"",
                                        "{\"minute\": \"*/2\", \"second\": 30}"};
    static const char *const rules[] = {"\"latest\"", "\"all\"", "\"none\""};
    AUTO_FREE char *text = xasprintf("{\"cron\": %s, \"catch_up\": %s, \"overlap\": \"queue\"}",
                                     PROP_PICK(p, crons), PROP_PICK(p, rules));
    AUTO(json) struct json *def = NULL;
    struct caller who = {.uid = 1000, .user = "ada"};
    struct err e = {0};

    (void)ctx;
    life = (struct life){.b = bench_new(&(struct core_conf){.ops = &ops}, 1, 1)};
    life.b->conf.clock = (struct clock){wall, mono, life.b};
    bench_boot(life.b);
    ASSERT(json_parse(str_of(text), "definition", &def, &e) == 0);
    prop_note(p, "%s", text);
    core_schedule_add(life.b->core, &(struct schedule_request){.name = STR("s"), .def = def}, &who,
                      on_added, NULL);
    int64_t begin_s = wall(life.b) / 1000;
    one_turn(&life, true);
    for (size_t i = 0, n = prop_size(p, 40); i < n; i++)
        some_step(p, &life);
    come_to_rest(&life);
    bool ok = check_moments(p, &life, core_schedule_at(life.b->core, 0), begin_s);
    bench_free(life.b);
    return ok;
}

int main(void)
{
    prop_run("each moment submits at most one job, and with catch-up all exactly one", 2000,
             each_moment_once, NULL);
    return prop_end();
}

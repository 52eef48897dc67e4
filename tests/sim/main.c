/* main.c - sim [FIRST COUNT]: that many seeds; and six planted bugs that must be found within 1000
 *
 * A failing seed is printed; `sim SEED 1` replays it.
 */
#include "base/str.h"
#include "base/util.h"
#include "sim/sim.h"
#include <stdio.h>

/* Sanitizers make a seed four times as long; the rest is for the build without. */
#ifdef __SANITIZE_ADDRESS__
enum { SEEDS = 6000 };
#else
enum { SEEDS = 20000 };
#endif
/* Scripts must be killed so often between two epochs, in a run of so many seeds or more. */
enum { PLANTED_SEEDS = 1000, KILLS_MIN = 2000, KILLS_SEEDS = 6000 };

static int run_seeds(uint64_t first, uint64_t count)
{
    size_t steps = 0, jobs = 0, crashes = 0, stops = 0, kills[RANK_FINISHED + 1] = {0};

    for (uint64_t seed = first; seed < first + count; seed++) {
        char hand[32];
        snprintf(hand, sizeof(hand), "seed %llu", (unsigned long long)seed);
        assert_context = hand;
        struct sim_result r = sim_run(seed, PLANT_NOTHING);
        assert_context = NULL;
        steps += r.steps;
        jobs += r.jobs;
        crashes += r.crashes;
        stops += r.stops;
        for (size_t i = 0; i < ARRAY_SIZE(kills); i++)
            kills[i] += r.kills[i];
        if (r.failure[0]) {
            printf("not ok 1 - seed %llu: %s\n", (unsigned long long)seed, r.failure);
            return 1;
        }
    }
    /* Between the end of an epoch and the beginning of the next. */
    size_t between = kills[RANK_WAITS] + kills[RANK_SAVES] + kills[RANK_ASKS];
    bool few = count >= KILLS_SEEDS && between < KILLS_MIN;
    printf("%s 1 - %llu seeds: %zu steps, %zu jobs, %zu crashes, %zu stops; scripts killed: %zu "
           "reporting, %zu saving, %zu asking, %zu computing\n",
           few ? "not ok" : "ok", (unsigned long long)count, steps, jobs, crashes, stops,
           kills[RANK_REPORTS] + kills[RANK_WAITS], kills[RANK_SAVES], kills[RANK_ASKS],
           kills[RANK_COMPUTES]);
    return few;
}

static int find_planted(int n, enum planted p, const char *name)
{
    for (uint64_t seed = 1; seed <= PLANTED_SEEDS; seed++) {
        struct sim_result r = sim_run(seed, p);
        if (r.failure[0]) {
            printf("ok %d - planted bug \"%s\" found at seed %llu: %s\n", n, name,
                   (unsigned long long)seed, r.failure);
            return 0;
        }
    }
    printf("not ok %d - planted bug \"%s\" was not noticed in %d seeds\n", n, name, PLANTED_SEEDS);
    return 1;
}

int main(int argc, char **argv)
{
    int64_t first = 1, count = SEEDS;
    int bad = 0;

    if (argc > 1 && !str_to_i64(str_of(argv[1]), &first))
        return 2;
    if (argc > 2 && !str_to_i64(str_of(argv[2]), &count))
        return 2;
    puts("1..7");
    bad += run_seeds((uint64_t)first, (uint64_t)count);
    bad += find_planted(2, PLANT_EARLY_ACK, "acknowledge before the commit");
    bad += find_planted(3, PLANT_LATE_START, "a start of a dead controller runs late");
    bad += find_planted(4, PLANT_FORGETFUL, "a live run is denied after a restart");
    bad += find_planted(5, PLANT_AMNESIA, "epochs are acknowledged and not kept");
    bad += find_planted(6, PLANT_REFUSED, "a run that was refused starts all the same");
    bad += find_planted(7, PLANT_LATE_SAVE, "scripts save after their epoch is confirmed");
    return bad != 0;
}

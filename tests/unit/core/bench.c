/* bench.c - see bench.h */
#include "core/bench.h"
#include "base/util.h"

static int64_t wall(void *self)
{
    return ((struct bench *)self)->world.now + SIM_EPOCH_MS;
}

static int64_t mono(void *self)
{
    return ((struct bench *)self)->world.now;
}

struct bench *bench_new(const struct core_conf *conf, int hosts, int32_t slots)
{
    struct bench *b = xcalloc(1, sizeof(*b));

    b->conf = *conf;
    b->conf.ledger = disk_ledger(&b->disk);
    b->conf.clock = (struct clock){wall, mono, b};
    b->conf.seed = 7;
    b->conf.home.dir = "/nonexistent";
    b->checkpoint_ms = -1;
    rng_seed(&b->rng, 12);
    b->disk.next_job = b->disk.next_spec = b->disk.next_batch = 1;
    world_init(&b->world, &b->rng, PLANT_NOTHING);
    b->world.n_hosts = hosts;
    for (int i = 0; i < SIM_HOSTS; i++)
        b->world.hosts[i].node.slots = slots;
    return b;
}

void bench_boot(struct bench *b)
{
    struct err e;

    b->disk.dead = false;
    b->core = core_new(&b->conf);
    b->world.core = b->core;
    world_attach(&b->world, b->backends);
    ASSERT(core_recover(b->core, &e) == 0);
}

void bench_crash(struct bench *b)
{
    b->world.dead_calls = true;
    world_crash_controller(&b->world);
    disk_crash(&b->disk);
    core_free(b->core);
    for (int i = 0; i < b->world.n_hosts; i++)
        backend_sim.close(b->backends[i]);
    b->world.dead_calls = false;
}

void bench_free(struct bench *b)
{
    bench_crash(b);
    disk_done(&b->disk);
    world_done(&b->world);
    free(b);
}

int bench_teardown(void **state)
{
    bench_free(*state);
    return 0;
}

void bench_turn(struct bench *b)
{
    core_turn(b->core);
    disk_seal(&b->disk);
    disk_commit(&b->disk);
}

void bench_settle(struct bench *b, int64_t step_ms)
{
    const struct sim_host *h = &b->world.hosts[0];

    for (int i = 0; i < 20; i++) {
        bench_turn(b);
        while (h->channel.n)
            world_deliver_msg(&b->world);
        while (h->asked.n)
            world_answer(&b->world);
        while (h->read < h->journal.n)
            world_deliver_happening(&b->world);
        b->world.now += step_ms;
    }
}

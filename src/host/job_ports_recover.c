/* job_ports_recover.c - ports of jobs from before a restart of the daemon
 *
 * Jobs keep running while the daemon is away, so the daemon finds their ports in the recorded specs
 * and opens them again.
 */
#include "base/json.h"
#include "base/log.h"
#include "base/util.h"
#include "core/core.h"
#include "host/job_ports_priv.h"
#include "io/loop.h"
#include "store/query.h"
#include "store/store.h"

/* Filled on a worker thread, used on the loop thread after that. */
struct port_search {
    struct job_ports *d;
    VEC(uint64_t) jobs;
    VEC(struct port_pair) ports; /* ports of jobs.p[i] stand in a row, counts.p[i] of them */
    VEC(size_t) counts;
};

static bool port_search_job(void *arg, const struct job_view *v)
{
    struct port_search *r = arg;

    if (v->need.gpus > 0 || job_state_has_run(v->state))
        vec_push(&r->jobs, v->seq);
    return true;
}

/* The engine opens the ports of a container, unless that is on the host's network. */
static bool engine_opens(const struct json *spec)
{
    const struct json *network = json_get(json_get(spec, "container"), "network");

    return json_get(spec, "image") &&
           !(json_type(network) == JSON_STR && str_eq_c(json_str(network), "host"));
}

static void port_search_read(struct port_search *r, uint64_t job)
{
    AUTO_FREE char *text = NULL;
    AUTO(json) struct json *spec = NULL;
    struct err e;
    size_t n = 0;

    if (store_job_spec(r->d->store, job, &text, &e) == 0 && strstr(text, "\"ports\"") &&
        json_parse(str_of(text), "spec", &spec, &e) == 0) {
        const struct json *list = json_get(spec, "ports");
        for (size_t i = 0; i < json_len(list); i++) {
            struct port_pair p;
            if (port_pair_parse(json_str(json_at(list, i)), &p)) {
                if (engine_opens(spec))
                    p.container = p.node; /* taken, and nothing of ours to open */
                vec_push(&r->ports, p);
                n++;
            }
        }
    }
    vec_push(&r->counts, n);
}

static void port_search_work(void *arg)
{
    struct port_search *r = arg;
    struct job_query q = {.state_mask = JOB_STATES_ACTIVE, .limit = 10000};
    AUTO_FREE char *cursor = NULL;
    struct err e;

    do {
        char *next = NULL;
        q.cursor = cursor;
        if (store_jobs(r->d->store, &q, port_search_job, r, &next, &e) < 0) {
            log_warn("ports", "cannot read the ports of jobs: %s", e.text);
            break;
        }
        free(cursor);
        cursor = next;
    } while (cursor);
    for (size_t i = 0; i < r->jobs.n; i++)
        port_search_read(r, r->jobs.p[i]);
}

/* Loop thread.  A job may have ended during the search, so each job is checked again. */
static void port_search_done(void *arg)
{
    struct port_search *r = arg;
    size_t at = 0;

    r->d->recovering--;
    for (size_t i = 0; i < r->jobs.n && !r->d->closing; at += r->counts.p[i++]) {
        struct run_key key = {.job = r->jobs.p[i]};
        if (r->counts.p[i] && core_job_active(r->d->core, key.job, NULL))
            job_ports_start(r->d, key, r->ports.p + at, r->counts.p[i]);
    }
    job_ports_look(r->d); /* shuts those whose jobs wait */
    vec_done(&r->jobs);
    vec_done(&r->ports);
    vec_done(&r->counts);
    free(r);
}

void job_ports_recover(struct job_ports *d)
{
    struct port_search *r = xcalloc(1, sizeof(*r));

    r->d = d;
    d->recovering++;
    work_submit(d->loop, port_search_work, port_search_done, r);
}

void job_ports_shut(struct job_ports *d)
{
    d->closing = true;
}

bool job_ports_busy(const struct job_ports *d)
{
    return d && d->recovering > 0;
}

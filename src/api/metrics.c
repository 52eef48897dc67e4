/* metrics.c - GET /metrics: Prometheus text, format 0.0.4
 *
 * Counters count from the start of this daemon; gauges are of now.
 */
#include "api/api_priv.h"
#include "core/trouble.h"
#include "request/share.h"

/* type, name, help, value */
#define METRIC_LIST(X)                                                                             \
    X(gauge, jobs_queued, "Waiting jobs that may start.", core.queued)                             \
    X(gauge, jobs_held, "Jobs that wait for other jobs or for a retry.", core.held)                \
    X(gauge, jobs_starting, "Jobs that are being started.", core.starting)                         \
    X(gauge, jobs_running, "Jobs whose command runs.", core.running)                               \
    X(gauge, jobs_stopping, "Jobs that are being stopped.", core.stopping)                         \
    X(counter, jobs_submitted_total, "Jobs accepted.", core.submitted)                             \
    X(counter, runs_started_total, "Runs started.", core.started)                                  \
    X(counter, runs_lost_total, "Runs that vanished without an outcome.", core.lost_runs)          \
    X(counter, plans_total, "Plans that were made.", core.plans)                                   \
    X(counter, plan_microseconds_total, "Time spent planning.", core.plan_us_total)                \
    X(gauge, plan_microseconds_max, "Longest planning so far.", core.plan_us_max)                  \
    X(counter, store_commits_total, "Transactions made durable.", store.commits)                   \
    X(counter, store_changes_total, "Changes made durable.", store.changes)                        \
    X(counter, store_refused_total, "Submissions the store could not take.", store.refused)        \
    X(gauge, store_last_event, "Number of the newest event.", store.last_event)                    \
    X(gauge, store_commit_microseconds, "Time of the last commit.", store.last_commit_us)          \
    X(gauge, store_commit_microseconds_max, "Longest commit so far.", store.max_commit_us)         \
    X(gauge, store_bytes, "Size of the database file.", store.db_bytes)                            \
    X(gauge, store_wal_bytes, "Size of the write-ahead log.", store.wal_bytes)                     \
    X(gauge, store_damaged, "1 when a check found the database damaged.", health.damaged)          \
    X(gauge, store_checked_seconds, "When a check of the whole database ended well last.",         \
      health.checked_ms / 1000)                                                                    \
    X(counter, http_requests_total, "Requests served.", http.requests)                             \
    X(counter, http_refused_total, "Requests refused before a handler saw them.", http.refused)    \
    X(gauge, http_connections, "Connections open.", http.connections_open)                         \
    X(gauge, http_streams, "Event streams and followed logs open.", http.streams_open)             \
    X(counter, http_received_bytes_total, "Bytes received.", http.bytes_in)                        \
    X(counter, http_sent_bytes_total, "Bytes sent.", http.bytes_out)                               \
    X(gauge, start_time_seconds, "When this daemon started.", a->conf.started_ms / 1000)

/* name, help, value; a line for each node */
#define NODE_LIST(X)                                                                               \
    X(slots, "Slots of a node.", n->slots)                                                         \
    X(slots_used, "Slots in use.", u->slots)                                                       \
    X(cpu_millis, "Thousandths of CPUs of a node.", n->mcpu)                                       \
    X(cpu_millis_used, "Thousandths of CPUs in use.", u->mcpu)                                     \
    X(memory_bytes, "Memory of a node.", n->mem_bytes)                                             \
    X(memory_bytes_used, "Memory asked for by running jobs.", u->mem_bytes)                        \
    X(gpus, "GPUs of a node.", n->n_devices)                                                       \
    X(gpus_used, "GPUs in use.", gpu_set_count(&u->gpus))                                          \
    X(drained, "1 when the node starts nothing.", n->drained)                                      \
    X(away, "1 when the node cannot be reached.", n->away)

/* name, help, value; a line for each device */
#define GPU_LIST(X)                                                                                \
    X(memory_bytes, "Memory of a GPU.", d->mem_bytes)                                              \
    X(memory_bytes_used, "Memory in use by all processes.", d->used_bytes)                         \
    X(memory_bytes_foreign, "Memory used by processes that are not jobs.", d->foreign_bytes)       \
    X(busy_percent, "Share of time in which the GPU computed.", d->busy_percent)                   \
    X(power_milliwatts, "Power draw of a GPU.", d->power_mw)                                       \
    X(usable, "0 when the GPU is lost or excluded.",                                               \
      d->state == DEVICE_OK || d->state == DEVICE_UNSEEN)

/* A node that was removed leaves an empty place, for which core_node returns NULL. */
static void metrics_put_nodes(struct buf *b, const struct core *core)
{
#define X(what, help, value)                                                                       \
    buf_adds(b, "# HELP berth_node_" #what " " help "\n# TYPE berth_node_" #what " gauge\n");      \
    for (size_t i = 0; i < core_node_count(core); i++) {                                           \
        const struct node *n = core_node(core, i);                                                 \
        const struct usage *u = n ? core_usage(core, i) : NULL;                                    \
        if (n && u)                                                                                \
            buf_addf(b, "berth_node_" #what "{node=\"%s\"} %lld\n", n->name, (long long)(value));  \
    }
    NODE_LIST(X)
#undef X
}

static void put_refused(struct buf *b, const struct auth *auth)
{
    buf_adds(b, "# HELP berth_connections_refused_total Connections beyond what their caller may "
                "have.\n# TYPE berth_connections_refused_total counter\n");
    for (size_t i = 0; i < SHARE_KINDS; i++)
        buf_addf(b, "berth_connections_refused_total{class=\"%s\"} %llu\n", share_names[i],
                 (unsigned long long)auth->refused[i]);
}

static void put_troubles(struct buf *b, const struct core *core)
{
    buf_adds(b, "# HELP berth_trouble 1 while nothing can start because of this.\n"
                "# TYPE berth_trouble gauge\n");
    for (int k = 0; k < TROUBLE_KINDS; k++)
        buf_addf(b, "berth_trouble{kind=\"%s\"} %d\n", trouble_name((enum trouble_kind)k),
                 core_trouble(core, (enum trouble_kind)k)->on);
}

static void put_ended(struct buf *b, const struct core_stats *s)
{
    buf_adds(b, "# HELP berth_jobs_ended_total Jobs that reached a final state.\n"
                "# TYPE berth_jobs_ended_total counter\n");
    for (int i = 0; i < JOB_STATE_MAX; i++)
        if (job_state_final((enum job_state)i))
            buf_addf(b, "berth_jobs_ended_total{state=\"%s\"} %llu\n", job_state_name(i),
                     (unsigned long long)s->ended[i]);
}

/* Without GPUs the metrics of GPUs are left out, with their HELP lines. */
static bool has_gpus(const struct core *core)
{
    for (size_t i = 0; i < core_node_count(core); i++)
        if (core_node(core, i) && core_node(core, i)->n_devices)
            return true;
    return false;
}

/* A negative value is one that the device does not report: it gets no line. */
static void put_gpus(struct buf *b, const struct core *core)
{
#define X(what, help, value)                                                                       \
    buf_adds(b, "# HELP berth_gpu_" #what " " help "\n# TYPE berth_gpu_" #what " gauge\n");        \
    for (size_t k = 0; k < core_node_count(core); k++) {                                           \
        const struct node *n = core_node(core, k);                                                 \
        for (size_t i = 0; n && i < n->n_devices; i++) {                                           \
            const struct device *d = &n->devices[i];                                               \
            if ((int64_t)(value) >= 0)                                                             \
                buf_addf(b, "berth_gpu_" #what "{node=\"%s\",gpu=\"%d\",uuid=\"%s\"} %lld\n",      \
                         n->name, (int)d->index, d->uuid, (long long)(value));                     \
        }                                                                                          \
    }
    GPU_LIST(X)
#undef X
}

/* Loop thread: reads counters, and no rows of the store. */
void metrics_get(struct call *c)
{
    const struct api *a = c->self;
    struct core_stats core = core_stats(a->conf.core);
    struct store_stats store = store_stats(a->conf.store);
    struct store_health health = store_health(a->conf.store);
    struct http_server_stats http =
        a->server ? http_server_stats(a->server) : (struct http_server_stats){0};
    struct buf *b = &c->out;

#define X(type, name, help, value)                                                                 \
    buf_addf(b,                                                                                    \
             "# HELP berth_" #name " " help "\n# TYPE berth_" #name " " #type "\nberth_" #name     \
             " %lld\n",                                                                            \
             (long long)(value));
    METRIC_LIST(X)
#undef X
    put_ended(b, &core);
    put_refused(b, request_server_auth(a->conf.requests));
    put_troubles(b, a->conf.core);
    metrics_put_nodes(b, a->conf.core);
    if (has_gpus(a->conf.core))
        put_gpus(b, a->conf.core);
    buf_addf(b,
             "# HELP berth_info The running version.\n# TYPE berth_info gauge\n"
             "berth_info{version=\"%s\"} 1\n",
             a->conf.version);
    c->type = "text/plain; version=0.0.4; charset=utf-8";
    call_reply(c);
}

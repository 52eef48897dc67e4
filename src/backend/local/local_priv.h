/* local_priv.h - the local backend's own state; not for other rooms */
#pragma once
#include "backend/backend.h"
#include "base/map.h"
#include "base/vec.h"
#include "io/loop.h"
#include "shepherd/journal.h"
#include "shepherd/proto.h"

/* What has become of a run, as far as the journal tells. */
enum local_state {
    LOCAL_SENT,    /* started or adopted; no record of it yet */
    LOCAL_RUNNING, /* STARTED was read */
    LOCAL_ENDED,   /* ENDED was read; kept until core has it on disk */
    LOCAL_ABSENT,  /* core was told that it never ran; it may start it again */
};
/* A run that core handed over and has not settled.  It is in backend.runs until then. */
struct local_run {
    uint64_t id; /* run_key_pack */
    struct run_key key;
    enum local_state state;
    uint32_t journal;
    bool adopted, stopping;
    bool withdrawn; /* not to start any more, if it still waits for another run */
    bool gpus;      /* may hold devices: it is counted in backend.gpu_runs */
    int64_t grace_ms;
    int64_t pid, pid_start; /* of the command: what core believed, then what STARTED said */
    int64_t started_ms;
    uint32_t boot;
    /* Offset in the journal when the shepherd was last asked about the run; UINT64_MAX = never.
     * A VOID before that offset answers an earlier question and is ignored. */
    uint64_t asked;
    uint64_t order; /* of starts, for sending them again */
    char *frame;    /* START, kept until a record of the run is seen */
    size_t frame_n;
};
/* One journal file. */
struct generation {
    uint32_t number;
    int fd, wd; /* wd: of inotify */
    struct journal_reader reader;
    /* Bytes allocated on disk, beyond the end; UINT64_MAX = the file system cannot do that. */
    uint64_t reserved;
    /* Runs that report to this file and have not ended; and those that core has not settled.
     * The file is deleted only when `unsettled` is 0. */
    size_t live, unsettled;
    uint64_t old_size; /* when reading began: what is no record of these bytes never will be */
    bool checked;      /* its tail has been looked at since we opened it */
};

enum link_state { LINK_DOWN, LINK_STARTING, LINK_GREETING, LINK_UP };

/* Reading the journals (tail.c). */
struct local_tail {
    VEC(struct generation *) generations; /* by number */
    /* Generation that new runs report to. */
    uint32_t current;
    int inotify_fd;
    struct watch *inotify_watch;
    /* pump_timer: read at the next turn.  poll_timer: read even without inotify.
     * gather_timer: the watch is off for a few milliseconds, so that many records are read
     * together. */
    struct timer *pump_timer, *poll_timer, *gather_timer;
    int64_t pumped_ms; /* when records were last read on a hint of inotify */
    bool was_busy;     /* that reading came soon after the one before */
    /* Records are being delivered.  Core may call us from within; generations are not freed
     * then. */
    bool pumping;
};

/* The socket to the shepherd (link.c), and the process that starts the shepherd. */
struct local_link {
    enum link_state state;
    int sock;
    struct watch *sock_watch;
    struct buf in, out;
    size_t out_sent; /* bytes of `out` the socket took */
    struct timer *timer;
    /* Monotonic time at which the connection was made or welcomed; delay before the next
     * attempt. */
    int64_t since_ms, backoff_ms;
    int starter_fd; /* pidfd of the starting shepherd, -1 = none */
    int starter_pid;
    struct watch *starter_watch;
    /* Failed starts of the shepherd since the last success; only the first one is reported. */
    uint32_t noted_failures;
};

struct backend {
    struct loop *loop;
    const struct backend_events *ev;
    void *owner;
    char *home, *program; /* program: path of berth-shepherd */
    int dir_fd;           /* $BERTH_HOME/shepherd */
    struct node node;
    struct gpu_watch *gpus; /* NULL = none to watch */
    /* Number of runs with `gpus` set; 0 lets gpu_watch look less often. */
    size_t gpu_runs;
    /* CPU counts of runs are hard limits, not only weights. */
    bool cpu_quota;
    bool transient;      /* the home goes away after us: the shepherd need not stay */
    struct map_u64 runs; /* by id */
    uint64_t order;
    /* Supplementary groups that were looked up, struct group_list by uid and gid. */
    struct map_u64 groups;
    struct local_tail tail;
    struct local_link link;
    bool recalled; /* core named all earlier runs: records of other runs need not be kept */
};

/* ---- local.c ---- */
/* One record, which stands at offset `at` of g.  Records of unknown runs are ignored. */
void local_on_record(struct backend *b, struct generation *g, const struct journal_record *rec,
                     uint64_t at);
void local_notice(struct backend *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The shepherd answers: ask it about everything that has no outcome. */
void local_ask_all(struct backend *b);
void local_ask_new(struct backend *b); /* the same for adopted runs it was never asked about */

/* ---- tail.c ---- */
/* 0, or -1 with an error; tail_close is safe then.  Records are delivered from the loop, not
 * from here. */
int tail_open(struct backend *b, struct err *e);
void tail_close(struct backend *b);
void tail_soon(struct backend *b); /* reads at the next turn */
/* Reads every generation again from its beginning: adopted runs may have records that were
 * skipped. */
void tail_rewind(struct backend *b);
/* Opens the generation, and creates its file when it is missing.  NULL with an error. */
struct generation *tail_generation(struct backend *b, uint32_t number, struct err *e);
struct generation *tail_find(struct backend *b, uint32_t number); /* NULL when not open */
void tail_collect(struct backend *b); /* deletes generations nobody needs */

/* ---- link.c ---- */
/* Finds berth-shepherd and has the first attempt made from the loop.  -1 when there is no
 * program. */
int link_open(struct backend *b, struct err *e);
void link_close(struct backend *b);
void link_send(struct backend *b); /* what is in b->out, as far as the socket takes it */

/* ---- detect.c ---- */
void detect_node(struct node *n, const struct json *conf); /* all but devices */
int32_t detect_driver_gpus(void); /* how many the NVIDIA driver lists in /proc */

/* ---- mounts.c ---- */
struct arena;
/* The words as the host knows them; in the arena. */
char **mounts_unmounted(char *const *argv, char *const *mounts, struct arena *a);

/* ---- groups.c ---- */
struct group_list {
    uint32_t *gids;
    size_t n;
};
/* The groups of a user, from the name service at first and from memory later; never NULL. */
const struct group_list *groups_of(struct backend *b, uint32_t uid, uint32_t gid);
void groups_done(struct backend *b);

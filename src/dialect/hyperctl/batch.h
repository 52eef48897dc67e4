/* batch.h - a batch as its file describes it
 *
 * One loader reads the three forms of the file that are in use: the command in
 * jobs[].execution.command, in jobs[].command, or once for all in job_command.  What comes out is
 * the same struct; the rest of this room knows one form only.
 */
#pragma once
#include "base/id.h"
#include "base/json.h"
#include "base/vec.h"

#define HYPER_STATUS_LIST(X)                                                                       \
    X(INIT, "init")                                                                                \
    X(RUNNING, "running")                                                                          \
    X(SUCCEED, "succeed")                                                                          \
    X(FAILED, "failed")
enum hyper_status {
#define X(up, text) HYPER_##up,
    HYPER_STATUS_LIST(X)
#undef X
        HYPER_STATUS_MAX
};
/* The suffix of marker files and the word in answers of the API; users' scripts compare it. */
const char *hyper_status_name(enum hyper_status s);
static inline bool hyper_status_final(enum hyper_status s)
{
    return s == HYPER_SUCCEED || s == HYPER_FAILED;
}

struct hyper_job {
    char *name;
    /* Shell text, as written. */
    char *command;
    char *working_dir;     /* absolute, or begins with a variable; NULL until the layout is known */
    char *data_dir;        /* absolute; the same */
    struct json *params;   /* an object */
    struct json *resource; /* NULL = null */
    struct json *assets;   /* an array of texts */
    /* its life */
    enum hyper_status status;
    int64_t started_ms, ended_ms; /* wall clock; 0 = not yet */
    int exit_code, signo;         /* of an ended one; -1, 0 = none */
    char *hostname;               /* of the machine it ran on; NULL = this one */
    struct json *uploads;         /* "from:to", what goes with it to another machine; or NULL */
    /* while this process runs the batch */
    bool pending; /* it has to run */
    bool changed; /* its script is not the one of the last time */
    bool gap;     /* its run began before this process served the port: nobody may have answered */
    uint64_t number; /* in the scheduler; 0 = not submitted */
    struct id id;    /* there */
    size_t note;     /* the newest event that is being written (life.c); 0 = none */
};

/* A login of the remote backend.  Entries of the file that name the same one are one machine with
 * the slots of all of them. */
struct hyper_machine {
    char *node; /* what the scheduler calls it: unique in the batch */
    char *hostname, *username;
    char *password, *passphrase; /* never written anywhere */
    char *key_file, *host_key, *known_hosts, *data_dir;
    int port, slots;
    bool port_given; /* else it may be another one in ssh's own configuration */
    bool accept_new;
    struct json *environments;
};

struct hyper_batch {
    char *name;
    char *job_command; /* NULL unless given */
    VEC(struct hyper_job) jobs;
    /* Name → index in `jobs` + 1. */
    struct map_str *by_name;
    /* backend */
    bool remote;
    int slots; /* jobs at once on this machine */
    struct json *environments;
    VEC(struct hyper_machine) machines;
    char node_prefix[32]; /* of the scheduler's names of its machines */
    /* A password stands in the file itself: run.c warns when others can read the file. */
    bool has_password;
    /* server */
    char *host, *bind; /* bind NULL = host */
    int port;
    /* scheduler */
    struct json *interval; /* as written, for config.json */
    /* Only bounds how often the signal file is looked for. */
    double interval_ms;
    /* False: the API stays available after the last job. */
    bool exit_on_finish;
    /* Absolute; while the file exists no job starts.  NULL = none. */
    char *signal_file;
    char *batches_data_dir; /* NULL unless given */
    /* Each job gets a directory of its own as TMP and TMPDIR. */
    bool independent_tmp;
    bool name_was_made;
    /* One line each, for the log. */
    VEC(char *) warnings;
};

enum {
    HYPER_FILE_MAX = 64 << 20,
    HYPER_NAME_MAX = 200,
    HYPER_PORT = 8060,
    HYPER_INTERVAL_MS = 5000,
    HYPER_SLOTS_MAX = 100000,
    /* Characters of a made-up name. */
    HYPER_ID_LEN = 8,
};
#define HYPER_NODE "hyperctl." /* how the scheduler's names of machines begin */
/* Everything the program keeps for itself in a batch directory stands in here. */
#define HYPER_OWN_DIR ".hyperctl"

/* Reads and checks the tree of a file.  `cwd` makes relative paths absolute.  The caller frees
 * *out with hyper_batch_free; on failure *out is unchanged. */
int hyper_batch_parse(const struct json *j, const char *cwd, struct hyper_batch **out,
                      struct err *e);
/* The same from a file, which must be JSON and at most HYPER_FILE_MAX bytes. */
int hyper_batch_load(const char *path, const char *cwd, struct hyper_batch **out, struct err *e);
void hyper_batch_free(struct hyper_batch *b);
struct hyper_job *hyper_batch_find(const struct hyper_batch *b, struct str name); /* or NULL */
/* Makes `tag`, of up to 16 characters, part of the names of its machines, so that two batches do
 * not meet in one scheduler. */
void hyper_batch_tag(struct hyper_batch *b, const char *tag);
/* The machine the scheduler calls so; NULL = none of them, or NULL given. */
const struct hyper_machine *hyper_batch_machine(const struct hyper_batch *b, const char *node);
/* How many jobs have each status. */
void hyper_batch_count(const struct hyper_batch *b, size_t out[HYPER_STATUS_MAX]);
/* Has every job a final status?  True also for a batch without jobs. */
bool hyper_batch_finished(const struct hyper_batch *b);

/* May a job or batch be called this?  `what` stands in the message. */
int hyper_name_check(struct str name, const char *what, struct err *e);
/* 8 characters of 0-9a-zA-Z. */
void hyper_id_make(char out[HYPER_ID_LEN + 1]);
/* Absolute, with "~" and "~/x" as the user's home; yours. */
char *hyper_path(struct str path, const char *cwd);

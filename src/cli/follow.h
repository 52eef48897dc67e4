/* follow.h - staying with a job: until it ends, and along its output */
#pragma once
#include "base/json.h"
#include "cli/cli.h"

/* The job's record once it has ended for good; *out is yours.  Blocks without a time limit; see
 * follow_deadline. */
int follow_end(struct cli *c, const char *ref, struct json **out, struct err *e);
/* Returns when the job's events after *last tell of an end (or of a start, when asked), or when the
 * daemon went away; *last moves along.  Ask for the record then. */
int follow_news(struct cli *c, int64_t number, bool start_too, uint64_t *last, struct err *e);
/* All jobs of a reply to a submission; exits with the highest status of them.  timeout_ms 0 = as
 * long as it takes. */
int follow_submitted(struct cli *c, const struct json *reply, int64_t timeout_ms);
/* All jobs of a batch: *out_status is the highest exit status. */
int follow_batch(struct cli *c, const char *batch, int *out_status, struct err *e);
/* After so long: says so and leaves with status 124, whatever is under way.  Uses SIGALRM and
 * ITIMER_REAL, so a process can have one deadline.  0 or less = none. */
void follow_deadline(int64_t timeout_ms);

/* One stream of one run from byte *at on, written to fd as it grows until the run ends; *at moves
 * along.  `follow` false: what there is now.  `ref` is borrowed.  After an error f->at is behind
 * the last byte that was written to fd, so the caller may call follow_log again with the same
 * struct to resume. */
struct follow_log {
    const char *ref;
    int64_t run;   /* 0 = the last one */
    bool err_file; /* standard error of a job with split output */
    bool follow;
    int fd;
    int64_t at;
    bool closed; /* nobody reads fd any more */
    char last;   /* the last byte that was written; 0 = none */
};
int follow_log(struct http_client *http, struct follow_log *f, struct err *e);
/* The last `lines` lines of what there is now into `out`; *at: where the rest will begin.  Reads
 * f->ref, f->run and f->err_file only.  Asks for at most 64 MiB of the end of the log. */
int log_tail(struct cli *c, const struct follow_log *f, int64_t lines, struct buf *out, int64_t *at,
             struct err *e);

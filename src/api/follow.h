/* follow.h - the output of a run as it grows */
#pragma once
#include "model/job.h"

struct api;
struct follows;
struct http_req;
/* Loop thread.  Without inotify the followers look at their files once a second. */
struct follows *follows_new(struct api *a);
void follows_free(struct follows *all);
void follows_committed(struct follows *all); /* runs may have started or ended */
/* Takes over the request.  Run 0: the job's next run.  `at`: the first byte; negative counts from
 * the end.  `once`: up to its present end; a hole is left out. */
void follow_open(struct follows *all, struct http_req *r, struct run_key key, bool err_stream,
                 int64_t at, bool once);
/* A regular file that is not a link, or -1 with errno.  Any thread. */
int log_file_open(const char *path);

/* view.h - records from the daemon as people read them: cells, tables, json and csv */
#pragma once
#include "base/json.h"
#include "base/table.h"
#include "base/units.h"
#include "cli/cli.h"

enum cell_kind {
    CELL_TEXT,
    CELL_STATE,
    CELL_PARAMS,     /* "lr=0.1 depth=3"; a text as it is */
    CELL_COMMAND,    /* as a line a shell would take */
    CELL_YES,        /* "yes" or empty */
    CELL_DEVICE,     /* state of a GPU; empty before it was seen */
    CELL_PERCENT,    /* "87%" */
    CELL_POWER,      /* watts: "250W" */
    CELL_KNOWN_SIZE, /* "?/8.0G": `key` of `of`, which may both be unknown */
    CELL_GPU_JOBS,   /* of a GPU: "12 1.5G/2.0G, 14 ?/all, 2 of other users" */
    /* These and those above are aligned to the left, the others to the right. */
    CELL_LEFT_LAST = CELL_GPU_JOBS,
    CELL_NUMBER,
    CELL_VALUE,    /* of whatever type: a number, a text, JSON */
    CELL_EXIT,     /* exit code; dim when 0 */
    CELL_RUNTIME,  /* of a job: its duration, or how long it has run */
    CELL_DURATION, /* milliseconds */
    CELL_AGE,      /* a time: how long ago */
    CELL_SIZE,     /* bytes; empty for 0 */
    CELL_NEXT,     /* the first of a list of times: "14:05" */
    CELL_SHARE,    /* "3/8": key of `of` */
    /* The same with sizes: "1.5G/8.0G". */
    CELL_SHARE_SIZE,
    CELL_EPOCHS,   /* of a job: "3/10"; empty when it reports none */
    CELL_EXPECTED, /* of a job: "starts 14:05", "ends 15:40", as predicted */
};
/* `key` is the member of the row.  shrinks: the column may be cut when the terminal is too narrow.
 */
struct column {
    const char *title, *key;
    enum cell_kind kind;
    bool shrinks;
    const char *hide; /* column is left out when every cell is empty or this */
    const char *of;   /* the other member of a share */
};

/* Columns of the job table, narrowest useful set first. */
extern const struct column job_columns[];
extern const size_t n_job_columns;

/* Prints a list in the form that -o asks for: a table, JSON or CSV.  rows is an array of objects.
 */
void view_rows(const struct cli *c, const struct json *rows, const struct column *cols, size_t n);
/* GET path and show its "items"; `none` is said on a terminal when there are none. */
int view_list(struct cli *c, const char *path, const struct column *cols, size_t n,
              const char *none);
/* The same as lines into b, always a table. */
void view_table(struct buf *b, const struct json *rows, const struct column *cols, size_t n,
                size_t width, bool colour);
void view_json(const struct json *rows); /* one element a line */
/* Long lists for programs, page by page: json or csv, as -o says.  Zeroed at first.  `c` must be
 * set by the caller; it says which form -o asks for. */
struct view_pages {
    const struct cli *c;
    size_t rows;
};
/* Pages are written to stdout at once.  `rows` of the struct is 0 until the first page was written.
 */
void view_page(struct view_pages *v, const struct json *rows, const struct column *cols, size_t n);
void view_page_text(void *pages, struct str array); /* json only; pages: struct view_pages */
void view_pages_end(struct view_pages *v);

/* A value of whatever type: a number, a text, JSON; nothing for null. */
void view_value(struct buf *b, const struct json *v);
/* One line of a page about one thing.  A line without a text is left out, so that the page shows
 * only what is known. */
void view_line(struct buf *b, const struct cli *c, const char *label, struct str text);
void view_linef(struct buf *b, const struct cli *c, const char *label, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

enum { AGE_TEXT_MAX = 24, STAMP_TEXT_MAX = 32 };
/* COLOUR_NONE for a word that is not a state of a job. */
enum colour state_colour(struct str state);
int64_t time_in(const struct json *text); /* wall ms; 0 = null */
static inline int64_t time_of(const struct json *j, const char *key)
{
    return time_in(json_get(j, key));
}
void age_format(int64_t then_ms, int64_t now_ms, char out[AGE_TEXT_MAX]); /* "3m ago" */
void stamp_format(int64_t wall_ms, char out[STAMP_TEXT_MAX]); /* local time, to the second */
/* "14:05" today, "Nov 20 14:05" on other days, in local time. */
void clock_format(int64_t wall_ms, int64_t now_ms, char out[STAMP_TEXT_MAX]);
int64_t job_runtime(const struct json *job, int64_t now_ms); /* -1 = has not started */
void params_format(struct buf *b, const struct json *params);
/* The command as a line a shell would take. */
void command_format(struct buf *b, const struct json *command);
static inline struct str text_of(const struct json *j, const char *key)
{
    return json_get_str(j, key);
}
static inline int64_t int_of(const struct json *j, const char *key) /* 0 when absent */
{
    return json_int(json_get(j, key));
}
/* The job has ended and will not run again unless somebody retries it. */
bool job_final(const struct json *job);
/* What `berth run` and `berth wait` exit with: the job's own status; 128+signal. */
int job_exit_status(const struct json *job);
/* "failed with exit code 3: reason" into out. */
void job_outcome_text(const struct json *job, char *out, size_t n);

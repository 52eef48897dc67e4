/* filter.h - the language of every listing:  state:failed and name~cnn and lr<0.1
 *
 *   expr  := term (("and" | "or") term)* , "and" binds tighter; "not" and parentheses
 *   term  := key op value        op: ":" "=" "!=" "~" "<" "<=" ">" ">="
 *   key   := id | number | name | state | project | user | batch | exit_code | priority
 *          | attempt | created | started | ended | duration | reason
 *          | cron       the name of the schedule that submitted the job
 *          | tag        the job has a tag of this name
 *          | tag.K      the value of tag K
 *          | metric.M   the metric M
 *          | params.K   the parameter K, also when K is one of the words above
 *          | K          any other word: the parameter K, or the metric K of a job without it
 *   value := word, or "quoted"; times as RFC 3339 or as an age ("2h" = within two hours),
 *            sizes and durations with units
 *
 *   ":" is equality with a comma list (state:failed,lost); "~" is substring, case-insensitive.
 */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum filter_op {
    /* AND, OR and NOT combine other nodes; all others compare a field with values. */
    FILTER_AND,
    FILTER_OR,
    FILTER_NOT,
    FILTER_EQ,
    FILTER_NE,
    FILTER_LT,
    FILTER_LE,
    FILTER_GT,
    FILTER_GE,
    FILTER_CONTAINS,
    FILTER_IN,
    FILTER_HAS /* it is there, whatever its value */
};
enum filter_field {
    /* The fields of a job; filter_term.c maps keys to them. */
    FILTER_F_ID,
    FILTER_F_NAME,
    FILTER_F_STATE,
    FILTER_F_PROJECT,
    FILTER_F_USER,
    FILTER_F_BATCH,
    FILTER_F_EXIT_CODE,
    FILTER_F_PRIORITY,
    FILTER_F_ATTEMPT,
    FILTER_F_CREATED,
    FILTER_F_STARTED,
    FILTER_F_ENDED,
    FILTER_F_DURATION,
    FILTER_F_REASON,
    FILTER_F_TAG,
    FILTER_F_METRIC,
    FILTER_F_PARAM,
    FILTER_F_NUMBER,
    FILTER_F_CRON,
};
/* What the parser has settled, so that whoever evaluates it has little to decide:
 *   STATE values are known states in lower case.  IN occurs only for text fields, STATE and BATCH.
 *   EXIT_CODE, PRIORITY, ATTEMPT, NUMBER, DURATION (ms), METRIC and times (wall clock, ms)
 *   are always numeric; "id:42" is field NUMBER.
 *   An age becomes a comparison with a time: created<2h is created > now-2h.  A day
 * ("created:2026-11-15") becomes a range. HAS occurs for TAG only: tag:best,new is an OR of two.
 *   PARAM and TAG are numeric when the value reads as a number, except with CONTAINS; otherwise
 *   they compare as text. */
struct filter {
    enum filter_op op;
    struct filter *left, *right; /* AND OR; NOT uses left */
    enum filter_field field;
    const char *key;     /* of TAG, METRIC, PARAM */
    const char **values; /* one, or several for IN; text as written */
    size_t n_values;
    bool numeric; /* values[0] read as a number (times in ms, durations in ms) */
    double number;
};
/* Filters come from outside: these limits bound memory and recursion. */
enum { FILTER_MAX_DEPTH = 32, FILTER_MAX_TERMS = 200, FILTER_MAX_BYTES = 16384 };
/* Ages are counted back from now_ms (wall clock).  The tree and its texts live in the arena.
 * *out is NULL for an empty text, which means "every job".  Messages point at the column. */
int filter_parse(struct str text, int64_t now_ms, struct arena *a, struct filter **out,
                 struct err *e);

/* run_key.h - the name of one execution, and every form in which it is written
 *
 * A number is unique within one history of a home; a home that was restored or copied has another
 * history, in which the same number is another job.  So a run is named by its job's number, its own
 * number and a tag, 32 bits of the job's id.  Locks, journal records, files, cgroups, containers,
 * marks of processes and tokens carry all three (docs/adr/0036-a-run-is-named-by-its-id.md).
 *
 * The tag 0 is that of jobs from before there were tags: their names and locks are as they were.
 */
#pragma once
#include "base/id.h"
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>

/* One attempt of one job.  `run` counts from 1 within the job and never repeats, so a key names one
 * execution for ever.  Travels as it is between processes of one version: no padding. */
struct run_key {
    uint64_t job;
    uint32_t run;
    uint32_t tag; /* of the job's id, run_tag; 0 = the job is older than tags */
};
_Static_assert(sizeof(struct run_key) == 16, "a key has no padding");

static inline bool run_key_eq(struct run_key a, struct run_key b)
{
    return a.job == b.job && a.run == b.run && a.tag == b.tag;
}

/* Never 0.  Its values are in names on disk: it does not change. */
uint32_t run_tag(struct id id);

/* "42.1-1f3a9c2e", without a tag "42.1".  Returns the length.  Cheap enough for a process that was
 * just forked: no printf. */
enum { RUN_KEY_TEXT_MAX = 48 };
size_t run_key_format(struct run_key k, char out[RUN_KEY_TEXT_MAX]);
/* The key with which the text begins: how long it is, 0 = the text begins with none. */
size_t run_key_parse(struct str text, struct run_key *out);

/* One number for a key: the byte of its lock, and its place in tables.  False when the key is none
 * or too large.  Keys without a tag have numbers of their own below 2^62; those with one share the
 * 2^61 numbers above by a hash, so tables still compare the key. */
bool run_key_pack(struct run_key k, uint64_t *out);

/* "<home>/runs/<job / 1000>/<key><suffix>"; yours.  The suffix of a run's directory is "". */
char *run_file_path(const char *home, struct run_key k, const char *suffix);

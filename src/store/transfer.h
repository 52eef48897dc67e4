/* transfer.h - finished jobs of projects as lines of JSON, and back into another home
 *
 * docs/export.md describes the lines.  Jobs keep their ids and get new numbers.
 */
#pragma once
#include "base/err.h"
#include "base/id.h"
#include "base/str.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export_tally {
    int64_t jobs, unfinished; /* exported; not finished, and so left out */
};
/* A finished job that is exported. */
typedef void (*export_job_fn)(void *arg, uint64_t job, const char *id);
/* One line, without its line break; -1 with e ends the export. */
typedef int (*export_line_fn)(void *arg, struct str line, struct err *e);
/* Reads the database at `path`, beside a daemon or without one, in one consistent state.
 * ERR_NOT_FOUND: there is no such project. */
int store_export(const char *path, const char *const *projects, size_t n, export_line_fn line,
                 export_job_fn job, void *arg, struct export_tally *out, struct err *e);

struct import_conf {
    const char *path;    /* of the database; nobody else has it open for writing */
    const char *project; /* for all jobs; NULL = their own */
    uint32_t uid, gid;   /* whom the jobs belong to from now on */
    int64_t wall_ms;
    /* A job that is new here: its files are put in place before the transaction ends. */
    int (*job)(void *arg, const char *id, uint64_t number, struct err *e);
    void *arg;
};
struct import_tally {
    int64_t jobs;    /* imported */
    int64_t present; /* left out: the home has or had a job with that id */
    uint64_t first;  /* number of the first imported job; 0 = none */
};
/* All lines in one transaction: all of them or none.  `name` stands in messages. */
int store_import(const struct import_conf *conf, struct str text, const char *name,
                 struct import_tally *out, struct err *e);

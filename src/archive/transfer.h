/* transfer.h - the files of an export: gathered, packed, and unpacked again
 *
 * An export is a gzip tar with one top directory: export.jsonl and the files of runs as
 * runs/ID/RUN.log, runs/ID/RUN.err and the directory runs/ID/RUN.
 */
#pragma once
#include "archive/watch.h"
#include "base/err.h"
#include <stdint.h>

#define TRANSFER_TOP "berth-export"
#define TRANSFER_LINES "export.jsonl"

/* The id of a job that is exported and whose run the file or directory `name` ("42.1-1f3a9c2e.log",
 * perhaps with a path behind it) belongs to; NULL for others. */
typedef const char *(*transfer_id_fn)(void *arg, uint64_t job, const char *name);
/* Gathers the files of runs below `stage`, by hard links where possible: they are only read. */
int transfer_gather(const char *home, const char *stage, transfer_id_fn id_of, void *arg,
                    const struct archive_watch *w, struct err *e);
/* Packs `stage` into the new file; complete or not there. */
int transfer_pack(const char *stage, const char *file, const struct archive_watch *w,
                  struct err *e);
/* Unpacks the file into the new directory `dest`, as bytes from a stranger: see unpack.h. */
int transfer_unpack(const char *file, const char *dest, struct err *e);
/* Moves the files of one imported job out of an unpacked export.  path_of: where those of a run
 * belong, for ".log", ".err" or "" (its directory); yours. */
int transfer_place(const char *from, const char *id,
                   char *(*path_of)(void *arg, uint32_t run, const char *suffix), void *arg,
                   struct err *e);

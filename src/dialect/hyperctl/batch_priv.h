/* batch_priv.h - what the files of the loader share */
#pragma once
#include "dialect/hyperctl/batch.h"

/* What every function of the loader needs.  Nothing in it is owned. */
struct hyper_loader {
    struct hyper_batch *b;
    const char *cwd;
    struct err *e;
};

/* Adds a warning to the batch; it is logged when the batch runs. */
__attribute__((format(printf, 2, 3))) void hyper_warn(struct hyper_batch *b, const char *fmt, ...);
/* Members of an object by type; absent and null leave *out alone.  `where` begins the message. */
int hyper_take_text(const struct json *obj, const char *key, const char *where, char **out,
                    struct err *e);
int hyper_take_bool(const struct json *obj, const char *key, const char *where, bool *out,
                    struct err *e);
int hyper_take_int(const struct json *obj, const char *key, const char *where, int64_t min,
                   int64_t max, int *out, struct err *e);
int hyper_take_object(const struct json *obj, const char *key, const char *where,
                      const struct json **out, struct err *e);
/* {NAME: scalar}, names that a shell takes; a copy. */
int hyper_take_environments(const struct json *obj, const char *where, struct json **out,
                            struct err *e);
/* The first key of obj that is not in the NULL-terminated list, or NULL. */
const char *hyper_unknown_key(const struct json *obj, const char *const *known);

/* backend.c */
int hyper_load_backend(struct hyper_loader *l, const struct json *j);
/* Frees the members of the machine. */
void hyper_machine_done(struct hyper_machine *m);

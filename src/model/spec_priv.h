/* spec_priv.h - the one table of spec keys: parser, writer and JSON Schema read the same lines */
#pragma once
#include "model/spec.h"
#include <stddef.h>

enum key_kind {
    KEY_TEXT,      /* name-like: one line, 1 to max bytes */
    KEY_COMMAND,   /* string = shell line, list = words */
    KEY_DIR,       /* absolute path */
    KEY_ENV,       /* map of scalars */
    KEY_RESOURCES, /* map of resource_keys */
    KEY_CPUS,
    KEY_SIZE,
    KEY_DURATION, /* text with unit, or seconds; min and max in ms */
    KEY_INT,
    KEY_BOOL,
    KEY_SHARE,  /* bool, or not said */
    KEY_PATH,   /* of a file, absolute or below cwd */
    KEY_SIGNAL, /* "USR1", "SIGUSR1" or a number */
    KEY_TIME,   /* RFC 3339 */
    KEY_LAUNCH, /* "node" or "gpu" */
    KEY_MOUNTS, /* list of texts, as is the next */
    KEY_PORTS,
    KEY_EXTRA,      /* object, kept as it is */
    KEY_NODES,      /* list of names, or one text */
    KEY_ASSETS,     /* list of from[:to] */
    KEY_SECRETS,    /* list of names or patterns, with ! for exceptions */
    KEY_NOTIFY,     /* list of texts, or one: see model/hook.h */
    KEY_CONTAINER,  /* map of container_keys */
    KEY_ENTRYPOINT, /* these three stand in there: a text or a list of texts, */
    KEY_PULL,       /* missing, always, never, */
    KEY_LABELS,     /* map of scalars */
    KEY_PARAMS,     /* this and the following are read by sweep.c */
    KEY_AFTER,
    KEY_JOBS,
};
struct spec_key {
    const char *name;
    enum key_kind kind;
    bool sweep;    /* belongs to the form of many jobs; skipped by spec_parse */
    size_t offset; /* of the member in struct spec */
    size_t width;  /* bytes of that member: 4 or 8 */
    int64_t min, max, fallback;
    const char *doc;
    const char *no_image; /* why a job with an image cannot have the key; NULL = it can */
};
/* The member of `s` that holds the value of `k`. */
static inline void *key_member(const struct spec *s, const struct spec_key *k)
{
    return (char *)(uintptr_t)s + k->offset;
}
/* The keys at the top of the form, below `resources` and below `container`.  resource_keys are
 * accepted at the top as well. */
extern const struct spec_key spec_keys[];
extern const size_t n_spec_keys;
extern const struct spec_key resource_keys[];
extern const size_t n_resource_keys;
extern const struct spec_key container_keys[];
extern const size_t n_container_keys;

enum {
    SPEC_WORD_MAX = 131071,      /* longest argument or variable Linux passes on */
    SPEC_WORDS_MAX = 65536,      /* words of a command */
    SPEC_ENV_MAX = 10000,        /* variables */
    SPEC_COMMAND_BYTES = 1 << 20 /* all words, or all variables, together */
};

/* One spec being read; spec.c */
struct reader {
    const char *path, *sub; /* stand before the key in messages; sub is "resources." or "" */
    struct spec *s;
    unsigned needs_seen; /* bit per resource key: given flat and nested is a contradiction */
    struct err *e;
};
/* What was written, short enough for a message. */
enum { SHOW_MAX = 48 };
const char *spec_show(const struct json *v, char out[SHOW_MAX]);
/* ERR_INVALID with the path and the key before the text.  Always -1. */
__attribute__((format(printf, 3, 4))) int spec_bad(const struct reader *r, const char *key,
                                                   const char *fmt, ...);
/* "… is a string; write `wanted`".  Always -1, as is spec_bad. */
int spec_bad_type(const struct reader *r, const char *key, const struct json *v,
                  const char *wanted);
/* A copy in *out, which the caller or the spec frees.  Checks length, NULs and, for KEY_TEXT,
 * control characters. */
int spec_read_text(const struct reader *r, const struct spec_key *k, const struct json *v,
                   char **out);
/* spec_training.c: the kinds from KEY_SHARE to KEY_LAUNCH, and which keys need each other. */
int training_read(const struct reader *r, const struct spec_key *k, const struct json *v);
/* The check functions run after all keys were read, because keys may come in any order. */
int training_check(const struct reader *r);
/* The write functions set a key of `j` from the spec; they set nothing for a value at its
 * default. */
void training_write(struct json *j, const struct spec *s, const struct spec_key *k);
/* The done functions free the members of a struct, not the struct. */
void training_done(struct training *t);
/* spec_container.c: KEY_MOUNTS, KEY_PORTS and KEY_CONTAINER. */
int container_read(const struct reader *r, const struct spec_key *k, const struct json *v);
void container_write(struct json *j, const struct spec *s, const struct spec_key *k);
void container_done(struct spec_container *c);
/* Sets `key` of `j` to the object of which `text` is the JSON; nothing when text is NULL. */
void spec_write_object(struct json *j, const char *key, const char *text);
/* spec_place.c: KEY_NODES and KEY_ASSETS. */
int place_read(const struct reader *r, const struct spec_key *k, const struct json *v);
int place_check(const struct reader *r);
void place_write(struct json *j, const struct spec *s, const struct spec_key *k);
void place_done(struct spec_place *p);
/* spec_secrets.c: KEY_SECRETS. */
int secrets_read(const struct reader *r, const struct spec_key *k, const struct json *v);
void secrets_write(struct json *j, const struct spec *s, const struct spec_key *k);
/* spec_notify.c: KEY_NOTIFY. */
int notify_read(const struct reader *r, const struct spec_key *k, const struct json *v);
void notify_write(struct json *j, const struct spec *s, const struct spec_key *k);

/* NULL when the table has no such key. */
const struct spec_key *spec_key_find(const struct spec_key *keys, size_t n, struct str name);
/* "PATHkey: unknown key; did you mean "cpus"?" */
int spec_unknown_key(const char *path, const char *name, const struct spec_key *keys, size_t n,
                     bool sweep, struct err *e);
/* Checks every key that is there, without asking for a command: the part shared by `jobs`. */
int spec_check_shared(const struct json *j, struct err *e);
/* The text of a scalar as a command or variable gets it: strings raw, the rest as JSON.  *out may
 * point into the tree or to `scratch`; *owned (may come back NULL) is freed by the caller. */
struct str scalar_text(const struct json *v, char scratch[32], char **owned);
struct template_vars;
/* spec_check_placeholders for parameters that are not a tree. */
int spec_check_template(const struct spec *s, const struct template_vars *v, const char *path,
                        struct err *e);
/* template_expand with the members of `params` as values. */
struct buf;
int params_expand(struct str text, const struct json *params, struct buf *out, struct err *e);

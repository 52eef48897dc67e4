/* sweep_priv.h - the inside of a sweep, filled by sweep.c (grids) and sweep_list.c (lists) */
#pragma once
#include "base/buf.h"
#include "base/vec.h"
#include "model/sweep.h"

/* One value of an axis, formatted once, since many jobs use it. */
struct value {
    char *json;      /* as it stands in params */
    struct str text; /* as a placeholder gives it: json, or the string without quotes */
    char *owned;     /* what text points to when that is not json */
};
/* One parameter of a grid with its values. */
struct axis {
    char *key;
    struct value *values; /* NULL: the numbers 0 … n-1 */
    size_t n;
};
struct entry { /* of `jobs` */
    /* spec: index into sweep.specs.  params_at and params_n: bytes of sweep.params; params_n 0 =
     * none. */
    size_t spec, params_at, params_n;
    char *name;
    struct json *after; /* NULL: the shared one */
};
struct sweep {
    VEC(struct spec *) specs;
    VEC(struct axis) axes;
    /* Empty for a grid: its jobs are computed from the axes. */
    VEC(struct entry) entries;
    struct buf params; /* of all entries, one after another */
    struct json *after;
    size_t count;
    int32_t slots;
    char *name;           /* never NULL */
    bool name_is_pattern; /* the shared name has placeholders */
};

/* `jobs`: fills specs, entries, params, count and name. */
int sweep_read_list(struct sweep *s, const struct json *j, struct err *e);
/* Is `after` a job id or a list of them?  NULL (absent) is fine. */
int sweep_check_after(const struct json *after, const char *path, struct err *e);
/* Cuts the name that begins at `start` to the length a name may have, never inside a character. */
void sweep_cut_name(struct buf *b, size_t start);

/* template.h - text with {placeholders}
 *
 * {lr} stands for the parameter lr.  Only a brace group that holds exactly an identifier and does
 * not follow a dollar sign is one: awk's {print $1}, JSON and ${HOME} are left alone.  {{ is a
 * literal brace and makes the }} that closes it one too: {{print}} gives {print}.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

struct template_vars {
    /* The text of a parameter; false when there is none of that name. */
    bool (*find)(void *arg, struct str name, struct str *out);
    /* Up to `max` names, for suggestions. */
    size_t (*names)(void *arg, const char **out, size_t max);
    void *arg;
};
/* The caller frees the vector with vec_done; the names are borrowed. */
typedef VEC(struct str) template_used;

/* Values become part of the text. */
int template_expand(struct str text, const struct template_vars *v, struct buf *out, struct err *e);
/* Values become variable references, quoted as the place in the shell line asks for; *used gathers
 * their names, each once, borrowed from `text`. */
int template_shell(struct str text, const struct template_vars *v, struct buf *out,
                   template_used *used, struct err *e);
/* Without asking whether such a parameter exists. */
bool template_has_placeholder(struct str text);

/* ---- shared by the two ---- */
/* What stands at text[i], which is a brace. */
enum brace { BRACE_PLAIN, BRACE_ESCAPED, BRACE_PLACEHOLDER };
struct brace_group {
    enum brace kind;
    struct str name; /* of a PLACEHOLDER */
    size_t n;        /* bytes of text it covers */
};
/* text[i] must be an opening brace. */
struct brace_group template_brace(struct str text, size_t i);
/* The error for a placeholder without a parameter; suggests the nearest name.  Always -1. */
int template_unknown(const struct template_vars *v, struct str name, struct err *e);

/* vault.h - which variables are secrets, and how their values are kept
 *
 * A vault has the key of one home and the list of names that its users call secret.  It never
 * changes after vault_new, so any thread may use it.  Pure: the nonce of a sealed value is derived
 * from the value (base/seal.h).
 */
#pragma once
#include "base/err.h"
#include "base/json.h"
#include "model/spec.h"

struct vault;
enum { VAULT_NAME_MAX = 200, VAULT_NAMES_MAX = 200 };

/* The names that are secret unless somebody says otherwise. */
extern const char vault_default_names[];
/* `names` (NULL = none) are "PATTERN,!PATTERN…"; they come after the default names, and the last
 * one that matches decides.  Case does not matter; * stands for any text, ? for one character. */
int vault_new(const uint8_t secret[32], const char *names, struct vault **out, struct err *e);
void vault_free(struct vault *v); /* wipes the key; NULL is fine */
/* Is this a name or a pattern for names, with or without a ! before it? */
bool vault_name_ok(struct str name);
/* Is a variable of this name a secret?  `own` are the names of the job, "" = none: they decide
 * before those of the home. */
bool vault_hides(const struct vault *v, struct str own, struct str name);
/* Does the environment of the spec have a secret? */
bool vault_spec_hides(const struct vault *v, const struct spec *s);

/* Takes the secrets out of `form` (a spec as JSON): variables leave env, `secrets` names them, and
 * copies of the same variables under `extra` become "***".  The result, name → sealed text, is the
 * caller's; NULL = there was none.  A name of `secrets` without a value is an error (*out is NULL
 * then). */
int vault_seal_form(const struct vault *v, struct json *form, struct json **out, struct err *e);
/* The same without keeping the values, for answers about what older programs stored. */
void vault_mask_form(const struct vault *v, struct json *form);
/* The value of one secret; the caller wipes and frees it.  ERR_CONFLICT: it was sealed with the key
 * of another home. */
int vault_open(const struct vault *v, const char *name, struct str sealed, char **out,
               struct err *e);

/* The job of a schedule, which may be a sweep: sealed values stay inside it, under `sealed` beside
 * each env.  vault_open_tree puts them back; vault_strip_tree removes them for answers. */
int vault_seal_tree(const struct vault *v, struct json *job, struct err *e);
int vault_open_tree(const struct vault *v, struct json *job, struct err *e);
void vault_strip_tree(struct json *job);

/* A text of its own, such as the secret of a hook.  What is not sealed, because an older program
 * stored it, is returned as it is. */
#define VAULT_OF_HOOK "secret of a hook" /* the purpose of those */
bool vault_is_sealed(struct str text);
char *vault_seal_text(const struct vault *v, const char *purpose, struct str text);
int vault_open_text(const struct vault *v, const char *purpose, struct str text, char **out,
                    struct err *e);

/* seal.h - authenticated encryption of small texts: ChaCha20-Poly1305 (RFC 8439)
 *
 * What is kept on disk and must not be read there is sealed: encrypted, and bound to the name it
 * was sealed for, so that nobody who can write to the file can put one value in the place of
 * another. Pure functions.  The time depends on lengths only, never on keys or values.
 */
#pragma once
#include "base/str.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SEAL_KEY_BYTES = 32, SEAL_NONCE_BYTES = 12, SEAL_TAG_BYTES = 16 };

/* A key for one purpose, derived from the secret of a home: HKDF-SHA-256 with `label` as its info.
 */
void seal_derive(const uint8_t secret[32], const char *label, uint8_t out[SEAL_KEY_BYTES]);

/* RFC 8439, section 2.8.  `out` has n bytes and may be `in`.  A nonce must never serve two
 * different texts under one key. */
void seal_lock(const uint8_t key[SEAL_KEY_BYTES], const uint8_t nonce[SEAL_NONCE_BYTES],
               struct str bound, struct str in, uint8_t *out, uint8_t tag[SEAL_TAG_BYTES]);
/* False, with `out` zeroed, when key, nonce, `bound`, text and tag do not belong together. */
bool seal_unlock(const uint8_t key[SEAL_KEY_BYTES], const uint8_t nonce[SEAL_NONCE_BYTES],
                 struct str bound, struct str in, const uint8_t tag[SEAL_TAG_BYTES], uint8_t *out);

/* `value` sealed for `name`, as printable text that starts with SEAL_MARK; the caller frees it. The
 * nonce is a keyed hash of name and value: the same value of the same name gives the same text, so
 * equal specs stay equal, and whoever reads the text learns that equality and the length only. */
#define SEAL_MARK "sealed:1:"
char *seal_text(const uint8_t key[SEAL_KEY_BYTES], struct str name, struct str value);
bool seal_is_text(struct str text); /* does it start with the mark? */
/* NUL-terminated; the caller wipes and frees it.  NULL: sealed with another key or for another
 * name, or damaged. */
char *seal_open_text(const uint8_t key[SEAL_KEY_BYTES], struct str name, struct str text);

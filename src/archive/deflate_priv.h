/* deflate_priv.h - deflate (RFC 1951), for speed */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DEFLATE_PIECE = 64 << 10,          /* bytes that become one block */
    DEFLATE_OUT = DEFLATE_PIECE + 4096 /* no block is longer */
};
struct deflate;
struct deflate *deflate_new(void);
void deflate_free(struct deflate *d);
/* Room for the next piece: the caller fills it from the front, n ≤ DEFLATE_PIECE. */
uint8_t *deflate_room(struct deflate *d);
/* The n bytes there as one block, behind what came before; bits that do not fill a byte stay here
 * until the next call.  Returns the number of bytes in out. */
size_t deflate_block(struct deflate *d, size_t n, uint8_t out[DEFLATE_OUT]);
/* An empty last block and the remaining bits. */
size_t deflate_finish(struct deflate *d, uint8_t out[DEFLATE_OUT]);

/* ---- deflate_code.c: prefix codes ---- */
enum { CODE_BITS_MAX = 15 };
/* Lengths, at most 15, of a code for n ≤ 288 symbols with these frequencies; 0 = not used.  Never
 * fewer than one symbol is used, so that the code can be written down. */
void code_lengths(const uint32_t *freq, unsigned n, uint8_t *lengths);
/* The codes themselves, in the order of bits that deflate writes. */
void code_assign(const uint8_t *lengths, unsigned n, uint16_t *codes);

/* crc32c.c - CRC-32C for records on disk
 *
 * By the SSE4.2 instruction where the processor has it and by a table elsewhere; both give the same
 * result.  Asking the processor happens when a program with this file starts and takes 0.1 ms on a
 * virtual machine, so the small client does without.
 */
#include "base/hash.h"
#include <pthread.h>
#include <string.h>

static uint32_t crc_table[256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void crc_make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
        crc_table[i] = c;
    }
}

/* Both implementations take and return the inverted register; crc32c inverts it. */
static uint32_t crc_by_table(uint32_t c, const uint8_t *p, size_t n)
{
    pthread_once(&crc_once, crc_make_table);
    while (n--)
        c = crc_table[(c ^ *p++) & 0xFF] ^ c >> 8;
    return c;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t crc_by_sse42(uint32_t c, const uint8_t *p,
                                                               size_t n)
{
    uint64_t wide = c;

    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    c = (uint32_t)wide;
    while (n--)
        c = __builtin_ia32_crc32qi(c, *p++);
    return c;
}
#endif

uint32_t crc32c(uint32_t seed, const void *p, size_t n)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc_by_sse42(~seed, p, n);
#endif
    return ~crc_by_table(~seed, p, n);
}

uint32_t crc32c_portable(uint32_t seed, const void *p, size_t n)
{
    return ~crc_by_table(~seed, p, n);
}

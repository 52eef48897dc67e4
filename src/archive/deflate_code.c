/* deflate_code.c - Huffman codes of limited length */
#include "archive/deflate_priv.h"
#include <stdlib.h>
#include <string.h>

enum { SYMBOLS_MAX = 288 };

struct leaf {
    uint32_t freq;
    uint16_t symbol;
};

static int by_freq(const void *a, const void *b)
{
    const struct leaf *x = a, *y = b;

    if (x->freq != y->freq)
        return x->freq < y->freq ? -1 : 1;
    return (int)x->symbol - (int)y->symbol;
}

/* Depths of the leaves, rarest first, in the tree of least weight.  Two queues: the sorted leaves,
 * and the inner nodes, which come out sorted by themselves. */
static void depths(const struct leaf *leaves, unsigned n, unsigned *depth)
{
    uint32_t weight[SYMBOLS_MAX];
    uint16_t parent[2 * SYMBOLS_MAX] = {0}, level[SYMBOLS_MAX];
    unsigned leaf = 0, inner = 0;

    for (unsigned made = 0; made < n - 1; made++) {
        weight[made] = 0;
        for (int k = 0; k < 2; k++) {
            bool take_leaf = leaf < n && (inner == made || leaves[leaf].freq <= weight[inner]);
            weight[made] += take_leaf ? leaves[leaf].freq : weight[inner];
            parent[take_leaf ? leaf++ : n + inner++] = (uint16_t)made;
        }
    }
    level[n - 2] = 0;
    for (unsigned i = n - 2; i-- > 0;)
        level[i] = (uint16_t)(level[parent[n + i]] + 1);
    for (unsigned i = 0; i < n; i++)
        depth[i] = level[parent[i]] + 1u;
}

/* Cuts what is too deep and makes room for it: each step takes two leaves of the deepest level to
 * one that had one less, until the code fits again. */
static void limit(unsigned *count, unsigned n_over)
{
    uint32_t used = 0;

    count[CODE_BITS_MAX] += n_over;
    for (unsigned i = 1; i <= CODE_BITS_MAX; i++)
        used += count[i] << (CODE_BITS_MAX - i);
    for (; used > 1u << CODE_BITS_MAX; used--) {
        unsigned i = CODE_BITS_MAX - 1;
        while (!count[i])
            i--;
        count[i]--;
        count[i + 1] += 2;
        count[CODE_BITS_MAX]--;
    }
}

void code_lengths(const uint32_t *freq, unsigned n, uint8_t *lengths)
{
    struct leaf leaves[SYMBOLS_MAX];
    unsigned depth[SYMBOLS_MAX], count[CODE_BITS_MAX + 1] = {0}, used = 0, over = 0;

    memset(lengths, 0, n);
    for (unsigned i = 0; i < n; i++)
        if (freq[i])
            leaves[used++] = (struct leaf){freq[i], (uint16_t)i};
    if (used < 2) {
        lengths[used ? leaves[0].symbol : 0] = 1;
        return;
    }
    qsort(leaves, used, sizeof(leaves[0]), by_freq);
    depths(leaves, used, depth);
    for (unsigned i = 0; i < used; i++) {
        if (depth[i] > CODE_BITS_MAX)
            over++;
        else
            count[depth[i]]++;
    }
    limit(count, over);
    unsigned at = 0; // the rarest get the longest
    for (unsigned bits = CODE_BITS_MAX; bits > 0; bits--)
        for (unsigned k = 0; k < count[bits]; k++)
            lengths[leaves[at++].symbol] = (uint8_t)bits;
}

void code_assign(const uint8_t *lengths, unsigned n, uint16_t *codes)
{
    uint16_t next[CODE_BITS_MAX + 2] = {0}, count[CODE_BITS_MAX + 1] = {0};

    for (unsigned i = 0; i < n; i++)
        count[lengths[i]]++;
    count[0] = 0;
    for (unsigned bits = 1; bits <= CODE_BITS_MAX; bits++)
        next[bits + 1] = (uint16_t)((next[bits] + count[bits]) << 1);
    for (unsigned i = 0; i < n; i++) {
        uint16_t code = lengths[i] ? next[lengths[i]]++ : 0, turned = 0;
        for (unsigned b = 0; b < lengths[i]; b++)
            turned = (uint16_t)(turned << 1 | (code >> b & 1));
        codes[i] = turned;
    }
}

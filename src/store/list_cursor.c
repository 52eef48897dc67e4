/* list_cursor.c - where the next page of a list continues: code, direction, now, number, key
 *
 * Hexadecimal, safe in a URL.  Of a list by a column: a print of its name, the type of the value,
 * the value.  A cursor comes from outside: it may be damaged, or belong to a list in another order.
 */
#include "base/hash.h"
#include "store/list_priv.h"
#include <math.h>

static uint32_t column_print(const struct job_column *c)
{
    return crc32c(0, c->text, strlen(c->text));
}

static uint64_t bits_of(double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

char *cursor_format(const struct listing *l, const struct cursor *c)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, 1 << 16);
    buf_addf(&b, "%c%c-%llx-%llx-", l->sort->code, l->q->desc ? 'd' : 'a',
             (unsigned long long)c->now_ms, (unsigned long long)c->seq);
    if (l->q->by)
        buf_addf(&b, "%x-%c", column_print(l->q->by), c->type);
    if (l->q->by && c->type == 'r')
        buf_addf(&b, "%llx", (unsigned long long)bits_of(c->real));
    else if (l->q->by ? c->type == 'i' : !l->sort->text)
        buf_addf(&b, "%llx", (unsigned long long)c->key);
    for (const char *p = c->text; p && *p; p++)
        buf_addf(&b, "%02x", (unsigned char)*p);
    return buf_take(&b, NULL);
}

/* Reads a number and moves *p behind it.  strtoull alone would also accept signs and spaces. */
static bool parse_hex(const char **p, uint64_t *out)
{
    char *end;

    if (!**p || !strchr("0123456789abcdef", **p))
        return false;
    *out = strtoull(*p, &end, 16);
    *p = end;
    return true;
}

static bool parse_hex_text(const char *p, char **out)
{
    size_t n = strlen(p);

    if (n % 2 || strspn(p, "0123456789abcdef") != n)
        return false;
    *out = xcalloc(n / 2 + 1, 1);
    for (size_t i = 0; i < n / 2; i++) {
        const char pair[] = {p[2 * i], p[2 * i + 1], '\0'};
        (*out)[i] = (char)strtoul(pair, NULL, 16);
    }
    return true;
}

/* The rest of a cursor of a column. */
static bool parse_column_key(struct listing *l, const char *p)
{
    uint64_t print, bits;

    if (!parse_hex(&p, &print) || print != column_print(l->q->by) || *p++ != '-')
        return false;
    if (!*p)
        return false;
    l->at.type = *p++;
    if (l->at.type == 'n')
        return !*p;
    if (l->at.type == 't')
        return parse_hex_text(p, &l->at.text);
    if (!strchr("ir", l->at.type) || !parse_hex(&p, &bits) || *p)
        return false;
    l->at.key = (int64_t)bits;
    memcpy(&l->at.real, &bits, sizeof(bits));
    return l->at.type == 'i' || !isnan(l->at.real);
}

static bool parse_key(struct listing *l, const char *p)
{
    uint64_t key;

    if (l->q->by)
        return parse_column_key(l, p);
    if (l->sort->text)
        return parse_hex_text(p, &l->at.text);
    if (!parse_hex(&p, &key) || *p)
        return false;
    l->at.key = (int64_t)key;
    return true;
}

int cursor_parse(struct listing *l, struct err *e)
{
    const char *p = l->q->cursor;
    uint64_t now;

    if (!p)
        return 0;
    if (p[0] != l->sort->code || p[1] != (l->q->desc ? 'd' : 'a') || p[2] != '-')
        return err_set(e, ERR_INVALID,
                       "the cursor belongs to a list in another order; start again without it");
    p += 3;
    if (!parse_hex(&p, &now) || *p++ != '-' || !parse_hex(&p, &l->at.seq) || *p++ != '-' ||
        !parse_key(l, p))
        return err_set(e, ERR_INVALID, "the cursor is damaged; start again without it");
    l->at.now_ms = (int64_t)now;
    l->at.set = true;
    return 0;
}

/* json_in.h - JSON read token by token, without building a tree
 *
 *   struct json_in in = {.text = body, .name = "body", .e = e};
 *   if (json_in_next(&in) == JSON_IN_OBJECT)
 *       while (json_in_next(&in) == JSON_IN_KEY) {
 *           in.s is the key; json_in_next, json_in_raw or json_in_tree reads its value
 *       }
 *   json_in_done(&in);
 *
 * Strict RFC 8259: the reader knows which brackets are open and checks commas, colons, UTF-8 and
 * depth, and that nothing follows the value.  Repeated keys are for the caller to refuse.  A zeroed
 * struct with a text is a reader; nothing is allocated until a string has an escape.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"

struct json;

enum json_token {
    JSON_IN_BAD = -1, /* the text is not JSON: the reader's err says where and why */
    JSON_IN_END,      /* the value has been read and nothing follows it */
    JSON_IN_OBJECT,   /* { */
    JSON_IN_ARRAY,    /* [ */
    JSON_IN_CLOSE,    /* the bracket that ends the innermost object or list */
    JSON_IN_KEY,      /* `s` is the key, without escapes and NULs */
    JSON_IN_STR,      /* `s` is the string */
    JSON_IN_NUMBER,   /* `s` is its text; `number` its parts */
    JSON_IN_WORD,     /* `s` is NaN, Infinity or -Infinity; only with `python` */
    JSON_IN_TRUE,
    JSON_IN_FALSE,
    JSON_IN_NULL,
};

/* A number taken apart while its text is checked. */
struct json_number {
    uint64_t digits;   /* the first 19 without the point */
    int n;             /* how many digits there are, not counting zeros in front */
    int exp;           /* the value is digits * 10^exp */
    bool minus, whole; /* whole: without fraction and exponent */
};

struct json_in {
    struct str text;
    size_t at;        /* the first byte not read yet */
    const char *name; /* stands in messages: "name:3:14: …"; NULL = "line 3, column 14: …" */
    bool no_place;    /* leave the place out of messages: the text before `at` has changed */
    bool python;      /* also take the words Python writes where JSON has none */
    struct err *e;    /* may be NULL */
    size_t start;     /* where the last token began */
    struct str s;     /* of the last token; lies in the text, or in `scratch` when `decoded` */
    bool decoded;
    struct json_number number;
    /* private */
    uint8_t expect;   /* what may come next */
    uint8_t depth;    /* open brackets */
    uint64_t objects; /* a bit for each of them: is it an object? */
    struct buf scratch;
};

int json_in_next(struct json_in *in); /* enum json_token; END and BAD come again when asked again */
/* The next value as text, instead of json_in_next: 1 = *out is the text, 0 = the list or object is
 * closed, -1 = not readable.  Only strings and brackets inside the value are looked at, to find its
 * end; its syntax is checked by whoever parses it. */
int json_in_raw(struct json_in *in, struct str *out);
/* The value that `token`, just read, begins, as a tree: 0, or -1 with the reader's err set. */
int json_in_tree(struct json_in *in, int token, struct json **out);
void json_in_done(struct json_in *in);

/* An error at a place of the text: always -1. */
int json_in_fail(struct json_in *in, size_t at, enum err_code code, const char *what);

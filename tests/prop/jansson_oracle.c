/* jansson_oracle.c - answers what jansson makes of a text
 *
 * Reads a length (four bytes of this machine) and as many bytes of text, writes the same form
 * back: '+' and the value rendered again, '!' when a number is beyond jansson's range, '-' and
 * the reason otherwise.  Ends with its input.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void answer(char kind, const char *text)
{
    uint32_t n = (uint32_t)strlen(text) + 1;

    fwrite(&n, sizeof(n), 1, stdout);
    fputc(kind, stdout);
    fputs(text, stdout);
    fflush(stdout);
}

static void judge(const char *text, size_t n)
{
    size_t flags = JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_error_t e;
    json_t *value = json_loadb(text, n, flags, &e);

    if (!value) {
        answer(json_error_code(&e) == json_error_numeric_overflow ? '!' : '-', e.text);
        return;
    }
    char *out = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17));
    answer('+', out ? out : "");
    free(out);
    json_decref(value);
}

int main(void)
{
    uint32_t n;

    while (fread(&n, sizeof(n), 1, stdin) == 1) {
        char *text = malloc((size_t)n + 1);
        if (!text || fread(text, 1, n, stdin) != n)
            return 1;
        judge(text, n);
        free(text);
    }
    return 0;
}

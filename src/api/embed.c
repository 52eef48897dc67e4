/* embed.c - build tool: a file as a C array
 *
 *   embed INPUT OUTPUT NAME     makes  const unsigned char NAME[]  and  const size_t NAME_n
 */
#include <stdio.h>

static int embed_file(FILE *in, FILE *out, const char *name)
{
    unsigned long n = 0;
    int c;

    fprintf(out,
            "#include <stddef.h>\nextern const unsigned char %s[];\nextern const size_t %s_n;\n",
            name, name);
    fprintf(out, "const unsigned char %s[] = {", name);
    while ((c = getc(in)) != EOF)
        fprintf(out, n++ % 20 ? "%d," : "\n%d,", c);
    fprintf(out, "\n0};\nconst size_t %s_n = %lu;\n", name, n);
    return ferror(in) || ferror(out);
}

int main(int argc, char **argv)
{
    FILE *in, *out;
    int bad;

    if (argc != 4) {
        fprintf(stderr, "usage: embed INPUT OUTPUT NAME\n");
        return 2;
    }
    in = fopen(argv[1], "rb");
    out = fopen(argv[2], "wb");
    if (!in || !out) {
        perror(in ? argv[2] : argv[1]);
        return 1;
    }
    bad = embed_file(in, out, argv[3]);
    fclose(in);
    return fclose(out) != 0 || bad;
}

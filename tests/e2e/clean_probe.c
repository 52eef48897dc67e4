/* clean_probe.c - e2e-clean-probe ENGINE IMAGE DIR: removes what containers left in a directory */
#include "backend/container.h"
#include <stdio.h>

int main(int argc, char **argv)
{
    struct err e = {0};

    if (argc != 4)
        return 2;
    if (container_clean_dir(argv[1], argv[2], argv[3], &e) == 0)
        return 0;
    fprintf(stderr, "%s\n", e.text);
    return 1;
}

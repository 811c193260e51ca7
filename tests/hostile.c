/* hostile loop|crash FILE -- makes a checkpoint hostile (hostile.h), with a hash that is right. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/hostile.h"
#include "train/save_file.h"

int main(int argc, char **argv) {
    unsigned char *b;
    size_t         n;
    if (argc != 3) return fputs("usage: hostile loop|crash FILE\n", stderr), 2;
    int done = la_file_load(&b, &n, argv[2]) == LA_OK &&
               make_hostile(b, n, !strcmp(argv[1], "loop")) && la_file_save(argv[2], b, n) == LA_OK;
    if (!done) fprintf(stderr, "hostile: %s: %s\n", argv[2], la_error());
    free(b);
    return !done;
}

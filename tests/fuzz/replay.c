/* replay.c -- runs a target on files, and on the files of folders: the seeds, or a finding. */
#include <dirent.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

static int run_file(const char *path) {
    FILE       *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st) != 0) return perror(path), -1;
    const size_t n = (size_t)st.st_size;
    uint8_t     *bytes = malloc(n ? n : 1); /* no byte more: reading past it is an error */
    const int    whole = bytes && fread(bytes, 1, n, f) == n;
    fclose(f);
    if (whole) LLVMFuzzerTestOneInput(bytes, n);
    free(bytes);
    return whole ? 1 : (perror(path), -1);
}

/* How many files were run; -1: one cannot be read. */
static int run_path(const char *path) {
    DIR *d = opendir(path);
    int  n = 0;
    if (!d) return run_file(path);
    for (struct dirent *e; n >= 0 && (e = readdir(d));) {
        char file[4096];
        if (e->d_name[0] == '.') continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        n = run_file(file) < 0 ? -1 : n + 1;
    }
    closedir(d);
    return n;
}

int main(int argc, char **argv) {
    int all = 0;
    for (int i = 1; i < argc; i++) {
        int n = run_path(argv[i]);
        if (n < 0) return 1;
        all += n;
    }
    printf("%d inputs\n", all);
    return all == 0; /* a folder without seeds tests nothing */
}

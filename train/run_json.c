/* run_json.c -- run.json: what was asked for, and where. */
#include <stdlib.h>
#include <string.h>

#include "tensor/blas.h"
#include "tensor/parallel.h"
#include "tensor/vec.h"
#include "train/folder.h"
#include "train/save_file.h"
#include "train/system.h"
#include "train/text_stream.h"

static void print_run(FILE *f, const la_config *c, int argc, char **argv, int64_t corpus_bytes,
                      uint64_t corpus_hash) {
    char number[LA_NUMBER_TEXT], cpu[LA_PROCESSOR];
    fprintf(f, "{\n  \"program\": \"lina " LA_VERSION "\",\n  \"argv\": [");
    for (int i = 0; i < argc; i++) {
        if (i) fputs(", ", f);
        la_json_string(argv[i], f);
    }
    fprintf(f, "],\n  \"blas\": ");
    la_json_string(la_blas_name(), f);
    fprintf(f, ",\n  \"vectors\": \"%s\",\n  \"precision\": %d,\n  \"processor\": ",
            la_vec_table()->name, LA_REAL_BITS);
    la_json_string(la_processor_name(cpu), f);
    fprintf(f,
            ",\n  \"threads\": %d,\n  \"corpus_bytes\": %lld,\n  \"corpus_hash\": \"%016llx\",\n  "
            "\"config\": {",
            la_threads(), (long long)corpus_bytes, (unsigned long long)corpus_hash);
    for (int i = 0, any = 0; i < LA_N_OPTIONS; i++) {
        const la_option *o = la_options + i;
        if (!(o->tools & LA_TOOL_TRAIN)) continue;
        const char *value = la_config_value(c, i, number);
        fprintf(f, "%s\n    \"%s\": ", any++ ? "," : "", o->name);
        if (o->type == LA_INT || o->type == LA_REAL)
            fputs(value, f);
        else if (o->type == LA_FLAG)
            fputs(!strcmp(value, "on") ? "true" : "false", f);
        else
            la_json_string(value, f);
    }
    fputs("\n  }\n}\n", f);
}

la_status la_folder_run_json(la_folder *s, const la_config *c, int argc, char **argv,
                             int64_t corpus_bytes, uint64_t corpus_hash) {
    char  *path = la_folder_path(s->dir, "run.json"), *text = NULL;
    size_t n = 0;
    FILE  *f = path ? la_text_stream(&text, &n) : NULL;
    if (f) print_run(f, c, argc, argv, corpus_bytes, corpus_hash);
    int       ok = f && !ferror(f);
    la_status done = f && fclose(f) == 0 && ok
                         ? la_file_put(path, (const unsigned char *)text, n)
                         : la_fail(LA_NOMEM, "no memory for %s/run.json", s->dir);
    free(text);
    free(path);
    return done;
}

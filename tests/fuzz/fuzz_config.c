/* fuzz_config.c -- the text of options: as a checkpoint has it, and as a file for --config. */
#include "tests/fuzz/config_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    la_config c;
    char     *text = fuzz_text(data, n), path[FUZZ_PATH], option[] = "--config", program[] = "fuzz";
    la_config_init(&c);
    if (fuzz_worked(la_config_from_text(&c, text, "the text"))) {
        fuzz_worked(la_config_check(&c));
        fuzz_config_round_trip(&c);
    }
    la_config_free(&c);
    free(text);

    int   fd = fuzz_file(data, n, path);
    char *argv[] = {program, option, path, NULL};
    if (fuzz_worked(la_config_parse(&c, LA_TOOL_TRAIN, 3, argv))) fuzz_config_round_trip(&c);
    la_config_free(&c);
    close(fd);
    return 0;
}

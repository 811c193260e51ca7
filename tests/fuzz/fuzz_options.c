/* fuzz_options.c -- a command line, a word a line, for each of the programs. */
#include "tests/fuzz/config_text.h"

enum { WORDS = 64 };

static void parse(la_tool tool, int argc, char **argv) {
    la_config c;
    la_config_init(&c);
    if (fuzz_worked(la_config_parse(&c, tool, argc, argv)) && tool == LA_TOOL_TRAIN && !c.help)
        fuzz_config_round_trip(&c);
    la_config_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char program[] = "fuzz", *text = fuzz_text(data, n), *argv[WORDS + 1] = {program}, *rest = text;
    int  argc = 1;
    for (char *word; argc < WORDS && (word = strsep(&rest, "\n"));) argv[argc++] = word;
    for (int tool = LA_TOOL_TRAIN; tool <= LA_TOOL_COMPARE; tool *= 2)
        parse((la_tool)tool, argc, argv);
    free(text);
    return 0;
}

/* config_text.h -- options that were read are written as text and read again. */
#ifndef LA_FUZZ_CONFIG_TEXT_H
#define LA_FUZZ_CONFIG_TEXT_H
#include "tests/fuzz/fuzz.h"
#include "train/config.h"

/* config.h: "reading it back gives each value exactly". */
static inline void fuzz_config_round_trip(const la_config *c) {
    la_config again;
    char     *text, *twice;
    la_config_init(&again);
    HOLDS(la_config_text(c, LA_TOOL_TRAIN, &text) == LA_OK);
    HOLDS(la_config_from_text(&again, text, "its text") == LA_OK);
    HOLDS(la_config_text(&again, LA_TOOL_TRAIN, &twice) == LA_OK);
    HOLDS(strcmp(text, twice) == 0);
    free(text);
    free(twice);
    la_config_free(&again);
}
#endif

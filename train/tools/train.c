/* train -- learns a language model from a text:  train --attn=elu1 --data corpus.txt */
#include "train/run.h"
#include "train/tool.h"

int main(int argc, char **argv) {
    la_config c;
    int       code, signal;
    if (!la_tool_start(&c, LA_TOOL_TRAIN, argc, argv, &code)) return code;
    code = la_tool_end(&c, la_run_train(&c, argc, argv, &signal));
    la_config_free(&c);
    return signal ? 128 + signal : code;
}

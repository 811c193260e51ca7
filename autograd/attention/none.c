/* none: attention adds nothing; a block is its MLP alone.  The control of a comparison: what
 * the rest of the model reaches without looking at other tokens. */
#include "autograd/attention/attention.h"

const la_attn la_attn_none = {
    .name = "none",
    .formula = "no attention branch",
    .paper = "a control",
    .cost = "nothing",
    .file = "autograd/attention/none.c",
    .options = "",
};

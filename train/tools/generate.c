/* generate -- text from a checkpoint:  generate --checkpoint runs/elu1/best.h5 --prompt "ROMEO:" */
#include <stdlib.h>

#include "train/picture.h"
#include "train/report.h"
#include "train/setup.h"
#include "train/show.h"
#include "train/system.h"
#include "train/tool.h"
#include "train/write.h"

static la_status write_text(const la_config *c, const la_lm *lm, const la_tokenizer *k) {
    la_writing w = {
        .prompt = c->prompt,
        .tokens = c->tokens,
        .sampler = {c->temperature, c->top_k, c->top_p, (uint64_t)c->seed, 0},
        .stop = la_signal_stop,
    };
    la_signals_install();
    int64_t   rebuilt = 0;
    la_status s = la_sampler_check(&lm->cfg);
    if (s != LA_OK)
        s = la_fail(LA_FORMAT, "%s: %s", c->checkpoint, la_error());
    else
        s = la_write_text(lm, k, &w, stdout, &rebuilt);
    if (s == LA_OK) putchar('\n');
    fflush(stdout);
    if (rebuilt && !c->quiet)
        fprintf(
            stderr,
            "note: the model reads %lld tokens at a time; past them its state was rebuilt from the "
            "last half of them (with --pos rope or none most variants go on without)\n",
            (long long)la_lm_longest(lm));
    return s;
}

static la_status show_attention(const la_config *c, const la_config *stored, const la_lm *lm,
                                const la_tokenizer *k) {
    la_showing what = {.prompt = c->prompt,
                       .path = c->show_attention,
                       .checkpoint = c->checkpoint,
                       .attn = stored->attn,
                       .objective = stored->objective};
    char      *picture;
    LA_TRY(la_show_attention(lm, k, &what, &picture));
    const char *made[] = {c->show_attention, picture};
    for (int i = 0; i < 2 && !c->quiet && made[i]; i++) {
        la_print_text(made[i]);
        putchar('\n');
    }
    if (!c->quiet && !picture)
        fprintf(stderr,
                "note: a picture has at most %d tokens, and the prompt has more: there is "
                "none\n",
                LA_PICTURE_TOKENS);
    free(picture);
    return LA_OK;
}

static la_status generate(const la_config *c) {
    la_config     stored;
    la_lm        *lm;
    la_tokenizer *k;
    if (!*c->checkpoint) return la_fail(LA_ARG, "which model? --checkpoint FILE names it");
    la_status s;
    LA_TRY(la_model_load(c->checkpoint, &stored, &lm, &k));
    if (*stored.task) {
        s = la_fail(LA_FORMAT,
                    "%s learnt the task %s, whose ids are no text: it writes none, and "
                    "reads no prompt",
                    c->checkpoint, stored.task);
    } else
        s = *c->show_attention ? show_attention(c, &stored, lm, k) : write_text(c, lm, k);
    la_lm_destroy(lm);
    la_tokenizer_destroy(k);
    la_config_free(&stored);
    return s;
}

int main(int argc, char **argv) {
    la_config c;
    int       code;
    if (!la_tool_start(&c, LA_TOOL_GENERATE, argc, argv, &code)) return code;
    code = la_tool_end(&c, generate(&c));
    if (la_signal_stop()) code = 128 + la_signal_stop();
    la_config_free(&c);
    return code;
}

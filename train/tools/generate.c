/* generate -- text from a checkpoint:  generate --checkpoint runs/elu1/best.h5 --prompt "ROMEO:" */
#include <stdlib.h>
#include <string.h>

#include "train/sampler.h"
#include "train/setup.h"
#include "train/system.h"
#include "train/tool.h"

typedef struct session {
    la_config     stored;
    la_lm        *lm;
    la_tokenizer *tokenizer;
    la_sampler   *sampler;
    int32_t      *ids;
} session;

static la_status write_text(session *s, const la_config *c, const char *prompt, int64_t n) {
    int told = 0;
    LA_TRY(la_sampler_prompt(s->sampler, s->ids, n));
    fputs(prompt, stdout);
    fflush(stdout);
    for (int64_t i = 0; i < c->tokens && !la_signal_stop() && !ferror(stdout); i++) {
        int32_t id;
        char    bytes[4];
        LA_TRY(la_sampler_next(s->sampler, &id));
        fwrite(bytes, 1, (size_t)la_decode(s->tokenizer, id, bytes), stdout);
        fflush(stdout);
        if (la_sampler_rebuilt(s->sampler) && !told++ && !c->quiet)
            fprintf(stderr, "note: the model has learned %lld positions; past them its state is rebuilt from the last half block\n",
                    (long long)s->stored.block_size);
    }
    putchar('\n');
    return LA_OK;
}

static la_status generate(session *s, const la_config *c) {
    if (!*c->checkpoint) return la_fail(LA_ARG, "which model? --checkpoint FILE names it");
    LA_TRY(la_model_load(c->checkpoint, &s->stored, &s->lm, &s->tokenizer));
    const char *prompt = *c->prompt ? c->prompt : "\n";
    int64_t     n = 0;
    s->ids = malloc((strlen(prompt) + 1) * sizeof *s->ids);
    if (!s->ids) return la_fail(LA_NOMEM, "no memory for the prompt");
    la_status status = la_encode(s->tokenizer, la_text_of("the prompt", prompt, (int64_t)strlen(prompt)), s->ids, &n);
    if (status != LA_OK && *c->prompt) return status;
    if (status != LA_OK) s->ids[0] = 0, n = 1; /* a model without new lines */
    la_sampler_cfg cfg = {c->temperature, c->top_k, c->top_p, (uint64_t)c->seed, n + c->tokens};
    LA_TRY(la_sampler_create(&s->sampler, s->lm, &cfg));
    la_signals_install();
    return write_text(s, c, *c->prompt ? prompt : "", n);
}

int main(int argc, char **argv) {
    la_config c;
    session   s = {0};
    int       code;
    if (!la_tool_start(&c, LA_TOOL_GENERATE, argc, argv, &code)) return code;
    code = la_tool_end(&c, generate(&s, &c));
    if (la_signal_stop()) code = 128 + la_signal_stop();
    la_sampler_destroy(s.sampler);
    if (s.lm) la_config_free(&s.stored);
    la_lm_destroy(s.lm);
    la_tokenizer_destroy(s.tokenizer);
    free(s.ids);
    la_config_free(&c);
    return code;
}

/* write.c -- tokenizer and sampler together. */
#include "train/write.h"

#include <stdlib.h>
#include <string.h>

/* The tokens of a prompt; *ids is the caller's to free, also after a failure. */
static la_status encode(const la_tokenizer *k, const char *prompt, int32_t **ids, int64_t *n) {
    const char *text = *prompt ? prompt : "\n";
    int64_t     bytes = (int64_t)strlen(text);
    *ids = malloc((size_t)bytes * sizeof **ids);
    if (!*ids) return la_fail(LA_NOMEM, "no memory for a prompt of %lld bytes", (long long)bytes);
    la_status s = la_encode(k, la_text_of("the prompt", text, bytes), *ids, n);
    if (s == LA_OK || *prompt) return s;
    (*ids)[0] = 0;
    *n = 1;
    return LA_OK;
}

la_status la_prompt_check(const la_tokenizer *k, const char *prompt) {
    int32_t  *ids;
    int64_t   n;
    la_status s = encode(k, prompt, &ids, &n);
    free(ids);
    return s;
}

la_status la_write_plan(const la_lm *lm, const la_tokenizer *k, const la_writing *w,
                        size_t *bytes) {
    int32_t       *ids;
    int64_t        n;
    la_sampler_cfg cfg = w->sampler;
    la_status      s = encode(k, w->prompt, &ids, &n);
    free(ids);
    LA_TRY(s);
    cfg.capacity = n + w->tokens;
    return la_sampler_plan(lm, &cfg, n, bytes);
}

static la_status write_tokens(la_sampler *s, const la_tokenizer *k, const la_writing *w,
                              FILE *out) {
    for (int64_t i = 0; i < w->tokens && !ferror(out) && !(w->stop && w->stop()); i++) {
        int32_t id;
        char    bytes[4];
        LA_TRY(la_sampler_next(s, &id));
        fwrite(bytes, 1, (size_t)la_decode(k, id, bytes), out);
        fflush(out);
    }
    return LA_OK;
}

la_status la_write_text(const la_lm *lm, const la_tokenizer *k, const la_writing *w, FILE *out,
                        int64_t *rebuilt) {
    int32_t       *ids = NULL;
    int64_t        n = 0;
    la_sampler    *s = NULL;
    la_sampler_cfg cfg = w->sampler;
    la_status      status = encode(k, w->prompt, &ids, &n);
    if (status == LA_OK) {
        cfg.capacity = n + w->tokens;
        status = la_sampler_create(&s, lm, &cfg);
    }
    if (status == LA_OK) status = la_sampler_prompt(s, ids, n);
    if (status == LA_OK) {
        fputs(w->prompt, out);
        fflush(out);
        status = write_tokens(s, k, w, out);
        if (rebuilt) *rebuilt = la_sampler_rebuilt(s);
    }
    la_sampler_destroy(s);
    free(ids);
    return status;
}

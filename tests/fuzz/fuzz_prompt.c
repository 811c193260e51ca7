/* fuzz_prompt.c -- a prompt, for a small tokenizer of characters, for bytes and for ids. */
#include "tests/fuzz/fuzz.h"
#include "train/write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static la_tokenizer *chars, *bytes, *ids; /* made once */
    static const char    known[] = "\nabc \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    if (!ids) {
        HOLDS(la_tokenizer_create(&chars, "char",
                                  la_text_of("the text", known, sizeof known - 1)) == LA_OK);
        HOLDS(la_tokenizer_create(&bytes, "byte", la_text_of("the text", "", 0)) == LA_OK);
        HOLDS(la_tokenizer_load(&ids, "ids", NULL, 0) == LA_OK);
    }
    char    *prompt = fuzz_text(data, n);
    int64_t  length = (int64_t)strlen(prompt), count = 0;
    int32_t *out = malloc(((size_t)length + 1) * sizeof *out);
    HOLDS(out);
    int good = fuzz_worked(la_prompt_check(chars, prompt));
    int same = fuzz_worked(la_encode(chars, la_text_of("the prompt", prompt, length), out, &count));
    HOLDS(good == same || !length);
    HOLDS(!same || count == la_utf8_count(prompt, length));
    HOLDS(la_prompt_check(bytes, prompt) == LA_OK);
    HOLDS(!length || !fuzz_worked(la_prompt_check(ids, prompt)));
    free(out);
    free(prompt);
    return 0;
}

/* gradcheck -- every gradient against finite differences, in double:  gradcheck, gradcheck elu1
 *
 * For each op and variant the worst case of max |analytic - numeric| / max |numeric|; exit code 1
 * if one is not below LIMIT.  --json: one object for each, and nothing else.  --explain NAME prints
 * the derivation, the cases and the graph. */
#include <math.h>
#include <string.h>

#include "autograd/trial.h"
#include "train/report.h"
#include "train/tool.h"

static const double LIMIT = 1e-7;

/* Causal variants also run with the text in two parts and the state handed over, and with tokens
 * that are masked. */
static la_status check_case(const la_subject *s, const la_case *c, int show, double *worst) {
    static const char *const how[] = {"", "in two parts", "masked", "in two parts, masked"};
    for (int i = 0; i < 4; i++) {
        la_trial_cfg cfg = {.split = i & 1, .masked = i >> 1};
        double       error;
        if (i && (!s->variant || c->in[0].d[1] == 1 || (cfg.split && s->bidirectional))) continue;
        LA_TRY(la_gradcheck(s, c, &cfg, &error));
        if (show) printf("  %-34s %-22s %.1e\n", c->name, how[i], error);
        *worst = fmax(*worst, error);
    }
    return LA_OK;
}

static la_status check_subject(const la_subject *s, int show, double *worst) {
    *worst = 0;
    for (const la_case *c = s->cases; c->name; c++) LA_TRY(check_case(s, c, show, worst));
    return LA_OK;
}

/* The comment at the top of the file: formula, derivation, cost, paper. */
static void print_derivation(const char *file) {
    char                     path[4096], line[512];
    FILE                    *f = NULL;
    static const char *const roots[] = {LA_SOURCE_DIR, LA_SHARE_DIR};
    for (int i = 0; i < 2 && !f; i++) {
        snprintf(path, sizeof path, "%s/%s", roots[i], file);
        f = fopen(path, "r");
    }
    if (!f) {
        printf("(the derivation stands at the top of %s, which is not here)\n", file);
        return;
    }
    while (fgets(line, sizeof line, f)) {
        fputs(line, stdout);
        if (strstr(line, "*/")) break;
    }
    fclose(f);
}

static la_status explain(const la_config *c) {
    const char *name = c->explain;
    la_subject  s;
    la_trial    r;
    double      worst;
    if (c->json) return la_fail(LA_ARG, "--explain prints a text, and --json has none");
    if (!strcmp(name, "none")) {
        printf("none: the control, a model without attention; there is nothing to check\n");
        return LA_OK;
    }
    LA_TRY(la_subject_find(name, &s));
    printf("%s\n  %s\n", s.name, s.formula);
    if (s.paper) printf("  %s\n", s.paper);
    putchar('\n');
    print_derivation(s.file);
    if (strcmp(s.file, s.op->file)) print_derivation(s.op->file);
    printf("\ncases, and the error of their gradients\n");
    LA_TRY(check_subject(&s, 1, &worst));
    printf("\ngraph of the first case\n");
    LA_TRY(la_trial_create(&r, &s, s.cases, &(la_trial_cfg){.seed = 7}));
    la_tape_print(r.tape, stdout);
    la_trial_destroy(&r);
    return LA_OK;
}

static void put_row(const la_config *c, const la_subject *s, int cases, double worst) {
    int ok = worst < LIMIT;
    if (c->json) {
        fputs("{\"name\": ", stdout);
        la_json_string(s->name, stdout);
        printf(", \"cases\": %d, \"worst\": ", cases);
        if (isfinite(worst))
            printf("%.4e", worst);
        else
            fputs("null", stdout);
        printf(", \"pass\": %s}\n", ok ? "true" : "false");
    } else
        printf("%-44s %-6d %-12.1e %s\n", s->name, cases, worst, ok ? "pass" : "FAIL");
    fflush(stdout);
}

static la_status check(const la_config *c, int *failed) {
    int n = c->n_names ? c->n_names : la_subject_count();
    for (int i = 0; i < c->n_names; i++) { /* before anything is printed */
        la_subject s;
        LA_TRY(la_subject_find(c->names[i], &s));
    }
    if (!c->json) printf("%-44s %-6s %s\n", "name", "cases", "worst error");
    for (int i = 0; i < n; i++) {
        la_subject s;
        double     worst;
        int        cases = 0;
        if (c->n_names)
            LA_TRY(la_subject_find(c->names[i], &s));
        else
            s = la_subject_at(i);
        while (s.cases[cases].name) cases++;
        LA_TRY(check_subject(&s, 0, &worst));
        put_row(c, &s, cases, worst);
        *failed += !(worst < LIMIT);
    }
    if (c->json) return LA_OK;
    if (*failed)
        printf("%d not below %.0e\n", *failed, LIMIT);
    else
        printf("all below %.0e\n", LIMIT);
    return LA_OK;
}

int main(int argc, char **argv) {
    la_config c;
    int       code, failed = 0;
    if (!la_tool_start(&c, LA_TOOL_GRADCHECK, argc, argv, &code)) return code;
    code = la_tool_end(&c, *c.explain ? explain(&c) : check(&c, &failed));
    la_config_free(&c);
    return code ? code : failed > 0;
}

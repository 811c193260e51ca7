/* config_impl.h -- what the files of config share; for nobody else. */
#ifndef LA_CONFIG_IMPL_H
#define LA_CONFIG_IMPL_H
#include "train/config.h"

typedef struct la_action { /* an option that prints something and ends */
    const char  *name, *group, *help;
    la_help_kind kind;
    unsigned     tools;
} la_action;

typedef struct la_preset {
    const char *name, *text;
} la_preset;

extern const la_action   la_actions[]; /* these three end with a name of NULL */
extern const la_preset   la_presets[];
extern const char *const la_groups[];

int         la_config_find(const char *name, unsigned tools); /* -1: none */
const char *la_config_key(int i);                             /* names that config files may use */
/* Stores a value unless one of higher precedence is there; an error in it is one in any case.
 * text NULL: no value was written. */
la_status   la_config_set(la_config *c, int option, la_origin from, const char *text);
la_status   la_config_copy(la_config *c, const la_config *from, int option); /* as a checkpoint's */
la_status   la_config_lines(la_config *c, la_origin from, const char *text, const char *where);
la_status   la_config_file(la_config *c, const char *path);
la_status
la_config_check_request(const la_config *c);     /* what can be said before a checkpoint is read */
void *la_config_own(la_config *c, size_t bytes); /* memory that la_config_free frees; or NULL */

static inline const void *la_config_field(const la_config *c, int option) {
    return (const char *)c + la_options[option].offset;
}
static inline bool la_type_is_text(la_type t) {
    return t != LA_INT && t != LA_REAL && t != LA_FLAG;
}
static inline const char *la_config_string(const la_config *c, int option) {
    return *(const char *const *)la_config_field(c, option);
}
#endif

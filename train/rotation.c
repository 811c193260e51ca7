/* rotation.c -- the checkpoints in the folder of a run: saved, kept, found again. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/folder.h"
#include "train/save_file.h"

#define ASIDE "aside."

static char *numbered(const char *dir, int64_t i) { /* last.h5, last.1.h5, ... */
    char name[48];
    if (i)
        snprintf(name, sizeof name, "last.%lld.h5", (long long)i);
    else
        snprintf(name, sizeof name, "last.h5");
    return la_folder_path(dir, name);
}

int la_folder_checkpoint_name(const char *name) {
    if (!strcmp(name, "best.h5") || !strcmp(name, "last.h5")) return 1;
    size_t digits = strncmp(name, "last.", 5) ? 0 : strspn(name + 5, "0123456789");
    return digits && !strcmp(name + 5 + digits, ".h5");
}

/* A checkpoint that --keep asks for is lost: no failure of saving, and not silent. */
static void not_kept(const char *path, int error) {
    char name[LA_FILE_NAME];
    fprintf(stderr, "warning: cannot keep %s as one of --keep: %s; training goes on\n",
            la_file_name(path, name), strerror(error));
}

/* The first number that is free, or the last that may be taken. */
static int64_t first_gap(const la_folder *s) {
    for (int64_t i = 1; i < s->keep - 1; i++) {
        char *path = numbered(s->dir, i);
        int   gap = path && access(path, F_OK) != 0;
        free(path);
        if (gap) return i;
    }
    return s->keep - 1;
}

/* The checkpoint before, under the name `old`, becomes last.1.h5, and so on up to a gap: done again
 * from wherever it was broken off, it comes to the same. */
static void rotate(la_folder *s, const char *old) {
    for (int64_t i = first_gap(s); i > 0; i--) {
        char       *newer = numbered(s->dir, i - 1), *older = numbered(s->dir, i);
        const char *from = i == 1 ? old : newer;
        if (!newer || !older)
            not_kept(old, ENOMEM);
        else if (rename(from, older) != 0 && errno != ENOENT) /* there are not so many yet */
            not_kept(from, errno);
        free(newer);
        free(older);
    }
}

void la_folder_finish_rotation(la_folder *s) {
    struct stat a, b;
    char       *old = la_folder_path(s->dir, "last.old.tmp"), *path = numbered(s->dir, 0);
    if (old && path && stat(old, &a) == 0 && stat(path, &b) == 0 &&
        (a.st_ino != b.st_ino || a.st_dev != b.st_dev) && la_file_is_ours(old) &&
        !la_file_is_damaged(old))
        rotate(s, old);
    free(old);
    free(path);
}

la_status la_folder_save_last(la_folder *s, const la_record *r, const la_params *p,
                              const la_optim *o, const la_tokenizer *k) {
    char     *old = la_folder_path(s->dir, "last.old.tmp"), *path = numbered(s->dir, 0);
    la_status status = old && path ? LA_OK : la_fail(LA_NOMEM, "no memory to save");
    if (status == LA_OK) {
        int wanted =
            s->keep > 1 && r->step != s->last_step && (s->saved || !la_file_is_damaged(path));
        int kept = wanted && link(path, old) == 0; /* a second name */
        int error = wanted && !kept && errno != ENOENT ? errno : 0;
        status = la_checkpoint_save(path, r, p, o, k);
        if (status == LA_OK && error) not_kept(path, error);
        if (kept && status == LA_OK) rotate(s, old);
        if (status == LA_OK) s->saved = 1, s->last_step = r->step;
        unlink(old); /* still there if nothing was saved */
    }
    free(old);
    free(path);
    return status;
}

la_status la_folder_save_best(la_folder *s, const la_record *r, const la_params *p,
                              const la_optim *o, const la_tokenizer *k) {
    char     *path = la_folder_path(s->dir, "best.h5");
    la_status status =
        path ? la_checkpoint_save(path, r, p, o, k) : la_fail(LA_NOMEM, "no memory to save");
    free(path);
    return status;
}

/* Keeps the newer of *best and the checkpoint at path, which it takes over; this, if both are of
 * one step.  LA_NOMEM: whether it is the newer one is not known. */
static la_status consider(char *path, la_checkpoint **best, char **best_path) {
    char           name[LA_FILE_NAME];
    la_checkpoint *c = NULL;
    la_status s = path ? la_checkpoint_open(&c, path) : la_fail(LA_NOMEM, "no memory for a name");
    if (s != LA_OK && s != LA_NOMEM) {
        fprintf(stderr, "skipped %s: %s\n", la_file_name(path, name), la_error());
        s = LA_OK;
    }
    if (c && (!*best || la_checkpoint_record(c)->step >= la_checkpoint_record(*best)->step)) {
        la_checkpoint_close(*best);
        free(*best_path);
        *best = c;
        *best_path = path;
        return s;
    }
    la_checkpoint_close(c);
    free(path);
    return s;
}

static int filter(const struct dirent *e) { return la_folder_checkpoint_name(e->d_name); }

/* All that are there, whatever is missing in between; in the order of their names, in which last.h5
 * comes last. */
static la_status find_newest(const char *dir, la_checkpoint **c, char **path) {
    struct dirent **found = NULL;
    la_status       s = LA_OK;
    int             n = scandir(dir, &found, filter, alphasort);
    if (n < 0 && errno == ENOMEM) return la_fail(LA_NOMEM, "no memory to look into %s", dir);
    for (int i = 0; i < n; i++) {
        if (s == LA_OK) s = consider(la_folder_path(dir, found[i]->d_name), c, path);
        free(found[i]);
    }
    free(found);
    LA_TRY(s);
    return *c ? LA_OK
              : la_fail(LA_FORMAT,
                        "there is no checkpoint to resume from in %s: begin anew, with --data and "
                        "without --resume",
                        dir);
}

int la_folder_aside_name(const char *name) {
    static const char digits[] = "0123456789";
    if (strncmp(name, ASIDE, sizeof ASIDE - 1)) return 0;
    name += sizeof ASIDE - 1;
    size_t step = strspn(name, digits),
           more = name[step] == '.' ? strspn(name + step + 1, digits) : 0;
    return step && !strcmp(name + step + (more ? more + 1 : 0), ".h5");
}

/* A free name for the checkpoint of that step; NULL: no memory. */
static char *aside(const char *dir, int64_t step) {
    char name[64];
    for (int i = 0;; i++) {
        snprintf(name, sizeof name, i ? ASIDE "%lld.%d.h5" : ASIDE "%lld.h5", (long long)step, i);
        char *path = la_folder_path(dir, name);
        if (!path || access(path, F_OK) != 0) return path;
        free(path);
    }
}

static la_status set_aside(const la_folder *s, const char *path, int64_t step) {
    char           was[LA_FILE_NAME], is[LA_FILE_NAME];
    la_checkpoint *c;
    la_status      opened = la_checkpoint_open(&c, path);
    if (opened == LA_FORMAT) /* damaged: it stays, and is taken by nobody */
        fprintf(stderr, "skipped %s: %s\n", la_file_name(path, was), la_error());
    if (opened != LA_OK) return opened == LA_FORMAT ? LA_OK : opened;
    int64_t there = la_checkpoint_record(c)->step;
    la_checkpoint_close(c);
    if (there <= step) return LA_OK;
    char     *to = aside(s->dir, there);
    la_status status = to ? LA_OK : la_fail(LA_NOMEM, "no memory for a name");
    if (to && rename(path, to) != 0)
        status = la_fail(LA_IO, "cannot set %s aside: %s", path, strerror(errno));
    if (status == LA_OK)
        fprintf(stderr,
                "note: %s is of step %lld, and the run goes back to step %lld: it is now %s\n",
                la_file_name(path, was), (long long)there, (long long)step, la_file_name(to, is));
    free(to);
    return status;
}

la_status la_folder_set_aside(la_folder *s, int64_t step) {
    struct dirent **found = NULL;
    la_status       status = LA_OK;
    int             n = scandir(s->dir, &found, filter, alphasort);
    if (n < 0) return la_fail(LA_IO, "cannot look into %s: %s", s->dir, strerror(errno));
    for (int i = 0; i < n; i++) {
        char *path = la_folder_path(s->dir, found[i]->d_name);
        if (status == LA_OK)
            status = path ? set_aside(s, path, step) : la_fail(LA_NOMEM, "no memory for a name");
        free(path);
        free(found[i]);
    }
    free(found);
    return status;
}

la_status la_folder_find(const char *dir, const char *which, la_checkpoint **c, char **path) {
    *c = NULL;
    *path = NULL;
    if (!strcmp(which, "auto")) {
        la_status s = find_newest(dir, c, path);
        if (s == LA_OK) return s;
        la_checkpoint_close(*c);
        free(*path);
        *c = NULL;
        *path = NULL;
        return s;
    }
    *path = !strcmp(which, "last")   ? la_folder_path(dir, "last.h5")
            : !strcmp(which, "best") ? la_folder_path(dir, "best.h5")
                                     : strdup(which);
    la_status s = *path ? la_checkpoint_open(c, *path) : la_fail(LA_NOMEM, "no memory for a name");
    if (s == LA_OK) return s;
    free(*path);
    *path = NULL;
    return la_fail(s == LA_NOMEM ? s : LA_FORMAT, "%s", la_error());
}

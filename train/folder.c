/* folder.c -- the folder of a run: made, locked, cleared; metrics and samples. */
#include "train/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

char *la_folder_path(const char *dir, const char *name) {
    size_t n = strlen(dir) + strlen(name) + 2;
    char  *p = malloc(n);
    if (p) snprintf(p, n, "%s/%s", dir, name);
    return p;
}

la_status la_folder_make(const char *dir) {
    char       *path = strdup(dir);
    struct stat st;
    int         made = 0;
    if (!path) return la_fail(LA_NOMEM, "no memory for the name %s", dir);
    for (char *p = path + 1; !made; p++) {
        char c = *p;
        if (c && c != '/') continue;
        *p = 0; /* each folder above it first */
        made = mkdir(path, 0777) && !(errno == EEXIST && !stat(path, &st) && S_ISDIR(st.st_mode))
                   ? errno
                   : 0;
        *p = c;
        if (!c) break;
    }
    free(path);
    if (!made) return LA_OK;
    return la_fail(LA_IO, "cannot make the folder %s: %s", dir,
                   made == EEXIST ? "it is a file" : strerror(made));
}

/* What a killed run may leave: the temporaries of saving and of making metrics.csv anew, and
 * metrics.jsonl.tmp, which earlier versions wrote. */
static int is_temporary(const char *name) {
    return !strncmp(name, "last.h5.tmp.", 12) || !strncmp(name, "best.h5.tmp.", 12) ||
           !strncmp(name, "run.json.tmp.", 13) || !strcmp(name, "last.old.tmp") ||
           !strcmp(name, "metrics.csv.tmp") || !strcmp(name, "metrics.jsonl.tmp");
}

static int is_ours(const char *name) {
    static const char *const names[] = {"run.json", "metrics.jsonl", "metrics.csv", "samples.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return 1;
    return la_folder_checkpoint_name(name) || la_folder_aside_name(name) || la_events_name(name) ||
           is_temporary(name);
}

/* NEW: there must be nothing.  OVERWRITE: removes what a run writes.  RESUME: removes temporaries
 * that a killed run left. */
static la_status clear(const char *dir, la_folder_mode mode) {
    DIR *d = opendir(dir);
    if (!d) return la_fail(LA_IO, "cannot read the folder %s: %s", dir, strerror(errno));
    la_status      s = LA_OK;
    struct dirent *e;
    while (s == LA_OK && (e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        if (mode == LA_FOLDER_NEW)
            s = la_fail(LA_ARG,
                        "the folder %s is not empty (it has %s): go on with --resume, or write "
                        "over it with --overwrite",
                        dir, e->d_name);
        else if (mode == LA_FOLDER_OVERWRITE ? is_ours(e->d_name) : is_temporary(e->d_name)) {
            char *path = la_folder_path(dir, e->d_name);
            if (path) unlink(path);
            free(path);
        }
    }
    closedir(d);
    return s;
}

/* *end: where the lines of metrics.jsonl up to `step` end.  s->last_line, s->elapsed_s: of the last
 * line that stays (one that is a val_loss alone has no time). */
static la_status read_metrics(la_folder *s, const char *path, int64_t step, int64_t *end,
                              int *evaluated) {
    static const char elapsed[] = "\"elapsed_s\": ", skipped[] = "\"skipped\": ";
    FILE             *in = fopen(path, "r");
    char             *line = NULL;
    size_t            room = 0;
    long long         at = -1;
    int               cut = 0;
    *end = 0;
    if (!in && errno == ENOENT) return LA_OK; /* a folder without one may be resumed */
    for (ssize_t n; in && (n = getline(&line, &room, in)) > 0; *end += n) {
        cut = line[n - 1] != '\n' || sscanf(line, "{\"step\": %lld", &at) != 1 || at > step;
        if (cut) break;
        s->last_line = at;
        const char *time = strstr(line, elapsed);
        if (time) s->elapsed_s = strtod(time + sizeof elapsed - 1, NULL);
        const char *count = at == step ? strstr(line, skipped) : NULL;
        if (count) s->skipped = strtoll(count + sizeof skipped - 1, NULL, 10);
        *evaluated = at == step && strstr(line, "\"val_loss\"");
    }
    int ok = in && (cut || feof(in)), error = errno;
    if (in) fclose(in);
    free(line);
    return ok ? LA_OK : la_fail(LA_IO, "cannot read %s: %s", path, strerror(error));
}

/* *end: where the samples of steps before `from` end; a line that was begun is none of them. */
static la_status read_samples(const char *path, int64_t from, int64_t *end) {
    FILE     *in = fopen(path, "r");
    char     *line = NULL;
    size_t    room = 0;
    long long at;
    int       cut = 0, header = 0;
    *end = 0;
    for (ssize_t n; in && (n = getline(&line, &room, in)) > 0; *end += n) {
        header = 0;
        (void)!sscanf(line, "--- step %lld ---%n", &at, &header);
        cut = line[n - 1] != '\n' || (header == n - 1 && at >= from);
        if (cut) break;
    }
    int ok = in && (cut || feof(in)), error = errno;
    if (in) fclose(in);
    free(line);
    return ok ? LA_OK : la_fail(LA_IO, "cannot read %s: %s", path, strerror(error));
}

la_status la_folder_lock(const char *dir, int *lock) {
    *lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0 || flock(*lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return LA_OK;
    close(*lock);
    *lock = -1;
    return la_fail(
        LA_ARG, "another run is writing to the folder %s: wait for it, or choose another --out-dir",
        dir);
}

static void note_gap(const la_folder *s, const char *path, int64_t step) {
    char name[LA_FILE_NAME], last[48] = "has no line";
    if (s->last_line >= 0)
        snprintf(last, sizeof last, "ends with step %lld", (long long)s->last_line);
    fprintf(stderr,
            "warning: %s %s, and the run goes on from step %lld: what was between is missing\n",
            la_file_name(path, name), last, (long long)step);
}

la_status la_folder_open(la_folder *s, const char *dir, la_folder_mode mode, int64_t keep,
                         int64_t step, int *evaluated) {
    *s = (la_folder){.keep = keep, .last_line = -1, .last_step = -1, .lock = -1};
    *evaluated = 0;
    LA_TRY(la_folder_make(dir));
    LA_TRY(la_folder_lock(dir, &s->lock));
    int64_t   end = 0;
    char     *path = la_folder_path(dir, "metrics.jsonl");
    la_status status = path && (s->dir = strdup(dir))
                           ? LA_OK
                           : la_fail(LA_NOMEM, "no memory for the name %s", dir);
    int       resumes = mode == LA_FOLDER_RESUME || mode == LA_FOLDER_GO_BACK;
    if (status == LA_OK && resumes) la_folder_finish_rotation(s);
    if (status == LA_OK && mode == LA_FOLDER_GO_BACK) status = la_folder_set_aside(s, step);
    if (status == LA_OK) status = clear(dir, mode);
    if (status == LA_OK && resumes) status = read_metrics(s, path, step, &end, evaluated);
    if (status == LA_OK && resumes && s->last_line < step) note_gap(s, path, step);
    if (status == LA_OK) status = la_append_open(&s->metrics, path, O_CREAT, end);
    free(path);
    if (status != LA_OK) la_folder_close(s);
    return status;
}

void la_folder_close(la_folder *s) {
    la_trackers_close(&s->trackers);
    la_append_close(&s->metrics);
    la_append_close(&s->samples);
    if (s->lock >= 0) close(s->lock);
    free(s->dir);
    *s = (la_folder){.lock = -1};
}

void la_folder_metrics(la_folder *s, const la_metrics *m) {
    char line[LA_METRICS_TEXT];
    s->last_line = m->step;
    la_append_warn(&s->metrics, la_append_put(&s->metrics, line, la_metrics_json(m, line)));
    la_trackers_line(&s->trackers, m);
}

la_status la_folder_add_val_loss(la_folder *s, int64_t step, double val_loss, double val_accuracy) {
    char number[LA_NUMBER_TEXT], text[2 * LA_NUMBER_TEXT + 96];
    int  there = s->last_line == step, n = 0;
    if (!there) n = snprintf(text, sizeof text, "{\"step\": %lld", (long long)step);
    n += snprintf(text + n, sizeof text - (size_t)n, ", \"val_loss\": %s",
                  la_number_text(val_loss, number));
    if (isfinite(val_accuracy))
        n += snprintf(text + n, sizeof text - (size_t)n, ", \"val_accuracy\": %s",
                      la_number_text(val_accuracy, number));
    n += snprintf(text + n, sizeof text - (size_t)n, "}\n");
    /* the line of that step ends in "}\n", which the text replaces */
    LA_TRY(la_append_replace(&s->metrics, there ? 2 : 0, text, (size_t)n));
    la_trackers_val_loss(&s->trackers, step, val_loss, val_accuracy);
    return LA_OK;
}

la_status la_folder_open_samples(la_folder *s, int wanted, int64_t from) {
    int64_t   end = 0;
    char     *path = la_folder_path(s->dir, "samples.txt");
    la_status status = path ? LA_OK : la_fail(LA_NOMEM, "no memory for the name samples.txt");
    int       there = path && access(path, F_OK) == 0;
    if (status == LA_OK && there) status = read_samples(path, from, &end);
    if (status == LA_OK && (there || wanted))
        status = la_append_open(&s->samples, path, O_CREAT, end);
    free(path);
    return status;
}

la_status la_folder_sample(la_folder *s, int64_t step, const char *text) {
    size_t room = strlen(text) + 48;
    char  *piece = malloc(room);
    if (!piece) return la_fail(LA_NOMEM, "no memory for a sample of %zu bytes", room);
    int n = snprintf(piece, room, "--- step %lld ---\n%s\n", (long long)step, text);
    la_append_warn(&s->samples, la_append_put(&s->samples, piece, (size_t)n));
    free(piece);
    return LA_OK;
}

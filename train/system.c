/* system.c -- memory from /proc and the cgroup, the clock, signal handlers that only set flags. */
#include "train/system.h"

#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "tensor/words.h"

static size_t number_in(const char *path, const char *format) {
    char               line[256];
    unsigned long long n = 0;
    FILE              *f = fopen(path, "r");
    if (!f) return 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, format, &n) == 1) break;
    fclose(f);
    return (size_t)n;
}

/* What a hierarchy of cgroups calls its files. */
typedef struct hierarchy {
    const char *folder, *limit, *used, *cache;
} hierarchy;

static const hierarchy version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                    "memory.usage_in_bytes", "total_inactive_file %llu"};
static const hierarchy version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                    "inactive_file %llu"};

static size_t number_of(const char *folder, const char *name, const char *format) {
    char path[PATH_MAX];
    int  n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n < (int)sizeof path ? number_in(path, format) : 0;
}

/* Lowers *left to what the group leaves, and each of those above it: the limit less what is used,
 * without cached files that nobody has touched of late.  Within a container the path may be one
 * outside, which is not there, and the files of its group are at the top. */
static void lower_by(const hierarchy *h, const char *root, const char *group, size_t *left) {
    char folder[PATH_MAX];
    int  top = snprintf(folder, sizeof folder, "%s%s", root, h->folder);
    if (top + (int)strlen(group) >= (int)sizeof folder) return;
    strcpy(folder + top, group);
    for (;;) {
        size_t limit = number_of(folder, h->limit, "%llu"); /* "max" leaves 0 */
        size_t used = number_of(folder, h->used, "%llu");
        size_t cache = number_of(folder, "memory.stat", h->cache);
        used -= cache < used ? cache : used;
        size_t here = limit > used ? limit - used : 1; /* 0 would be unknown */
        if (limit && (!*left || here < *left)) *left = here;
        char *slash = strrchr(folder + top, '/');
        if (!slash) return;
        *slash = 0;
    }
}

size_t la_memory_available_in(const char *root) {
    char   line[PATH_MAX];
    size_t left = number_of(root, "proc/meminfo", "MemAvailable: %llu kB") * 1024;
    int    n = snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE  *f = n < (int)sizeof line ? fopen(line, "r") : NULL;
    while (f && fgets(line, sizeof line, f)) { /* 0::/group, or 4:cpu,memory:/group */
        char *kinds = strchr(line, ':'), *group = kinds ? strchr(kinds + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        for (char *c = kinds; *c; c++)
            if (*c == ',') *c = ' ';
        if (!strcmp(line, "0:"))
            lower_by(&version_2, root, group, &left);
        else if (la_has_word(kinds + 1, "memory"))
            lower_by(&version_1, root, group, &left);
    }
    if (f) fclose(f);
    return left;
}

/* SIZE_MAX: no limit (ulimit -v).  1 at least, since 0 would say that nothing is known. */
static size_t address_space_left(void) {
    struct rlimit l;
    if (getrlimit(RLIMIT_AS, &l) != 0 || l.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
    size_t used = number_in("/proc/self/statm", "%llu") * (size_t)sysconf(_SC_PAGESIZE);
    return l.rlim_cur > used ? (size_t)l.rlim_cur - used : 1;
}

size_t la_memory_available(void) {
    size_t memory = la_memory_available_in(""), left = address_space_left();
    return memory && memory < left ? memory : left == SIZE_MAX ? 0 : left;
}

size_t la_memory_resident(void) {
    return number_in("/proc/self/statm", "%*u %llu") * (size_t)sysconf(_SC_PAGESIZE);
}

size_t la_memory_peak_begin(void) {
#ifdef __GLIBC__
    malloc_trim(0); /* else what is allocated next would take old pages, and not show */
#endif
    FILE *f = fopen("/proc/self/clear_refs", "w");
    int   done = f && fputs("5", f) >= 0; /* 5: the peak becomes what is in memory now */
    if (f && fclose(f) != 0) done = 0;
    return done ? la_memory_peak() : 0;
}

size_t la_memory_peak(void) { return number_in("/proc/self/status", "VmHWM: %llu kB") * 1024; }

double la_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static volatile sig_atomic_t stop_signal, save_wanted;

static void on_stop(int signal) {
    if (stop_signal) _exit(128 + signal);
    stop_signal = signal;
}

static void on_save(int signal) {
    (void)signal;
    save_wanted = 1;
}

static struct {
    const char *from;
    size_t      n;
} watched[2];

/* Bytes of a mapped file that are there no more. */
static void on_lost_page(int signal, siginfo_t *what, void *context) {
    static const char text[] =
        "stopped: a text was made shorter while it was read; checkpoints are "
        "whole: restore the text and go on with --resume\n";
    (void)context;
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
        if ((uintptr_t)what->si_addr - (uintptr_t)watched[i].from < watched[i].n) {
            (void)!write(STDERR_FILENO, text, sizeof text - 1);
            _exit(3);
        }
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigaction(signal, &by_default, NULL); /* another's: it comes again */
}

void la_watch_text(const void *bytes, size_t n) {
    struct sigaction lost = {.sa_sigaction = on_lost_page, .sa_flags = SA_SIGINFO};
    int              second = watched[0].n > 0;
    watched[second].from = bytes;
    watched[second].n = n;
    sigaction(SIGBUS, &lost, NULL);
}

void la_signals_install(void) {
    struct sigaction stop = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    struct sigaction save = {.sa_handler = on_save, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGUSR1, &save, NULL);
    if (signal(SIGHUP, SIG_IGN) != SIG_IGN) sigaction(SIGHUP, &stop, NULL); /* unless under nohup */
}

int la_signal_stop(void) { return stop_signal; }

int la_signal_save(void) {
    int wanted = save_wanted;
    save_wanted = 0;
    return wanted;
}

const char *la_processor_name(char buf[LA_PROCESSOR]) {
    char *colon = NULL;
    FILE *in = fopen("/proc/cpuinfo", "r");
    while (in && fgets(buf, LA_PROCESSOR, in))
        if (!strncmp(buf, "model name", 10) && (colon = strchr(buf, ':'))) break;
    if (in) fclose(in);
    if (!colon || !colon[1]) return "unknown";
    colon[strcspn(colon, "\n")] = 0;
    return colon + 2;
}

/* system.h -- what a run asks of the machine: memory, time, signals. */
#ifndef LA_SYSTEM_H
#define LA_SYSTEM_H
#include <stddef.h>
#include <stdint.h>

/* Bytes: what is free, or what the limits of this process's cgroups leave (version 1 or 2) if that
 * is less; 0: unknown. */
size_t la_memory_available(void);
/* The same of a machine whose /proc and /sys are in the folder `root`. */
size_t la_memory_available_in(const char *root);
size_t la_memory_resident(void); /* bytes this process has in memory now; 0: unknown         */
/* Freed memory is given back, and from now on la_memory_peak() is of what follows.  Bytes in
 * memory at this moment; 0: the system cannot do that (Linux can), and the peak means nothing. */
size_t la_memory_peak_begin(void);
size_t la_memory_peak(void); /* most bytes in memory since then; 0: unknown                   */
double la_seconds(void);     /* monotonic clock                                          */

enum { LA_PROCESSOR = 256 };
const char *la_processor_name(char buf[LA_PROCESSOR]); /* "unknown" where nothing says it   */

/* After la_signals_install: the first SIGINT, SIGTERM or SIGHUP sets la_signal_stop() to its
 * number, and a second one ends the process at once; SIGUSR1 makes la_signal_save() return 1 once.
 */
void la_signals_install(void);
int  la_signal_stop(void);
int  la_signal_save(void);
/* Of a text that is mapped (two at most): if its file becomes shorter, touching what is gone ends
 * the process with 3 and a sentence. */
void la_watch_text(const void *bytes, size_t n);
#endif

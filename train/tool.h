/* tool.h -- what every program does: start, report an error once, end with the right code.
 *
 * 0 ok, 1 runtime or I/O, 2 usage, 3 data, 4 checkpoint, 5 not finite, 6 would not fit in memory;
 * 130, 143, 129 saved after SIGINT, SIGTERM, SIGHUP. */
#ifndef LA_TOOL_H
#define LA_TOOL_H
#include "train/config.h"

/* Reads the command line.  Returns 1 if the program goes on; 0 if it is over (help was printed, or
 * the usage was wrong) with *code to end with. */
int la_tool_start(la_config *c, la_tool tool, int argc, char **argv, int *code);

/* Prints the message of a failure to stderr and returns the exit code of s; 0 for LA_OK.  Output
 * that could not be written is a failure too, but of a training, whose results are files. */
int la_tool_end(const la_config *c, la_status s);
#endif

/*
 * message.h
 *		Messages to the user, on stderr: "connbench: error: ..." and the like.
 *
 * Called from the main thread only.
 */
#ifndef CONNBENCH_MESSAGE_H
#define CONNBENCH_MESSAGE_H

#define CB_PRINTF(f, a)	__attribute__((format(printf, f, a)))

extern void cb_error(const char *format, ...) CB_PRINTF(1, 2);
extern void cb_warning(const char *format, ...) CB_PRINTF(1, 2);
extern void cb_detail(const char *format, ...) CB_PRINTF(1, 2);
extern void cb_hint(const char *format, ...) CB_PRINTF(1, 2);

/* A malloc'd string; ends the program when there is no memory. */
extern char *cb_format(const char *format, ...) CB_PRINTF(1, 2);

/* Like calloc and strdup, but they end the program rather than return NULL. */
extern void *cb_alloc(unsigned long size);
extern char *cb_strdup(const char *string);

#endif							/* CONNBENCH_MESSAGE_H */

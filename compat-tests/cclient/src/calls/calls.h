/* The parts of the program that makes every call, and the addresses that it was given. */
#ifndef CALLS_H
#define CALLS_H

#include "recorder.h"

extern const char *server, *proxy, *doomed;

/* Cuts every connection through the proxy. */
void cut_connections(void);
/* Closes the doomed proxy for good. */
void close_doomed(void);

void run_sync(void);
void run_async(void);
void run_multi(void);
void run_watches(void);
void run_sessions(void);

#endif

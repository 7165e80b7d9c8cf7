/* What the parts of the program share: connections, waiting for callbacks, and printing what is the same in every run. */
#ifndef RECORDER_H
#define RECORDER_H

#ifndef THREADED
#define THREADED
#endif
#include <pthread.h>
#include <zookeeper/zookeeper.h>

/* Nothing takes as long, but on a machine that stands still. */
#define WAIT_SECONDS 100

/* A queue of lines that callbacks fill and the main thread prints. */
struct lines {
    pthread_mutex_t mutex;
    pthread_cond_t more;
    char text[1024][512]; /* more than any part has outstanding */
    int put, taken;
};

struct connection {
    zhandle_t *zh;
    struct lines states;
    struct lines events;
};

/* What zookeeper_init_ssl takes; NULL: sessions are in plain text. */
extern const char *certificates;

void lines_init(struct lines *l);
void lines_put(struct lines *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Copies the next line to out, of 512 bytes; 0 when none came in time. */
int lines_take(struct lines *l, char *out, int millis);
/* Prints the next line after a prefix, or NONE after WAIT_SECONDS. */
void lines_next(struct lines *l, const char *prefix);
/* Prints count lines, sorted. */
void lines_sorted(struct lines *l, const char *prefix, int count);
/* Takes lines until one is text; prints it, or NONE. */
void lines_await(struct lines *l, const char *prefix, const char *text);
/* Prints whether no line is waiting. */
void lines_none(struct lines *l, const char *prefix);

/* Connects to address and waits for the session. id may be NULL for a new one. */
struct connection *open_session(const char *address, const clientid_t *id, int timeout_millis);
void close_session(struct connection *c);
/* A watcher whose context is a struct lines. */
void watch_lines(zhandle_t *zh, int type, int state, const char *path, void *context);

/* Has the proxy do what it does for who connects to that address of its own. */
void ask_proxy(const char *address);
/* Adds an identity and prints the answer. */
void add_auth(zhandle_t *zh, const char *scheme, const char *cert);

const char *state_name(int state);
void print_rc(const char *name, int rc);
void format_stat(const struct Stat *s, char *out, size_t size);
void print_stat(const char *name, int rc, const struct Stat *s);
void print_strings(const char *name, int rc, struct String_vector *v);
void print_acl(const char *name, int rc, struct ACL_vector *v);

#endif

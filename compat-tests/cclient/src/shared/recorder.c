#include "recorder.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

const char *certificates;

void lines_init(struct lines *l) {
    memset(l, 0, sizeof *l);
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->more, NULL);
}

void lines_put(struct lines *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&l->mutex);
    vsnprintf(l->text[l->put++ % 1024], sizeof l->text[0], format, args);
    pthread_cond_broadcast(&l->more);
    pthread_mutex_unlock(&l->mutex);
    va_end(args);
}

int lines_take(struct lines *l, char *out, int millis) {
    struct timespec until;
    int got, rc = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += millis / 1000;
    until.tv_nsec += millis % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_mutex_lock(&l->mutex);
    while (l->taken == l->put && rc == 0) {
        rc = pthread_cond_timedwait(&l->more, &l->mutex, &until);
    }
    got = l->taken < l->put;
    strcpy(out, got ? l->text[l->taken++ % 1024] : "NONE");
    pthread_mutex_unlock(&l->mutex);
    return got;
}

static int take(struct lines *l, char *out) {
    return lines_take(l, out, WAIT_SECONDS * 1000);
}

void lines_next(struct lines *l, const char *prefix) {
    char line[512];
    take(l, line);
    printf("%s: %s\n", prefix, line);
}

static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

void lines_sorted(struct lines *l, const char *prefix, int count) {
    char(*all)[512] = calloc(count, sizeof *all);
    for (int i = 0; i < count; i++) {
        take(l, all[i]);
    }
    qsort(all, count, sizeof *all, by_text);
    for (int i = 0; i < count; i++) {
        printf("%s: %s\n", prefix, all[i]);
    }
    free(all);
}

void lines_await(struct lines *l, const char *prefix, const char *text) {
    char line[512];
    while (take(l, line) && strcmp(line, text) != 0) {
    }
    printf("%s: %s\n", prefix, line);
}

void lines_none(struct lines *l, const char *prefix) {
    pthread_mutex_lock(&l->mutex);
    printf("%s: %s\n", prefix, l->taken == l->put ? "none, as it should be" : l->text[l->taken % 1024]);
    pthread_mutex_unlock(&l->mutex);
}

const char *state_name(int state) {
    if (state == ZOO_CONNECTED_STATE) return "connected";
    if (state == ZOO_CONNECTING_STATE) return "connecting";
    if (state == ZOO_ASSOCIATING_STATE) return "associating";
    if (state == ZOO_EXPIRED_SESSION_STATE) return "expired";
    if (state == ZOO_AUTH_FAILED_STATE) return "auth failed";
    if (state == ZOO_NOTCONNECTED_STATE) return "not connected";
    return "other";
}

static const char *event_name(int type) {
    if (type == ZOO_CREATED_EVENT) return "created";
    if (type == ZOO_DELETED_EVENT) return "deleted";
    if (type == ZOO_CHANGED_EVENT) return "changed";
    if (type == ZOO_CHILD_EVENT) return "child";
    if (type == ZOO_NOTWATCHING_EVENT) return "not watching";
    return "other";
}

void watch_lines(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh;
    if (type != ZOO_SESSION_EVENT) {
        lines_put(context, "%s %s %s", event_name(type), state_name(state), path);
    }
}

static void session_watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    struct connection *c = (struct connection *)context;
    (void)zh;
    if (type == ZOO_SESSION_EVENT) {
        lines_put(&c->states, "%s", state_name(state));
    } else {
        lines_put(&c->events, "%s %s %s", event_name(type), state_name(state), path);
    }
}

struct connection *open_session(const char *address, const clientid_t *id, int timeout_millis) {
    struct connection *c = malloc(sizeof *c);
    lines_init(&c->states);
    lines_init(&c->events);
    if (certificates == NULL) {
        c->zh = zookeeper_init(address, session_watcher, timeout_millis, id, c, 0);
    } else {
#ifdef HAVE_OPENSSL_H
        c->zh = zookeeper_init_ssl(address, certificates, session_watcher, timeout_millis, id, c, 0);
#else
        c->zh = NULL;
        errno = ENOTSUP;
#endif
    }
    if (c->zh == NULL) {
        perror("zookeeper_init");
        exit(1);
    }
    return c;
}

void close_session(struct connection *c) {
    print_rc("close", zookeeper_close(c->zh));
    free(c);
}

void ask_proxy(const char *address) {
    char host[64], byte;
    const char *colon = strrchr(address, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0) exit(1);
    int fd = socket(found->ai_family, found->ai_socktype, 0);
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        perror(address);
        exit(1);
    }
    while (read(fd, &byte, 1) > 0) { /* the end of the stream is the answer */
    }
    close(fd);
    freeaddrinfo(found);
}

static struct lines authenticated;

static void auth_done(int rc, const void *scheme) {
    lines_put(&authenticated, "%s %s", (const char *)scheme, zerror(rc));
}

static void ignored(int rc, const char *value, const void *data) {
    (void)rc, (void)value, (void)data;
}

/* The library does not wake its own thread for an identity, only for a request: without one it is sent with the next
 * ping. */
void add_auth(zhandle_t *zh, const char *scheme, const char *cert) {
    lines_init(&authenticated);
    zoo_add_auth(zh, scheme, cert, (int)strlen(cert), auth_done, scheme);
    zoo_async(zh, "/", ignored, NULL);
    lines_next(&authenticated, "addauth");
}

void print_rc(const char *name, int rc) {
    printf("%s -> %s\n", name, zerror(rc));
}

/* The order of the three zxids: c=m=p after a create. */
void format_stat(const struct Stat *s, char *out, size_t size) {
    time_t age = time(NULL) - s->ctime / 1000;
    snprintf(out, size, "{v=%d cv=%d av=%d owner=%s len=%d kids=%d c%sm m%sp%s}", s->version, s->cversion, s->aversion,
             s->ephemeralOwner ? "session" : "-", s->dataLength, s->numChildren, s->czxid == s->mzxid ? "=" : "<",
             s->mzxid == s->pzxid ? "=" : s->mzxid < s->pzxid ? "<" : ">",
             s->ctime != 0 && (age < -5 || age > 600 || s->mtime < s->ctime) ? " implausible times" : "");
}

void print_stat(const char *name, int rc, const struct Stat *s) {
    char text[256] = "";
    if (rc == ZOK) format_stat(s, text, sizeof text);
    printf("%s -> %s %s\n", name, zerror(rc), text);
}

void print_strings(const char *name, int rc, struct String_vector *v) {
    printf("%s -> %s", name, zerror(rc));
    if (rc == ZOK) {
        char(*all)[512] = calloc(v->count + 1, sizeof *all);
        for (int i = 0; i < v->count; i++) snprintf(all[i], sizeof all[i], "%s", v->data[i]);
        qsort(all, v->count, sizeof *all, by_text);
        for (int i = 0; i < v->count; i++) printf(" %s", all[i]);
        free(all);
        deallocate_String_vector(v);
    }
    printf("\n");
}

void print_acl(const char *name, int rc, struct ACL_vector *v) {
    printf("%s -> %s", name, zerror(rc));
    if (rc == ZOK) {
        for (int i = 0; i < v->count; i++) printf(" %s:%s:%d", v->data[i].id.scheme, v->data[i].id.id,
            v->data[i].perms);
        deallocate_ACL_vector(v);
    }
    printf("\n");
}

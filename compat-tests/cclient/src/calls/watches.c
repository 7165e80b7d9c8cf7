/* Watches, their removal, and what is told after a broken connection. */
#include "calls.h"

#include <stdio.h>

static void make(zhandle_t *zh, const char *path) {
    char real[64];
    int rc = zoo_create(zh, path, "x", 1, &ZOO_OPEN_ACL_UNSAFE, 0, real, sizeof real);
    if (rc != ZOK) print_rc(path, rc);
}

static void one_shot(struct connection *c) {
    struct lines events;
    struct Stat stat;
    struct String_vector names;
    char data[16];
    int len = sizeof data;
    lines_init(&events);
    print_rc("watch what is not there", zoo_wexists(c->zh, "/w", watch_lines, &events, &stat));
    make(c->zh, "/w");
    lines_next(&events, "exists");
    zoo_wget(c->zh, "/w", watch_lines, &events, data, &len, &stat);
    zoo_set(c->zh, "/w", "y", 1, -1);
    lines_next(&events, "data");
    zoo_wget_children(c->zh, "/w", watch_lines, &events, &names);
    deallocate_String_vector(&names);
    zoo_set(c->zh, "/w", "z", 1, -1);
    make(c->zh, "/w/c");
    lines_next(&events, "children");
    zoo_wget_children2(c->zh, "/w/c", watch_lines, &events, &names, &stat);
    deallocate_String_vector(&names);
    zoo_delete(c->zh, "/w/c", -1);
    lines_next(&events, "children");
    zoo_exists(c->zh, "/w", 1, &stat); /* the default watcher */
    zoo_delete(c->zh, "/w", -1);
    lines_next(&c->events, "default watcher");
    zoo_exists(c->zh, "/", 0, &stat);
    lines_none(&events, "once only");
}

static void removal(struct connection *c) {
    struct lines events;
    struct Stat stat;
    struct String_vector names;
    char data[16];
    int len = sizeof data;
    lines_init(&events);
    make(c->zh, "/r");
    print_rc("remove nothing", zoo_remove_watches(c->zh, "/r", ZWATCHTYPE_ANY, watch_lines, &events, 0));
    zoo_wget(c->zh, "/r", watch_lines, &events, data, &len, &stat);
    zoo_wget_children(c->zh, "/r", watch_lines, &events, &names);
    deallocate_String_vector(&names);
    print_rc("remove data", zoo_remove_watches(c->zh, "/r", ZWATCHTYPE_DATA, watch_lines, &events, 0));
    print_rc("remove data again", zoo_remove_watches(c->zh, "/r", ZWATCHTYPE_DATA, watch_lines, &events, 0));
    zoo_wexists(c->zh, "/r/later", watch_lines, &events, &stat);
    print_rc("remove all of the missing", zoo_remove_all_watches(c->zh, "/r/later", ZWATCHTYPE_ANY, 0));
    print_rc("remove all", zoo_remove_all_watches(c->zh, "/r", ZWATCHTYPE_ANY, 0));
    print_rc("remove all again", zoo_remove_all_watches(c->zh, "/r", ZWATCHTYPE_ANY, 0));
    lines_none(&events, "the client keeps its removal events to itself");
    zoo_delete(c->zh, "/r", -1);
    zoo_exists(c->zh, "/", 0, &stat);
    lines_none(&events, "after removal");
}

/* The client sends setWatches when it is back. */
static void reconnect(struct connection *other) {
    struct lines events;
    struct Stat stat;
    struct String_vector names;
    char data[16];
    int len = sizeof data;
    lines_init(&events);
    make(other->zh, "/c");
    make(other->zh, "/c/data");
    make(other->zh, "/c/gone");
    make(other->zh, "/c/kids");
    make(other->zh, "/c/same");
    struct connection *c = open_session(proxy, NULL, 30000);
    lines_await(&c->states, "state", "connected");
    zoo_wget(c->zh, "/c/data", watch_lines, &events, data, &len, &stat);
    zoo_wget(c->zh, "/c/gone", watch_lines, &events, data, &len, &stat);
    zoo_wget_children(c->zh, "/c/kids", watch_lines, &events, &names);
    deallocate_String_vector(&names);
    zoo_wexists(c->zh, "/c/new", watch_lines, &events, &stat);
    zoo_wget(c->zh, "/c/same", watch_lines, &events, data, &len, &stat);
    cut_connections();
    zoo_set(other->zh, "/c/data", "y", 1, -1);
    zoo_delete(other->zh, "/c/gone", -1);
    make(other->zh, "/c/kids/k");
    make(other->zh, "/c/new");
    lines_await(&c->states, "state", "connecting");
    lines_await(&c->states, "state", "connected");
    lines_sorted(&events, "missed", 4);
    zoo_set(other->zh, "/c/same", "y", 1, -1);
    lines_next(&events, "later");
    lines_none(&events, "no more");
    close_session(c);
}

void run_watches(void) {
    struct connection *c = open_session(server, NULL, 30000);
    lines_await(&c->states, "state", "connected");
    printf("# one-shot watches\n");
    one_shot(c);
    printf("# removal\n");
    removal(c);
    printf("# setWatches after a broken connection\n");
    reconnect(c);
    close_session(c);
}

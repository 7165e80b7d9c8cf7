/* A session that breaks, moves to another handle, and ends. */
#include "calls.h"

#include <stdio.h>
#include <string.h>

void run_sessions(void) {
    char real[64];
    struct Stat stat;
    printf("# sessions\n");
    struct connection *other = open_session(server, NULL, 30000);
    lines_await(&other->states, "state", "connected");

    struct connection *c = open_session(proxy, NULL, 30000);
    lines_await(&c->states, "state", "connected");
    printf("time-out granted %d\n", zoo_recv_timeout(c->zh));
    clientid_t id = *zoo_client_id(c->zh);
    print_rc("create", zoo_create(c->zh, "/e", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, real, sizeof real));
    for (int i = 0; i < 2; i++) {
        cut_connections();
        lines_await(&c->states, "state", "connecting");
        lines_await(&c->states, "state", "connected");
        print_stat("ephemeral after a cut", zoo_exists(c->zh, "/e", 0, &stat), &stat);
    }
    printf("same session: %s\n", zoo_client_id(c->zh)->client_id == id.client_id ? "yes" : "no");

    close_session(c);
    print_rc("gone with the close", zoo_exists(other->zh, "/e", 0, &stat));

    /* A handle that lost its way to the server leaves its session to the next one. */
    struct connection *left = open_session(doomed, NULL, 30000);
    lines_await(&left->states, "state", "connected");
    id = *zoo_client_id(left->zh);
    print_rc("create", zoo_create(left->zh, "/e", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, real, sizeof real));
    close_doomed();
    lines_await(&left->states, "state", "connecting");
    struct connection *taken = open_session(server, &id, 30000);
    lines_await(&taken->states, "state", "connected");
    printf("taken over: %s\n", zoo_client_id(taken->zh)->client_id == id.client_id ? "yes" : "no");
    print_stat("its ephemeral", zoo_set2(taken->zh, "/e", "y", 1, -1, &stat), &stat);
    close_session(taken);
    print_rc("gone with the close", zoo_exists(other->zh, "/e", 0, &stat));
    close_session(left);

    clientid_t nobody = {0x123456789, "wrong password"};
    struct connection *refused = open_session(server, &nobody, 30000);
    lines_await(&refused->states, "state of a session that never was", "expired");
    close_session(refused);
    close_session(other);
}

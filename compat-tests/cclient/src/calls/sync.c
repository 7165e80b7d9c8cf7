/* The synchronous calls and access control. */
#include "calls.h"

#include <stdio.h>
#include <string.h>

static void create(zhandle_t *zh, const char *name, const char *path, const char *data, int mode) {
    char real[256] = "";
    int rc = zoo_create(zh, path, data, data ? (int)strlen(data) : -1, &ZOO_OPEN_ACL_UNSAFE, mode, real, sizeof real);
    printf("create %s -> %s %s\n", name, zerror(rc), rc == ZOK ? real : "");
}

static void get(zhandle_t *zh, const char *name, const char *path) {
    char data[64] = "";
    int len = sizeof data;
    struct Stat stat;
    int rc = zoo_get(zh, path, 0, data, &len, &stat);
    print_stat(name, rc, &stat);
    if (rc == ZOK) printf("  data of %d bytes: %.*s\n", len, len < 0 ? 0 : len, data);
}

static void creates(zhandle_t *zh) {
    struct Stat stat;
    char real[256];
    int rc;
    create(zh, "persistent", "/p", "data", ZOO_PERSISTENT);
    create(zh, "persistent again", "/p", "data", ZOO_PERSISTENT);
    create(zh, "no data", "/p/null", NULL, ZOO_PERSISTENT);
    create(zh, "empty data", "/p/empty", "", ZOO_PERSISTENT);
    create(zh, "ephemeral", "/p/e", "x", ZOO_EPHEMERAL);
    create(zh, "sequential", "/p/s-", "x", ZOO_PERSISTENT_SEQUENTIAL);
    create(zh, "ephemeral sequential", "/p/es-", "x", ZOO_EPHEMERAL_SEQUENTIAL);
    create(zh, "container", "/p/c", "x", ZOO_CONTAINER);
    create(zh, "under ephemeral", "/p/e/x", "x", ZOO_PERSISTENT);
    create(zh, "no parent", "/none/x", "x", ZOO_PERSISTENT);
    create(zh, "bad path", "/a//b", "x", ZOO_PERSISTENT);
    create(zh, "relative path", "a", "x", ZOO_PERSISTENT);
    rc = zoo_create_ttl(zh, "/p/t", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, 600000, real, sizeof real);
    printf("create ttl -> %s %s\n", zerror(rc), real);
    rc = zoo_create_ttl(zh, "/p/t0", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, 0, real, sizeof real);
    print_rc("create ttl 0", rc);
    rc = zoo_create2(zh, "/p/2", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, real, sizeof real, &stat);
    print_stat("create2", rc, &stat);
    rc = zoo_create2(zh, "/p/2e", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, real, sizeof real, &stat);
    print_stat("create2 ephemeral", rc, &stat);
    rc = zoo_create2(zh, "/p/2", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, real, sizeof real, &stat);
    print_rc("create2 again", rc);
    rc = zoo_create2_ttl(zh, "/p/2t-", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL, 600000, real,
                         sizeof real, &stat);
    print_stat(real, rc, &stat);
}

static void reads_and_changes(zhandle_t *zh) {
    struct Stat stat;
    struct String_vector names;
    char config[256];
    int len = sizeof config;
    get(zh, "get", "/p");
    get(zh, "get null", "/p/null");
    get(zh, "get empty", "/p/empty");
    get(zh, "get missing", "/none");
    print_stat("exists", zoo_exists(zh, "/p/e", 0, &stat), &stat);
    print_stat("exists missing", zoo_exists(zh, "/none", 0, &stat), &stat);
    print_strings("children", zoo_get_children(zh, "/p", 0, &names), &names);
    int rc = zoo_get_children2(zh, "/p", 0, &names, &stat);
    print_stat("children2", rc, &stat);
    print_strings("its names", rc, &names);
    print_rc("children missing", zoo_get_children(zh, "/none", 0, &names));
    print_stat("getconfig", zoo_getconfig(zh, 0, config, &len, &stat), &stat);
    print_rc("set", zoo_set(zh, "/p", "new", 3, 0));
    print_rc("set wrong version", zoo_set(zh, "/p", "new", 3, 0));
    print_stat("set2", zoo_set2(zh, "/p", NULL, -1, -1, &stat), &stat);
    print_rc("set missing", zoo_set(zh, "/none", "x", 1, -1));
    get(zh, "get after", "/p");
    print_rc("delete not empty", zoo_delete(zh, "/p", -1));
    print_rc("delete wrong version", zoo_delete(zh, "/p/2", 5));
    print_rc("delete", zoo_delete(zh, "/p/2", 0));
    print_rc("delete missing", zoo_delete(zh, "/p/2", 0));
    print_rc("delete root", zoo_delete(zh, "/", -1));
    print_rc("reconfig", zoo_reconfig(zh, "server.3=127.0.0.1:1:2;3", NULL, NULL, -1, config, &len, &stat));
}

static void access(zhandle_t *zh) {
    struct Stat stat;
    struct ACL_vector acl;
    char real[64];
    struct ACL wrong = {31, {"nonsense", "x"}}, closed = {0, {"ip", "127.0.0.1"}};
    struct ACL_vector wrongs = {1, &wrong}, closeds = {1, &closed};
    struct connection *other = open_session(server, NULL, 30000);
    lines_await(&other->states, "state", "connected");
    print_rc("create with auth before", zoo_create(zh, "/acl", "x", 1, &ZOO_CREATOR_ALL_ACL, 0, real, sizeof real));
    add_auth(zh, "digest", "ann:secret");
    print_rc("create with auth", zoo_create(zh, "/acl", "x", 1, &ZOO_CREATOR_ALL_ACL, 0, real, sizeof real));
    int rc = zoo_get_acl(zh, "/acl", &acl, &stat);
    print_acl("acl", rc, &acl);
    print_rc("denied get", zoo_exists(other->zh, "/acl", 0, &stat));
    print_rc("denied set", zoo_set(other->zh, "/acl", "x", 1, -1));
    print_rc("denied acl", zoo_get_acl(other->zh, "/acl", &acl, &stat));
    print_rc("denied set acl", zoo_set_acl(other->zh, "/acl", -1, &ZOO_OPEN_ACL_UNSAFE));
    add_auth(other->zh, "digest", "ann:secret");
    print_rc("no longer denied", zoo_set(other->zh, "/acl", "x", 1, -1));
    print_rc("set acl wrong version", zoo_set_acl(zh, "/acl", 9, &ZOO_READ_ACL_UNSAFE));
    print_rc("set acl invalid", zoo_set_acl(zh, "/acl", -1, &wrongs));
    print_rc("set acl", zoo_set_acl(zh, "/acl", 0, &closeds));
    print_rc("closed to all", zoo_set(zh, "/acl", "x", 1, -1));
    add_auth(zh, "digest", "super:superpw");
    print_rc("but super", zoo_delete(zh, "/acl", -1));
    add_auth(other->zh, "nonsense", "x");
    lines_await(&other->states, "state", "auth failed");
    print_rc("after failed authentication", zoo_exists(other->zh, "/", 0, &stat));
    close_session(other);
}

void run_sync(void) {
    printf("# synchronous\n");
    struct connection *c = open_session(server, NULL, 30000);
    lines_await(&c->states, "state", "connected");
    creates(c->zh);
    reads_and_changes(c->zh);
    printf("# access\n");
    access(c->zh);
    close_session(c);
}

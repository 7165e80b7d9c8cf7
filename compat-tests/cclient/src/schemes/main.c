/* Who may do what over TLS: three clients with certificates, and ACLs of every scheme. */
#include "recorder.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct connection *alice, *eve, *root;
static const char *server;

static struct connection *with(const char *name, const char *files) {
    certificates = files;
    struct connection *c = open_session(server, NULL, 30000);
    lines_await(&c->states, name, "connected");
    return c;
}

static void reads(const char *path) {
    const struct connection *all[] = {alice, eve, root};
    const char *names[] = {"alice", "eve", "root"};
    for (int i = 0; i < 3; i++) {
        char data[64];
        int len = sizeof data;
        struct Stat stat;
        printf("  %s ", names[i]);
        print_rc("reads", zoo_get(all[i]->zh, path, 0, data, &len, &stat));
    }
}

static void of_scheme(const char *path, char *scheme, char *id) {
    char real[64];
    struct ACL entry = {ZOO_PERM_ALL, {scheme, id}};
    struct ACL_vector acl = {1, &entry}, got;
    struct Stat stat;
    printf("%s:%s\n", scheme, id);
    int rc = zoo_create(alice->zh, path, "x", 1, &acl, ZOO_PERSISTENT, real, sizeof real);
    print_rc("  alice creates", rc);
    if (rc != ZOK) return;
    rc = zoo_get_acl(root->zh, path, &got, &stat);
    print_acl("  acl", rc, &got);
    reads(path);
}

/* usage: program SERVER ALICE EVE ROOT, the files of each as zookeeper_init_ssl takes them */
int main(int argc, char **argv) {
    if (argc != 5) return 2;
    signal(SIGPIPE, SIG_IGN);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    server = argv[1];
    alice = with("alice", argv[2]);
    eve = with("eve", argv[3]);
    root = with("root", argv[4]);
    of_scheme("/world", "world", "anyone");
    of_scheme("/ip", "ip", "127.0.0.1");
    of_scheme("/net", "ip", "127.0.0.0/8");
    of_scheme("/far", "ip", "192.0.2.1");
    of_scheme("/x509", "x509", "CN=alice,O=Acme");
    of_scheme("/other", "x509", "CN=eve,O=Acme");
    of_scheme("/noname", "x509", "nobody");
    of_scheme("/sasl", "sasl", "bob");
    of_scheme("/auth", "auth", "");
    of_scheme("/digest", "digest", "ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM="); /* of ann:secret */
    printf("alice knows a password, eve does not\n");
    add_auth(alice->zh, "digest", "ann:secret");
    add_auth(eve->zh, "digest", "ann:wrong");
    reads("/digest");
    printf("eve has found it out\n");
    add_auth(eve->zh, "digest", "ann:secret");
    reads("/digest");
    of_scheme("/both", "auth", "");
    printf("eve says that she is alice\n");
    add_auth(eve->zh, "x509", "CN=alice,O=Acme");
    reads("/x509");
    printf("eve names a scheme that is none\n");
    add_auth(eve->zh, "nonsense", "x");
    lines_await(&eve->states, "eve", "auth failed");
    close_session(alice);
    close_session(eve);
    close_session(root);
    return 0;
}

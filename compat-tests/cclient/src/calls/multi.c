/* Transactions. */
#include "calls.h"

#include <stdio.h>

static void commit(zhandle_t *zh, const char *name, int count, zoo_op_t *ops) {
    zoo_op_result_t results[16];
    int rc = zoo_multi(zh, count, ops, results);
    printf("%s -> %s:", name, zerror(rc));
    for (int i = 0; i < count; i++) printf(" %s%s", i ? ", " : "", zerror(results[i].err));
    printf("\n");
}

void run_multi(void) {
    printf("# multi\n");
    struct connection *c = open_session(server, NULL, 30000);
    lines_await(&c->states, "state", "connected");
    char path1[64] = "", path2[64] = "", path3[64] = "";
    struct Stat stat;
    struct String_vector names;
    zoo_op_t ops[5];
    zoo_create_op_init(&ops[0], "/m", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, path1, sizeof path1);
    zoo_create_op_init(&ops[1], "/m/s-", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL, path2,
        sizeof path2);
    zoo_create_op_init(&ops[2], "/m/e", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, path3, sizeof path3);
    zoo_set_op_init(&ops[3], "/m", "new", 3, 0, &stat);
    zoo_check_op_init(&ops[4], "/m", 1);
    commit(c->zh, "all kinds", 5, ops);
    printf("paths %s %s %s\n", path1, path2, path3);
    print_stat("stat of the set", ZOK, &stat);
    zoo_delete_op_init(&ops[0], "/m/e", 0);
    zoo_check_op_init(&ops[1], "/m", 99);
    zoo_delete_op_init(&ops[2], path2, 0);
    commit(c->zh, "fails in the middle", 3, ops);
    zoo_delete_op_init(&ops[0], "/m/none", 0);
    commit(c->zh, "fails at the start", 3, ops);
    zoo_delete_op_init(&ops[0], "/m/e", 0);
    zoo_delete_op_init(&ops[1], path2, 0);
    zoo_delete_op_init(&ops[2], "/m", -1);
    print_strings("nothing was done", zoo_get_children(c->zh, "/m", 0, &names), &names);
    commit(c->zh, "deletes", 3, ops);
    print_rc("gone", zoo_exists(c->zh, "/m", 0, &stat));
    close_session(c);
}

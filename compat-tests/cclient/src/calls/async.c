/* The asynchronous form of every call: all are sent before the first answer is looked at, and answered in order. */
#include "calls.h"

#include <stdio.h>
#include <string.h>

static struct lines answers;

static void void_done(int rc, const void *name) {
    lines_put(&answers, "%s %s", (const char *)name, zerror(rc));
}

static void stat_done(int rc, const struct Stat *stat, const void *name) {
    char text[256] = "";
    if (rc == ZOK) format_stat(stat, text, sizeof text);
    lines_put(&answers, "%s %s %s", (const char *)name, zerror(rc), text);
}

static void data_done(int rc, const char *value, int len, const struct Stat *stat, const void *name) {
    char text[256] = "";
    if (rc == ZOK) format_stat(stat, text, sizeof text);
    lines_put(&answers, "%s %s %d:%.*s %s", (const char *)name, zerror(rc), len, len > 0 ? len : 0,
        value ? value : "", text);
}

static void strings_done(int rc, const struct String_vector *names, const void *name) {
    lines_put(&answers, "%s %s %d names", (const char *)name, zerror(rc), rc == ZOK ? names->count : -1);
}

static void strings_stat_done(int rc, const struct String_vector *names, const struct Stat *stat, const void *name) {
    (void)stat;
    lines_put(&answers, "%s %s %d names", (const char *)name, zerror(rc), rc == ZOK ? names->count : -1);
}

static void string_done(int rc, const char *value, const void *name) {
    lines_put(&answers, "%s %s %s", (const char *)name, zerror(rc), rc == ZOK ? value : "");
}

static void string_stat_done(int rc, const char *value, const struct Stat *stat, const void *name) {
    char text[256] = "";
    if (rc == ZOK) format_stat(stat, text, sizeof text);
    lines_put(&answers, "%s %s %s %s", (const char *)name, zerror(rc), rc == ZOK ? value : "", text);
}

static void acl_done(int rc, struct ACL_vector *acl, struct Stat *stat, const void *name) {
    (void)stat;
    lines_put(&answers, "%s %s %d entries", (const char *)name, zerror(rc), rc == ZOK ? acl->count : -1);
}

static char sequence[8 * 300];

static void sequence_done(int rc, const char *value, const void *unused) {
    (void)unused;
    strcat(sequence, rc == ZOK ? value + strlen(value) - 4 : "error");
}

static int send_all(zhandle_t *zh, zoo_op_t *ops, zoo_op_result_t *results) {
    int sent = 0;
    const struct ACL_vector *open = &ZOO_OPEN_ACL_UNSAFE;
    zoo_acreate(zh, "/as", "d", 1, open, ZOO_PERSISTENT, string_done, "create"), sent++;
    zoo_acreate(zh, "/as", "d", 1, open, ZOO_PERSISTENT, string_done, "create again"), sent++;
    zoo_acreate2(zh, "/as/2", "d", 1, open, ZOO_PERSISTENT, string_stat_done, "create2"), sent++;
    zoo_acreate(zh, "/as/c", "d", 1, open, ZOO_CONTAINER, string_done, "container"), sent++;
    zoo_acreate_ttl(zh, "/as/t", "d", 1, open, ZOO_PERSISTENT_WITH_TTL, 600000, string_done, "ttl"), sent++;
    zoo_acreate2_ttl(zh, "/as/t2", "d", 1, open, ZOO_PERSISTENT_WITH_TTL, 600000, string_stat_done, "ttl2"), sent++;
    zoo_aexists(zh, "/as", 0, stat_done, "exists"), sent++;
    zoo_aexists(zh, "/none", 0, stat_done, "exists missing"), sent++;
    zoo_aget(zh, "/as", 0, data_done, "get"), sent++;
    zoo_aset(zh, "/as", "new", 3, 0, stat_done, "set"), sent++;
    zoo_aset(zh, "/as", "new", 3, 0, stat_done, "set wrong version"), sent++;
    zoo_aget_children(zh, "/as", 0, strings_done, "children"), sent++;
    zoo_aget_children2(zh, "/as", 0, strings_stat_done, "children2"), sent++;
    zoo_aset_acl(zh, "/as", 0, (struct ACL_vector *)open, void_done, "set acl"), sent++;
    zoo_aget_acl(zh, "/as", acl_done, "get acl"), sent++;
    zoo_async(zh, "/as", string_done, "sync"), sent++;
    zoo_agetconfig(zh, 0, data_done, "config"), sent++;
    zoo_check_op_init(&ops[0], "/as", 1);
    zoo_delete_op_init(&ops[1], "/as/t", -1);
    zoo_amulti(zh, 2, ops, results, void_done, "multi"), sent++;
    zoo_adelete(zh, "/as/t2", 0, void_done, "delete"), sent++;
    zoo_adelete(zh, "/as", -1, void_done, "delete not empty"), sent++;
    return sent;
}

void run_async(void) {
    printf("# asynchronous\n");
    struct connection *c = open_session(server, NULL, 30000);
    lines_await(&c->states, "state", "connected");
    lines_init(&answers);
    zoo_op_t ops[2];
    zoo_op_result_t results[2];
    int sent = send_all(c->zh, ops, results);
    for (int i = 0; i < 300; i++) {
        zoo_acreate(c->zh, "/as/many-", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, sequence_done, NULL);
    }
    zoo_async(c->zh, "/", string_done, "after 300 creates");
    for (int i = 0; i < sent + 1; i++) lines_next(&answers, "answer");
    char expected[sizeof sequence] = "", number[16];
    for (int i = 0; i < 300; i++) {
        snprintf(number, sizeof number, "%04d", i + 4);
        strcat(expected, number);
    }
    printf("300 in flight: %s\n", strcmp(expected, sequence) == 0 ? "numbered in order" : sequence);
    close_session(c);
}

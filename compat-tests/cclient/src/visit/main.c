/* One client that tries to get in: what it sees, and as whom it is known. */
#define _GNU_SOURCE /* fopencookie */
#include "recorder.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Far beyond what a session needs on a busy machine, for the library gives a handle no time-out before. */
#define SESSION_MILLIS 120000

static struct lines seen;

static void watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)path, (void)context;
    if (type == ZOO_SESSION_EVENT) lines_put(&seen, "%s", state_name(state));
}

/* What the library logs is all that it tells of a connection that fails. Whether it ends while it is written to or read
 * from is chance, whether TLS came about is not. */
static ssize_t hear(void *unused, const char *text, size_t size) {
    (void)unused;
    char line[1024];
    snprintf(line, sizeof line, "%.*s", (int)size, text);
    fputs(line, stderr);
    const char *code = strstr(line, "zk retcode=");
    if (code != NULL) {
        int rc = atoi(code + strlen("zk retcode="));
        lines_put(&seen, "%s", rc == ZSSLCONNECTIONERROR ? "no TLS" : "cut off");
    } else if (strstr(line, "Failed to load client certificate") != NULL) {
        lines_put(&seen, "no certificate");
    }
    return (ssize_t)size;
}

/* Waits for the first of: a session, an end of the attempt. */
static int got_in(zhandle_t *zh) {
    char line[512] = "nothing";
    for (int waited = 0; waited < WAIT_SECONDS * 1000; waited += 20) {
        if (zoo_state(zh) == ZOO_AUTH_FAILED_STATE) { /* the watcher is not told of it after a login by SASL */
            strcpy(line, "auth failed");
            break;
        }
        if (lines_take(&seen, line, 20) && strcmp(line, "connecting") != 0) break;
    }
    printf("  %s\n", line);
    return strcmp(line, "connected") == 0;
}

static void look_around(zhandle_t *zh, int count, char **paths) {
    char real[64], data[64];
    struct ACL_vector acl;
    struct Stat stat;
    for (int i = 0; i < count; i++) {
        int len = sizeof data;
        if (strncmp(paths[i], "cut:", 4) == 0) {
            ask_proxy(paths[i] + 4);
            lines_await(&seen, "  cut", "connecting");
            lines_await(&seen, "  again", "connected");
            print_rc("  get", zoo_get(zh, paths[0], 0, data, &len, &stat));
        } else if (i == 0) {
            int rc = zoo_create(zh, paths[i], "x", 1, &ZOO_CREATOR_ALL_ACL, 0, real, sizeof real);
            print_rc("  create", rc);
            if (rc != ZOK) continue; /* nobody is known, or the session is closed */
            rc = zoo_get_acl(zh, paths[i], &acl, &stat);
            print_acl("  acl", rc, &acl);
        } else {
            print_rc("  get", zoo_get(zh, paths[i], 0, data, &len, &stat));
        }
    }
}

static zhandle_t *by_sasl(const char *server, char **how) {
    static zoo_sasl_params_t params;
    const char *user = *how[2] ? how[2] : NULL, *password = *how[3] ? how[3] : NULL;
    if (sasl_client_init(NULL) != SASL_OK) return NULL;
    params.service = "zookeeper";
    params.mechlist = how[0];
    params.host = how[1];
    params.callbacks = zoo_sasl_make_basic_callbacks(user, NULL, password);
    return zookeeper_init_sasl(server, watcher, SESSION_MILLIS, NULL, NULL, 0, NULL, &params);
}

/* usage: program SERVER plain [PATH...]
 *        program SERVER tls FILES [PATH...]
 *        program SERVER sasl MECHANISM HOST USER PASSWORDFILE [PATH...]
 * The first PATH is created with an ACL of whom the client is, the others are read. cut:ADDRESS in place of a PATH asks
 * the proxy there to cut the connection, and reads the first one when the session goes on. */
int main(int argc, char **argv) {
    if (argc < 3) return 2;
    cookie_io_functions_t ears = {.write = hear};
    zhandle_t *zh = NULL;
    int taken = 3;
    signal(SIGPIPE, SIG_IGN);
    lines_init(&seen);
    zoo_set_log_stream(fopencookie(NULL, "w", ears));
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    if (strcmp(argv[2], "plain") == 0) {
        zh = zookeeper_init(argv[1], watcher, SESSION_MILLIS, NULL, NULL, 0);
    } else if (strcmp(argv[2], "tls") == 0 && argc >= 4) {
        taken = 4;
        zh = zookeeper_init_ssl(argv[1], argv[3], watcher, SESSION_MILLIS, NULL, NULL, 0);
    } else if (strcmp(argv[2], "sasl") == 0 && argc >= 7) {
        taken = 7;
        zh = by_sasl(argv[1], argv + 3);
    }
    if (zh == NULL) return 2;
    if (got_in(zh)) look_around(zh, argc - taken, argv + taken);
    zookeeper_close(zh);
    return 0;
}

/* Every call of the library, one part after another. */
#include "calls.h"

#include <signal.h>
#include <stdio.h>

const char *server, *proxy, *doomed;
static const char *cut, *close_address;

void cut_connections(void) {
    ask_proxy(cut);
}

void close_doomed(void) {
    ask_proxy(close_address);
}

/* usage: program SERVER PROXY CUT DOOMED CLOSE [CERTIFICATES] */
int main(int argc, char **argv) {
    if (argc != 6 && argc != 7) return 2;
    server = argv[1];
    proxy = argv[2];
    cut = argv[3];
    doomed = argv[4];
    close_address = argv[5];
    certificates = argv[6]; /* NULL if there is none */
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes to connections that were cut */
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    run_sync();
    run_multi();
    run_watches();
    run_async();
    run_sessions();
    printf("# end\n");
    return 0;
}

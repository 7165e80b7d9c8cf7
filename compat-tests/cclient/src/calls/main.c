/* Every call of the library, one part after another. */
#include "calls.h"

#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *server, *proxy, *doomed;
static const char *cut, *close_address;

static void ask(const char *address) {
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

void cut_connections(void) {
    ask(cut);
}

void close_doomed(void) {
    ask(close_address);
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

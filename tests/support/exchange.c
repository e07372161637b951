// SPDX-License-Identifier: Apache-2.0
// Requests of 64 bytes and responses of 64 bytes over TCP, one after the other.
//
// serve PORT: answers one connection to its end.
// ask ADDRESS PORT: asks for 0.3 s, and prints the median time in nanoseconds from a request to its response.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 64, MOST = 1 << 20 };

static char buffer[BYTES];

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int hear(int connection) {
    for (ssize_t held = 0, got; held < BYTES; held += got)
        if ((got = read(connection, buffer + held, (size_t)(BYTES - held))) <= 0) return 0;
    return 1;
}

static int by_size(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

int main(int count, char **words) {
    static uint64_t taken_ns[MOST];
    int one = 1, serves = count > 1 && !strcmp(words[1], "serve"), connection = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (count != (serves ? 3 : 4)) return 2;
    address.sin_port = htons((uint16_t)atoi(words[count - 1]));
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (serves) {
        if (bind(connection, (struct sockaddr *)&address, sizeof address) || listen(connection, 1)) return 1;
        int accepted = accept(connection, NULL, NULL);
        setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        while (hear(accepted) && write(accepted, buffer, BYTES) == BYTES) {}
        return 0;
    }
    if (!inet_aton(words[2], &address.sin_addr)) return 2;
    if (connect(connection, (struct sockaddr *)&address, sizeof address)) return 1;
    size_t found = 0;
    for (uint64_t start_ns = now_ns(), sent_ns = start_ns; found < MOST && sent_ns - start_ns < 300000000u;) {
        sent_ns = now_ns();
        if (write(connection, buffer, BYTES) != BYTES || !hear(connection)) return 1;
        taken_ns[found++] = now_ns() - sent_ns;
    }
    qsort(taken_ns, found, sizeof *taken_ns, by_size);
    printf("%llu\n", (unsigned long long)taken_ns[found / 2]);
    return 0;
}

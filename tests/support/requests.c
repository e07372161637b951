// SPDX-License-Identifier: Apache-2.0
// A server on a Unix socket, and one who asks it at moments that are fixed beforehand.
//
// serve PATH STALL_MS: answers each line with "ok", and every 200th after it has answered nobody for STALL_MS.
// ask PATH PERCENT: four connections send 1000 requests a second for 0.4 s. Prints the time in nanoseconds within which so
// many of a hundred were answered, each counted from the moment at which it was due.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 4, REQUESTS = 400, PERIOD_NS = 1000000, LEAD_NS = 5000000, STALL_EVERY = 200 };

static pthread_mutex_t answering = PTHREAD_MUTEX_INITIALIZER;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static uint64_t first_ns, taken_ns[REQUESTS];
static unsigned answered, stall_ms;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t moment_ns) {
    struct timespec moment = {(time_t)(moment_ns / 1000000000u), (long)(moment_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL)) {}
}

// Reads until a line is whole; 0 when the other end is gone.
static int hear(int connection) {
    char byte = 0;
    while (byte != '\n')
        if (read(connection, &byte, 1) != 1) return 0;
    return 1;
}

static void *answer(void *connection) {
    int number = (int)(intptr_t)connection;
    while (hear(number)) {
        pthread_mutex_lock(&answering);
        if (++answered % STALL_EVERY == 0) sleep_until(now_ns() + stall_ms * 1000000u);
        pthread_mutex_unlock(&answering);
        if (write(number, "ok\n", 3) != 3) break;
    }
    close(number);
    return NULL;
}

static int serve(void) {
    pthread_t thread;
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, CONNECTIONS)) return 1;
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0 || pthread_create(&thread, NULL, answer, (void *)(intptr_t)connection)) return 1;
        pthread_detach(thread);
    }
}

static void *ask(void *which) {
    int connection = socket(AF_UNIX, SOCK_STREAM, 0);
    prctl(PR_SET_TIMERSLACK, 1);
    if (connect(connection, (struct sockaddr *)&address, sizeof address)) abort();
    for (size_t index = (size_t)(intptr_t)which; index < REQUESTS; index += CONNECTIONS) {
        uint64_t due_ns = first_ns + index * PERIOD_NS;
        sleep_until(due_ns);
        if (write(connection, "ask\n", 4) != 4 || !hear(connection)) abort();
        taken_ns[index] = now_ns() - due_ns;
    }
    close(connection);
    return NULL;
}

static int by_size(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

int main(int count, char **words) {
    pthread_t threads[CONNECTIONS];
    if (count != 4 || strlen(words[2]) >= sizeof address.sun_path) return 2;
    strcpy(address.sun_path, words[2]);
    if (!strcmp(words[1], "serve")) {
        stall_ms = (unsigned)atoi(words[3]);
        return serve();
    }
    first_ns = now_ns() + LEAD_NS;
    for (intptr_t i = 0; i < CONNECTIONS; i++)
        if (pthread_create(&threads[i], NULL, ask, (void *)i)) return 1;
    for (int i = 0; i < CONNECTIONS; i++) pthread_join(threads[i], NULL);
    qsort(taken_ns, REQUESTS, sizeof *taken_ns, by_size);
    printf("%llu\n", (unsigned long long)taken_ns[REQUESTS * (size_t)atoi(words[3]) / 100 - 1]);
    return 0;
}

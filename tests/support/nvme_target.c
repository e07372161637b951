/* SPDX-License-Identifier: Apache-2.0
 * An NVMe drive of 16 MiB over TCP (127.0.0.1:4420) that sleeps as the kernel tells it to: it takes the kernel's table
 * of autonomous power state transitions (APST), falls asleep after the idle time in it, and then needs EXIT_US for the
 * next request. With transitions off it stays awake. Field offsets: NVM Express base specification 2.0, TCP transport
 * specification 1.0. The kernel is trusted: what it sends is not checked.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NQN "nqn.2026-01.test:sleeper"
#define DISK (16 << 20)
#define SECTOR 512
#define INLINE 8192
#define STATES 5
#define ASLEEP 4
#define EXIT_US 9500
#define TABLE 256
#define INVALID_FIELD ((0x4000 | 2) << 1)

enum { IC_REQUEST = 0, IC_RESPONSE = 1, COMMAND = 4, RESPONSE = 5, DATA = 7, LAST = 4 };
static uint8_t disk[DISK], table[TABLE], body[INLINE + 4096];
static uint32_t configuration, transitions;
static long long last_used;

static void put16(uint8_t *at, uint16_t value) { value = htole16(value), memcpy(at, &value, 2); }
static void put32(uint8_t *at, uint32_t value) { value = htole32(value), memcpy(at, &value, 4); }
static void put64(uint8_t *at, uint64_t value) { value = htole64(value), memcpy(at, &value, 8); }
static uint16_t get16(const uint8_t *at) { return (uint16_t)(at[0] | at[1] << 8); }
static uint32_t get32(const uint8_t *at) { return get16(at) | (uint32_t)get16(at + 2) << 16; }
static uint64_t get64(const uint8_t *at) { return get32(at) | (uint64_t)get32(at + 4) << 32; }

static long long now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static int receive(int from, uint8_t *into, size_t bytes) {
    return bytes == 0 || recv(from, into, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

static void send_all(int to, const uint8_t *bytes, size_t left) {
    for (ssize_t done; left; bytes += done, left -= (size_t)done)
        if ((done = send(to, bytes, left, MSG_NOSIGNAL)) <= 0) return;
}

static void header(uint8_t *pdu, int type, int flags, int bytes, uint32_t data) {
    pdu[0] = (uint8_t)type, pdu[1] = (uint8_t)flags, pdu[2] = (uint8_t)bytes, pdu[3] = data ? (uint8_t)bytes : 0;
    put32(pdu + 4, (uint32_t)bytes + data);
}

static void respond(int to, uint16_t id, uint64_t result, int status) {
    uint8_t pdu[24] = {0};
    header(pdu, RESPONSE, 0, sizeof pdu, 0);
    put64(pdu + 8, result), put16(pdu + 20, id), put16(pdu + 22, (uint16_t)status);
    send_all(to, pdu, sizeof pdu);
}

static void respond_with(int to, uint16_t id, uint64_t result, const uint8_t *data, uint32_t bytes) {
    uint8_t pdu[24] = {0};
    header(pdu, DATA, LAST, sizeof pdu, bytes);
    put16(pdu + 8, id), put32(pdu + 16, bytes);
    send_all(to, pdu, sizeof pdu);
    send_all(to, data, bytes);
    respond(to, id, result, 0);
}

/* Three states that work and two that sleep, as those of the drive in micro-stutter's report. */
static void controller(uint8_t *told) {
    static const uint32_t states[STATES][4] = {
        {849, 0, 0, 0}, {440, 0, 0, 0}, {318, 0, 5, 200}, {400, 3, 2000, 1200}, {25, 3, 500, EXIT_US}};
    memcpy(told + 4, "1                   sleeper                                 1       ", 68);
    told[77] = 1, told[111] = 1, told[263] = STATES - 1, told[265] = 1, told[512] = 0x66, told[513] = 0x44;
    put16(told + 78, 1), put32(told + 80, 0x10201), put16(told + 320, 10), put16(told + 514, 32), put32(told + 516, 1);
    put32(told + 536, 1 | 1 << 20), strcpy((char *)told + 768, NQN);
    put32(told + 1792, (64 + INLINE) / 16), put32(told + 1796, 1), told[1803] = 1;
    for (int state = 0; state < STATES; state++) {
        uint8_t *at = told + 2048 + 32 * state;
        put16(at, (uint16_t)states[state][0]), at[3] = (uint8_t)states[state][1];
        put32(at + 4, states[state][2]), put32(at + 8, states[state][3]);
    }
}

static void identify(int to, uint16_t id, int what) {
    static uint8_t told[4096];
    memset(told, 0, sizeof told);
    if (what == 0) put64(told, DISK / SECTOR), put64(told + 8, DISK / SECTOR), told[120] = 1, told[130] = 9;
    if (what == 1) controller(told);
    if (what == 2) put32(told, 1);
    if (what > 2) respond(to, id, 0, INVALID_FIELD);
    else respond_with(to, id, 0, told, sizeof told);
}

static void fabrics(int to, uint16_t id, const uint8_t *command) {
    uint32_t property = get32(command + 44);
    if (command[4] == 1) respond(to, id, 1, 0);
    else if (command[4] == 0) {
        if (property == 0x14) configuration = get32(command + 48);
        respond(to, id, 0, 0);
    } else if (property == 0) respond(to, id, 31 | 1 << 16 | 10 << 24 | 1ULL << 37, 0);
    else if (property == 8) respond(to, id, 0x10201, 0);
    else if (property == 0x14) respond(to, id, configuration, 0);
    else if (property == 0x1c) respond(to, id, (configuration & 1) | (configuration & 0xc000 ? 8 : 0), 0);
    else respond(to, id, 0, INVALID_FIELD);
}

static void administer(int to, uint16_t id, const uint8_t *command) {
    uint8_t feature = command[40];
    if (command[0] == 0x06) identify(to, id, command[40]);
    else if (command[0] == 0x0c) return; /* an event to be told of: there is none */
    else if (command[0] == 0x18) respond(to, id, 0, 0);
    else if (command[0] == 0x09 && feature == 0x0c) {
        transitions = get32(command + 44) & 1, memcpy(table, body, TABLE), last_used = now();
        respond(to, id, 0, 0);
    } else if (command[0] == 0x09) respond(to, id, 0, 0); /* of queues: one of each */
    else if (command[0] == 0x0a && feature == 0x0c) respond_with(to, id, transitions, table, TABLE);
    else respond(to, id, 0, INVALID_FIELD);
}

/* The table has, of each state, the next one in bits 7:3 and the idle milliseconds before it in bits 31:8. */
static int state_now(void) {
    long long idle_ms = (now() - last_used) / 1000000;
    int state = 0;
    for (uint64_t entry; transitions && (entry = get64(table + 8 * state)) >> 8; state = (int)(entry >> 3 & 31)) {
        idle_ms -= (long long)(entry >> 8 & 0xffffff);
        if (idle_ms < 0) break;
    }
    return state;
}

static void serve(int to, uint16_t id, const uint8_t *command) {
    uint64_t begin = get64(command + 40) * SECTOR;
    uint32_t bytes = (get16(command + 48) + 1U) * SECTOR;
    if (state_now() == ASLEEP) usleep(EXIT_US);
    last_used = now();
    if (command[0] == 2) respond_with(to, id, 0, disk + begin, bytes);
    else {
        if (command[0] == 1) memcpy(disk + begin, body, bytes);
        respond(to, id, 0, 0);
    }
}

/* One message of a queue; 0 at its end. */
static int answer(int queue, int is_admin) {
    uint8_t pdu[128] = {0};
    if (!receive(queue, pdu, 8) || !receive(queue, pdu + 8, pdu[2] - 8U)) return 0;
    if (pdu[0] == IC_REQUEST) {
        memset(pdu, 0, sizeof pdu);
        header(pdu, IC_RESPONSE, 0, sizeof pdu, 0), put32(pdu + 12, 1 << 20);
        send_all(queue, pdu, sizeof pdu);
        return 1;
    }
    uint32_t bytes = get32(pdu + 4) - pdu[2];
    if (pdu[0] != COMMAND || bytes > sizeof body || !receive(queue, body, bytes)) return 0;
    const uint8_t *command = pdu + 8;
    uint16_t id = get16(command + 2);
    if (command[0] == 0x7f) fabrics(queue, id, command);
    else if (is_admin) administer(queue, id, command);
    else serve(queue, id, command);
    return 1;
}

int main(void) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(4420), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listening = socket(AF_INET, SOCK_STREAM, 0), count = 1;
    if (bind(listening, (struct sockaddr *)&here, sizeof here) || listen(listening, 4)) return 3;
    if (daemon(1, 1)) return 4;
    struct pollfd of[3] = {{.fd = listening, .events = POLLIN}}; /* then the administration, then the requests */
    while (poll(of, (nfds_t)count, -1) > 0) {
        for (int queue = 1; queue < count; queue++)
            if (of[queue].revents && !answer(of[queue].fd, queue == 1)) return 0;
        if (of[0].revents && count < 3) of[count++] = (struct pollfd){.fd = accept(listening, 0, 0), .events = POLLIN};
    }
    return 5;
}

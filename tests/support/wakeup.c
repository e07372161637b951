// SPDX-License-Identifier: Apache-2.0
// Two threads: prints the median time in nanoseconds from the waker's stamp to the sleeper's running.
//
// futex, pipe, eventfd (which epoll waits for): how the sleeper is woken.
// timer: the waker sleeps by its own timer until each moment, stamps and wakes: the agent's order.
// closed: the sleeper sleeps by its timer, wakes the waker, which stamps and wakes the sleeper: schbench's order.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 150, PERIOD_NS = 1000000 };

static _Atomic uint32_t to_sleeper, to_waker;
static _Atomic uint64_t stamp_ns;
static int closed, to_read = -1, to_write = -1, epoll = -1;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t moment_ns) {
    struct timespec moment = {(time_t)(moment_ns / 1000000000u), (long)(moment_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL)) {}
}

static void ring(_Atomic uint32_t *bell) {
    atomic_fetch_add(bell, 1);
    syscall(SYS_futex, bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void hear(_Atomic uint32_t *bell, uint32_t heard) {
    while (atomic_load(bell) == heard) syscall(SYS_futex, bell, FUTEX_WAIT_PRIVATE, heard, NULL, NULL, 0);
}

// A word of eight bytes goes through an eventfd, one byte through a pipe.
static size_t word(void) {
    return epoll >= 0 ? 8 : 1;
}

static void prepare(const char *kind) {
    int ends[2];
    if (!strcmp(kind, "pipe") && !pipe(ends)) {
        to_read = ends[0];
        to_write = ends[1];
    } else if (!strcmp(kind, "eventfd")) {
        struct epoll_event event = {.events = EPOLLIN};
        to_read = to_write = eventfd(0, EFD_SEMAPHORE);
        epoll = epoll_create1(0);
        epoll_ctl(epoll, EPOLL_CTL_ADD, to_read, &event);
    }
}

static void ring_sleeper(void) {
    uint64_t one = 1;
    if (to_write < 0) ring(&to_sleeper);
    else if (write(to_write, &one, word()) < 0) abort();
}

static void hear_ring(uint32_t heard) {
    struct epoll_event event;
    uint64_t read_now;
    if (to_read < 0) {
        hear(&to_sleeper, heard);
        return;
    }
    if (epoll >= 0 && epoll_wait(epoll, &event, 1, -1) < 1) abort();
    if (read(to_read, &read_now, word()) < 0) abort();
}

static void *wake(void *unused) {
    prctl(PR_SET_TIMERSLACK, 1);
    uint64_t first_ns = now_ns() + 5 * PERIOD_NS;
    for (uint32_t i = 0; i < COUNT; i++) {
        if (closed) hear(&to_waker, i);
        else sleep_until(first_ns + (uint64_t)i * PERIOD_NS);
        atomic_store(&stamp_ns, now_ns());
        ring_sleeper();
    }
    return unused;
}

static int by_size(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

int main(int count, char **words) {
    static uint64_t taken_ns[COUNT];
    pthread_t waker;
    uint32_t found = 0, heard = 0;
    if (count != 3) return 2;
    closed = !strcmp(words[1], "closed");
    prepare(words[2]);
    pthread_create(&waker, NULL, wake, NULL);
    while (heard < COUNT) {
        if (closed) {
            sleep_until(now_ns() + PERIOD_NS);
            ring(&to_waker);
        }
        hear_ring(heard);
        taken_ns[found++] = now_ns() - atomic_load(&stamp_ns);
        heard = to_read < 0 ? atomic_load(&to_sleeper) : heard + 1;
    }
    pthread_join(waker, NULL);
    qsort(taken_ns, found, sizeof *taken_ns, by_size);
    printf("%llu\n", (unsigned long long)taken_ns[found / 2]);
    return 0;
}

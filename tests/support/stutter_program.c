/* SPDX-License-Identifier: Apache-2.0
 * A program with frames, and what holds it up, for guests that have no Python:
 *   frames memory MIB | frames file NAME   one line a frame: its end on CLOCK_MONOTONIC and its length, in nanoseconds
 *   fill NAME MIB ONCE                     reads holes of a file in bursts, ONCE MiB before the first
 *   write NAME MIB                         writes in bursts
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS 50000000LL
#define PAGE 4096
#define BLOCK (1 << 20)
#define LOG (32 << 20)
static char block[BLOCK] __attribute__((aligned(PAGE)));

static long long now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void until(long long at) {
    struct timespec to = {at / 1000000000LL, at % 1000000000LL};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &to, 0);
}

static int frames(char **word) {
    struct sched_param ahead = {.sched_priority = 10};
    size_t wanted = strcmp(word[0], "memory") ? 0 : (size_t)atol(word[1]) << 20;
    int file = wanted ? -1 : open(word[1], O_WRONLY | O_CREAT, 0644);
    /* Not one place again and again: only pages that were clean count as dirtied, and only who dirties is held up. */
    off_t place = 0;
    /* The kernel lets a writer at real-time priority have more dirty pages than others. */
    if (wanted) sched_setscheduler(0, SCHED_FIFO, &ahead);
    for (long long last = now(), due = last;;) {
        due = due + PERIOD_NS > last ? due + PERIOD_NS : last;
        until(due);
        if (wanted) {
            char *fresh = mmap(0, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (fresh == MAP_FAILED) return 1;
            madvise(fresh, wanted, MADV_NOHUGEPAGE);
            for (size_t at = 0; at < wanted; at += PAGE) fresh[at] = 1;
            munmap(fresh, wanted);
        } else if (pwrite(file, block, 16 * PAGE, (place += 16 * PAGE) % LOG) < 0) {
            return 1;
        }
        long long end = now();
        printf("%lld %lld\n", end, end - last);
        fflush(stdout);
        last = end;
    }
}

static void wait_a_while(void) {
    struct timespec some = {1, 500000000L + random() % 1000000000L};
    if (some.tv_nsec >= 1000000000L) some.tv_sec++, some.tv_nsec -= 1000000000L;
    nanosleep(&some, 0);
}

static int fill(char **word) {
    int file = open(word[0], O_RDWR | O_CREAT, 0644);
    if (file < 0 || ftruncate(file, 1LL << 36)) return 1;
    for (long at = 0; at < atol(word[2]); at++)
        if (read(file, block, BLOCK) != BLOCK) return 1;
    for (;;) {
        wait_a_while();
        for (long at = 0; at < atol(word[1]); at++)
            if (read(file, block, BLOCK) != BLOCK) return 1;
    }
}

static int write_much(char **word) {
    int file = open(word[0], O_WRONLY | O_CREAT, 0644);
    for (;;) {
        wait_a_while();
        for (long at = 0; at < atol(word[1]); at++)
            if (pwrite(file, block, BLOCK, at * BLOCK) != BLOCK) return 1;
    }
}

int main(int words, char **word) {
    if (words == 4 && !strcmp(word[1], "frames")) return frames(word + 2);
    if (words == 5 && !strcmp(word[1], "fill")) return fill(word + 2);
    if (words == 4 && !strcmp(word[1], "write")) return write_much(word + 2);
    return 2;
}

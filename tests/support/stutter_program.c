/* SPDX-License-Identifier: Apache-2.0
 * A program with frames, and what holds it up, for guests that have no Python:
 *   frames NAME      writes a file; one line a frame: its end on CLOCK_MONOTONIC and its length, in nanoseconds
 *   write NAME MIB   writes in bursts
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    int file = open(word[0], O_WRONLY | O_CREAT, 0644);
    /* Not one place again and again: only pages that were clean count as dirtied, and only who dirties is held up. */
    off_t place = 0;
    for (long long last = now(), due = last;;) {
        due = due + PERIOD_NS > last ? due + PERIOD_NS : last;
        until(due);
        if (pwrite(file, block, 4 * PAGE, (place += 4 * PAGE) % LOG) < 0) return 1;
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

static int write_much(char **word) {
    int file = open(word[0], O_WRONLY | O_CREAT, 0644);
    for (;;) {
        wait_a_while();
        for (long at = 0; at < atol(word[1]); at++)
            if (pwrite(file, block, BLOCK, at * BLOCK) != BLOCK) return 1;
    }
}

int main(int words, char **word) {
    if (words == 3 && !strcmp(word[1], "frames")) return frames(word + 2);
    if (words == 4 && !strcmp(word[1], "write")) return write_much(word + 2);
    return 2;
}

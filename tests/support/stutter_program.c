/* SPDX-License-Identifier: Apache-2.0
 * A program with frames, and what holds it up now and then, for guests that have no Python:
 *   frames sleeps | cpu | device NAME | file NAME | memory MIB | reads NAME | reads_and_sleeps NAME
 *                    one line a frame: its end on CLOCK_MONOTONIC and its length, in nanoseconds
 *   write NAME MIB   writes in bursts
 *   spin             takes the CPU from everybody else, at real-time priority
 *   burn             the same as an ordinary program
 *   hog HELD MIB     holds memory for good, and takes more in bursts
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
#define STALL_NS 150000000LL
#define NAP_NS 10000000LL
#define PAGE 4096
#define BLOCK (1 << 20)
#define LOG (32 << 20)
static char block[BLOCK] __attribute__((aligned(PAGE)));
static int file;
static size_t wanted;

static long long now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void until(long long at) {
    struct timespec to = {at / 1000000000LL, at % 1000000000LL};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &to, 0);
}

static void at_priority(int priority) {
    struct sched_param ahead = {.sched_priority = priority};
    if (sched_setscheduler(0, SCHED_FIFO, &ahead)) exit(3);
}

static char *fresh(size_t bytes) {
    char *begin = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED) exit(4);
    madvise(begin, bytes, MADV_NOHUGEPAGE);
    return begin;
}

static void use(char *begin, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PAGE) *(size_t *)(begin + at) = at + 1;
}

/* Pages that a compressed swap has work with. */
static void fill(char *begin, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PAGE) memcpy(begin + at, block + at % BLOCK, PAGE / 2);
}

static void sleeps(void) {
    if (random() % 28 == 0) until(now() + STALL_NS);
}

static void nothing(void) {}

static void writes_a_device(void) {
    if (pwrite(file, block, PAGE, 0) != PAGE) exit(5);
}

/* Now and then, so that a drive was idle before. */
static int reads_a_device(void) {
    if (random() % 28) return 0;
    if (pread(file, block, PAGE, 0) != PAGE) exit(5);
    return 1;
}

static void reads(void) { reads_a_device(); }

static void reads_and_sleeps(void) {
    if (reads_a_device()) until(now() + NAP_NS);
}

/* Not one place again and again: only pages that were clean count as dirtied, and only who dirties is held up. */
static void writes_a_file(void) {
    static off_t place;
    if (pwrite(file, block, 4 * PAGE, (place += 4 * PAGE) % LOG) < 0) exit(5);
}

static void wants_memory(void) {
    char *begin = fresh(wanted);
    use(begin, wanted);
    munmap(begin, wanted);
}

static _Noreturn void frames(void (*work)(void)) {
    for (long long last = now(), due = last;;) {
        due = due + PERIOD_NS > last ? due + PERIOD_NS : last;
        until(due);
        work();
        long long end = now();
        printf("%lld %lld\n", end, end - last);
        fflush(stdout);
        last = end;
    }
}

static void wait_a_while(void) { until(now() + 1000000000LL + random() % 1000000000LL); }

static _Noreturn void write_much(const char *name, long mebibytes) {
    file = open(name, O_WRONLY | O_CREAT, 0644);
    for (;;) {
        wait_a_while();
        for (long at = 0; at < mebibytes; at++)
            if (pwrite(file, block, BLOCK, at * BLOCK) != BLOCK) exit(5);
    }
}

static _Noreturn void burn(void) {
    for (;;) {
        wait_a_while();
        for (long long end = now() + STALL_NS; now() < end;) {}
    }
}

static _Noreturn void spin(void) {
    at_priority(50);
    burn();
}

static _Noreturn void hog(size_t held, size_t more) {
    for (size_t at = 0; at < BLOCK; at++) block[at] = (char)random();
    char *begin = fresh(held);
    use(begin, held);
    if (mlock(begin, held)) exit(6);
    for (;;) {
        wait_a_while(), wait_a_while();
        begin = fresh(more);
        fill(begin, more);
        munmap(begin, more);
    }
}

/* Frames that run ahead of who else is there: only what they themselves wait for holds them up. */
static void ahead(const char *work, const char *of) {
    at_priority(10);
    if (!strcmp(work, "sleeps")) frames(sleeps);
    if (!strcmp(work, "device") && (file = open(of, O_WRONLY | O_DIRECT)) >= 0) frames(writes_a_device);
    if (!strncmp(work, "reads", 5) && (file = open(of, O_RDONLY | O_DIRECT)) >= 0)
        frames(strcmp(work, "reads") ? reads_and_sleeps : reads);
    if (!strcmp(work, "memory") && (wanted = (size_t)atol(of) << 20) && !mlockall(MCL_CURRENT)) frames(wants_memory);
}

int main(int words, char **word) {
    const char *role = words > 1 ? word[1] : "", *first = words > 2 ? word[2] : "", *second = words > 3 ? word[3] : "";
    if (!strcmp(role, "write")) write_much(first, atol(second));
    if (!strcmp(role, "hog")) hog((size_t)atol(first) << 20, (size_t)atol(second) << 20);
    if (!strcmp(role, "spin")) spin();
    if (!strcmp(role, "burn")) burn();
    if (strcmp(role, "frames")) return 2;
    if (!strcmp(first, "cpu")) frames(nothing);
    if (!strcmp(first, "file") && (file = open(second, O_WRONLY | O_CREAT, 0644)) >= 0) frames(writes_a_file);
    ahead(first, second);
    return 2;
}

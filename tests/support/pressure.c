// SPDX-License-Identifier: Apache-2.0
// Draws 500 frames a second for 0.3 s beside a thread that reads a file and one that takes 8 MiB 50 times a second.
//
// The first word is a folder for the file. Prints what the second names:
// frames: the median time in nanoseconds from the moment at which a frame was due to its end;
// bursts: the median time that memory was taken in;
// read: the bytes that were read per second.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES = 32 << 20, READ_BYTES = 1 << 20, BURST_BYTES = 8 << 20, BURSTS_PER_S = 50 };
enum { FRAMES_PER_S = 500, FRAME_READ_BYTES = 64 << 10, FRAME_WRITE_BYTES = 256 << 10, MOST = 1000 };
static const uint64_t SECOND_NS = 1000000000, DURATION_NS = 300000000;

struct times {
    uint64_t taken_ns[MOST];
    size_t count;
};
static struct times frames, bursts;
static uint64_t start_ns, read_bytes;
static int file;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t moment_ns) {
    struct timespec moment = {(time_t)(moment_ns / 1000000000u), (long)(moment_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL)) {}
}

// Maps memory, writes to each of its pages, and gives it back.
static void take(size_t bytes) {
    volatile char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    for (size_t at = 0; at < bytes; at += (size_t)sysconf(_SC_PAGESIZE)) memory[at] = 1;
    munmap((void *)memory, bytes);
}

static void *draw(void *unused) {
    char *buffer = malloc(FRAME_READ_BYTES);
    for (uint64_t frame = 0; frame < DURATION_NS * FRAMES_PER_S / SECOND_NS; frame++) {
        uint64_t due_ns = start_ns + frame * SECOND_NS / FRAMES_PER_S;
        sleep_until(due_ns);
        off_t place = (off_t)(frame * 0x9e3779b97f4a7c15u % (FILE_BYTES - FRAME_READ_BYTES));
        if (pread(file, buffer, FRAME_READ_BYTES, place) != FRAME_READ_BYTES) abort();
        take(FRAME_WRITE_BYTES);
        frames.taken_ns[frames.count++] = now_ns() - due_ns;
    }
    return unused;
}

static void *burst(void *unused) {
    for (uint64_t index = 0; index < DURATION_NS * BURSTS_PER_S / SECOND_NS; index++) {
        sleep_until(start_ns + index * SECOND_NS / BURSTS_PER_S);
        uint64_t began_ns = now_ns();
        take(BURST_BYTES);
        bursts.taken_ns[bursts.count++] = now_ns() - began_ns;
    }
    return unused;
}

static void *stream(void *unused) {
    char *buffer = malloc(READ_BYTES);
    off_t place = 0;
    while (now_ns() < start_ns + DURATION_NS) {
        ssize_t got = pread(file, buffer, READ_BYTES, place);
        if (got < 0) abort();
        read_bytes += (uint64_t)got;
        place = got ? place + got : 0;
    }
    return unused;
}

static int by_size(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static double median(struct times *found) {
    qsort(found->taken_ns, found->count, sizeof *found->taken_ns, by_size);
    return (double)found->taken_ns[found->count / 2];
}

int main(int count, char **words) {
    void *(*const jobs[])(void *) = {draw, burst, stream};
    pthread_t threads[3];
    if (count != 3) return 2;
    file = open(words[1], O_RDWR | O_TMPFILE, 0600);
    if (file < 0 || ftruncate(file, FILE_BYTES)) return 1;
    start_ns = now_ns();
    for (int i = 0; i < 3; i++)
        if (pthread_create(&threads[i], NULL, jobs[i], NULL)) return 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    double took_ns = (double)(now_ns() - start_ns);
    if (!strcmp(words[2], "frames")) printf("%.0f\n", median(&frames));
    else if (!strcmp(words[2], "bursts")) printf("%.0f\n", median(&bursts));
    else printf("%.0f\n", (double)read_bytes * 1e9 / took_ns);
    return 0;
}

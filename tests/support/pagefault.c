// SPDX-License-Identifier: Apache-2.0
// Maps 4 MiB, touches every page once, unmaps, again and again for 0.1 s: prints the pages that it touched per second.
//
// anonymous: memory of no file, without huge pages; huge: with them; file: a file in the page cache, whose path is the second word.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 4 << 20, PIECE = 1 << 20 };

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(int count, char **words) {
    static char bytes[BYTES];
    int file = -1, huge = count > 1 && strcmp(words[1], "huge") == 0;
    long page = sysconf(_SC_PAGESIZE);
    uint64_t pages = 0;
    if (count == 3) {
        file = open(words[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
        // Holes that were read: what is written at once lies in larger pieces of memory, which one fault maps more of.
        if (file < 0 || ftruncate(file, BYTES)) return 1;
        for (int at = 0; at < BYTES; at += PIECE)
            if (pread(file, bytes, PIECE, at) != PIECE) return 1;
    }
    uint64_t start_ns = now_ns(), end_ns = start_ns;
    while ((end_ns = now_ns()) - start_ns < 100000000u) {
        int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
        volatile char *memory = mmap(NULL, BYTES, PROT_READ | (file < 0 ? PROT_WRITE : 0), flags, file, 0);
        if (memory == MAP_FAILED) return 1;
        if (file < 0) madvise((void *)memory, BYTES, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        for (long at = 0; at < BYTES; at += page, pages++) {
            if (file < 0) memory[at] = 1;
            else (void)memory[at];
        }
        munmap((void *)memory, BYTES);
    }
    printf("%.1f\n", (double)pages * 1e9 / (double)(end_ns - start_ns));
    return 0;
}

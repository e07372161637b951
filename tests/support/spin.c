// SPDX-License-Identifier: Apache-2.0
// Computes for 0.1 s as the agent's load `spin` does, in one thread: prints the rounds that it did per second.
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { STEPS = 1 << 15 };

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(void) {
    uint64_t start_ns = now_ns(), end_ns = start_ns, state = start_ns | 1, rounds = 0;
    while ((end_ns = now_ns()) - start_ns < 100000000u) {
        for (int step = 0; step < STEPS; step++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        __asm__ volatile("" : "+r"(state));
        rounds++;
    }
    printf("%.3f\n", (double)rounds * 1e9 / (double)(end_ns - start_ns));
    return 0;
}

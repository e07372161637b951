// SPDX-License-Identifier: Apache-2.0
// A stand-in for the library of NVIDIA's driver: two cards, of which the second tells its load alone.
#include <stdio.h>
#include <string.h>

static int init_status, count = 2, lost, reads, closed;

void fake_set(int status, int cards) {
    init_status = status;
    count = cards;
    lost = reads = closed = 0;
}
void fake_lose(int after) { lost = after; }
int fake_closed(void) { return closed; }

static int of_first(void *card) { return card == (void *)1 ? 0 : 3; }

int nvmlInit_v2(void) { return init_status; }
int nvmlShutdown(void) {
    closed++;
    return 0;
}
const char *nvmlErrorString(int status) {
    return status == 9 ? "Driver Not Loaded" : status == 15 ? "GPU is lost" : "Unknown Error";
}
int nvmlDeviceGetCount_v2(unsigned *found) {
    *found = (unsigned)count;
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned number, void **card) {
    *card = (void *)(unsigned long)(number + 1);
    return 0;
}
int nvmlDeviceGetName(void *card, char *name, unsigned length) {
    snprintf(name, length, "Fake %lu \x1b[2J", (unsigned long)card);
    return 0;
}
int nvmlDeviceGetUtilizationRates(void *card, unsigned load[2]) {
    if (lost && ++reads > lost) return 15;
    load[0] = card == (void *)1 ? 75 : 5;
    load[1] = 40;
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *card, unsigned long long memory[3]) {
    memory[0] = 8ULL << 30;
    memory[1] = 5ULL << 30;
    memory[2] = 3ULL << 30;
    return of_first(card);
}
int nvmlDeviceGetPowerUsage(void *card, unsigned *milliwatts) {
    *milliwatts = 123456;
    return of_first(card);
}
int nvmlDeviceGetClockInfo(void *card, int which, unsigned *megahertz) {
    *megahertz = which == 0 ? 1800 : 7000;
    return of_first(card);
}

// SPDX-License-Identifier: Apache-2.0
// Stands for `su` of a phone, as Magisk and KernelSU have it (`su -c WORDS…`) or as Android's own (`su 0 WORDS…`).
// The file /su on the phone says which: `magisk`, `aosp` or `denied`.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words)
{
    char kind[16] = "", line[4096] = "";
    int file = open("/su", O_RDONLY);
    if (file < 0 || read(file, kind, sizeof(kind) - 1) < 1)
        return 1;
    if (!strncmp(kind, "denied", 6)) {
        fputs("Permission denied\n", stderr);
        return 13;
    }
    if (count == 2 && !strcmp(words[1], "-v")) {
        if (!strncmp(kind, "magisk", 6))
            puts("27.0:MAGISKSU");
        return strncmp(kind, "magisk", 6) != 0;
    }
    if (setgid(0) || setuid(0))
        return 2;
    if (!strncmp(kind, "magisk", 6)) {
        if (count < 3 || strcmp(words[1], "-c")) {
            fputs("su: invalid option\n", stderr);
            return 2;
        }
        for (int i = 2; i < count; i++) {
            strncat(line, words[i], sizeof(line) - strlen(line) - 2);
            strcat(line, " ");
        }
        execl("/system/bin/sh", "sh", "-c", line, NULL);
        return 127;
    }
    if (count < 3 || strcmp(words[1], "0")) {
        fputs("su: invalid uid/gid '-c'\n", stderr);
        return 1;
    }
    execvp(words[2], words + 2);
    perror("su: failed to exec");
    return 1;
}

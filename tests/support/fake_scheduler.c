/* SPDX-License-Identifier: Apache-2.0
 * A scheduler that schedules nothing: writes "enabled NAME" to files as long as it runs. usage: by its environment. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static void put(const char *variable, const char *text)
{
	FILE *file = fopen(getenv(variable), "w");

	if (!file || fputs(text, file) < 0 || fclose(file))
		exit(1);
}

int main(void)
{
	sigset_t ends;
	int number;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	put("FAKE_VALUE", VALUE);
	put("SCX_STATE", "enabled\n");
	sigwait(&ends, &number);
	put("SCX_STATE", "disabled\n");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the scheduler of a BPF object in force as long as this process lives: `loader OBJECT`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/bpf.h>
#include <bpf/libbpf.h>

/* Of kernels that are newer than the headers of Debian 12. */
#define STRUCT_OPS_LINK 44
#define FLAG_LINK (1U << 13)

static int failed(const char *what)
{
	fprintf(stderr, "cannot %s: %s\n", what, strerror(errno));
	return 1;
}

int main(int argc, char **argv)
{
	struct bpf_object *object = argc == 2 ? bpf_object__open_file(argv[1], NULL) : NULL;
	struct bpf_map *ops = object ? bpf_object__find_map_by_name(object, "ops") : NULL;
	struct bpf_program *init = object ? bpf_object__find_program_by_name(object, "init") : NULL;
	struct {
		__u32 map, target, type, flags;
	} link = {0};

	if (!ops)
		return failed("open the object");
	/* `init` may sleep; the libbpf of Debian 12 knows no section name for that. */
	if (init)
		bpf_program__set_flags(init, BPF_F_SLEEPABLE);
	/* Without a link, a scheduler would outlive its process. */
	if (bpf_map__set_map_flags(ops, FLAG_LINK) || bpf_object__load(object))
		return failed("load the scheduler");
	if (!bpf_map__attach_struct_ops(ops))
		return failed("describe the scheduler");
	link.map = bpf_map__fd(ops);
	link.type = STRUCT_OPS_LINK;
	if (syscall(SYS_bpf, BPF_LINK_CREATE, &link, sizeof(link)) < 0)
		return failed("put the scheduler in force");
	for (;;)
		pause();
}

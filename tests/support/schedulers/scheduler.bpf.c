/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Four small sched_ext schedulers for tests, one for each value of KIND. The kernel accepts struct_ops programs under
 * a licence that is compatible with the GPL only. Types are declared as far as they are used; libbpf looks up the rest
 * in the BTF of the running kernel.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define FIFO 1  /* all tasks wait in one queue */
#define SLOW 2  /* one queue too, but each switch of tasks wastes time, and a task keeps its CPU for long */
#define EJECT 3 /* reports an error of its own after some switches */
#define HANG 4  /* never runs a task: the kernel's watchdog ejects it */

#define DSQ_GLOBAL ((1ULL << 63) | 1)
#define SLICE_DEFAULT (20 * 1000 * 1000ULL)
#define SLICE_LONG (200 * 1000 * 1000ULL)
#define OWN_QUEUE 0
/* Turns of the loop that wastes time, and switches of tasks before the error. */
#define WASTED 6000
#define MOST_SWITCHES 60

struct task_struct {
	int pid;
} __attribute__((preserve_access_index));

struct sched_ext_ops {
	void (*enqueue)(struct task_struct *task, __u64 flags);
	void (*stopping)(struct task_struct *task, _Bool runnable);
	__s32 (*init)(void);
	__u32 timeout_ms;
	char name[128];
};

extern void scx_bpf_dsq_insert(struct task_struct *task, __u64 queue, __u64 slice, __u64 flags) __ksym;
extern __s32 scx_bpf_create_dsq(__u64 queue, __s32 node) __ksym;
extern void scx_bpf_error_bstr(char *format, unsigned long long *data, __u32 data__sz) __ksym;

char _license[] SEC("license") = "GPL";

__u64 switches;
__u64 wasted;
unsigned long long words[1];
char told[] = "as planned";

SEC("struct_ops/enqueue")
int BPF_PROG(enqueue, struct task_struct *task, __u64 flags)
{
#if KIND == HANG
	scx_bpf_dsq_insert(task, OWN_QUEUE, SLICE_DEFAULT, flags);
#elif KIND == SLOW
	scx_bpf_dsq_insert(task, DSQ_GLOBAL, SLICE_LONG, flags);
#else
	scx_bpf_dsq_insert(task, DSQ_GLOBAL, SLICE_DEFAULT, flags);
#endif
	return 0;
}

#if KIND == SLOW
static int waste(__u32 turn, void *nothing)
{
	__sync_fetch_and_add(&wasted, 1);
	return 0;
}
#endif

#if KIND == SLOW || KIND == EJECT
SEC("struct_ops/stopping")
int BPF_PROG(stopping, struct task_struct *task, _Bool runnable)
{
#if KIND == EJECT
	if (++switches > MOST_SWITCHES)
		scx_bpf_error_bstr(told, words, sizeof(words));
#else
	bpf_loop(WASTED, waste, 0, 0);
#endif
	return 0;
}
#endif

#if KIND == HANG
SEC("struct_ops/init")
int BPF_PROG(init)
{
	return scx_bpf_create_dsq(OWN_QUEUE, -1);
}
#endif

SEC(".struct_ops")
struct sched_ext_ops ops = {
	.enqueue = (void *)enqueue,
#if KIND == SLOW || KIND == EJECT
	.stopping = (void *)stopping,
#endif
#if KIND == HANG
	.init = (void *)init,
	.timeout_ms = 3000,
#endif
	.name = NAME,
};

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from ktrial.machine.kernel_log import KernelLog, KernelRecord, new_lines
from ktrial.machine.watch_kernel_log import KernelLogWatch, log_patterns
from tests.support.machine import FakeMachine


def answer(oldest: int | None, newest: int | None, text: Any = "") -> dict[str, Any]:
    return {"oldest": oldest, "newest": newest, "log": text, "truncated": False}


def test_the_second_look_asks_for_what_is_new() -> None:
    machine = FakeMachine({})
    watch = KernelLogWatch(machine)
    machine.answers["kernel_log"] = answer(0, 9)
    watch.begin()
    machine.answers["kernel_log"] = answer(0, 10, "3,10,5,-;EXT4-fs error (device sda1): bad\n")
    found = watch.end()
    assert machine.requests == [("kernel_log", {}), ("kernel_log", {"from": 10})]
    assert [(line.kind, line.number) for line in found.lines] == [("io-error", 10)]


def test_an_empty_log_is_read_from_its_beginning() -> None:
    machine = FakeMachine({})
    watch = KernelLogWatch(machine)
    machine.answers["kernel_log"] = answer(None, None)
    watch.begin()
    machine.answers["kernel_log"] = answer(0, 0, {"base64": "NCwwLDUsLTvD"})
    assert [line.text for line in watch.end().lines] == ["\N{REPLACEMENT CHARACTER}"]
    assert machine.requests[1] == ("kernel_log", {"from": 0})


@pytest.mark.parametrize("second", [{"unreadable": "read /dev/kmsg: no"}, answer(0, 10, "no record\n")])
def test_a_log_that_cannot_be_read_is_told(second: dict[str, Any]) -> None:
    machine = FakeMachine({})
    watch = KernelLogWatch(machine)
    machine.answers["kernel_log"] = answer(0, 9)
    watch.begin()
    machine.answers["kernel_log"] = second
    assert "cannot read" in (watch.end().could_not_tell or "")
    assert KernelLogWatch(machine).end().could_not_tell is not None


@pytest.mark.parametrize(
    "text, kind",
    [
        ("CPU0: Core temperature above threshold, cpu clock throttled (total events = 1)", "throttling"),
        ("CPU2: Package temperature is above threshold, cpu clock is throttled (total events = 1)", "throttling"),
        ("CPU0: Core temperature/speed normal", "throttling"),
        ("CPU0: Package power limit notification (total events = 355)", "throttling"),
        ("oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=x,pid=1,uid=0", "oom-kill"),
        ("Out of memory: Killed process 123 (x) total-vm:1kB", "oom-kill"),
        ("Memory cgroup out of memory: Killed process 123 (x)", "oom-kill"),
        ("INFO: task jbd2/sda1-8:123 blocked for more than 120 seconds.", "hung-task"),
        ("watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [poweroff:965]", "stall"),
        ("rcu: INFO: rcu_preempt self-detected stall on CPU", "stall"),
        ("rcu: INFO: rcu_sched detected stalls on CPUs/tasks:", "stall"),
        ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 10", "stall"),
        ("I/O error, dev nvme0c0n1, sector 218630656 op 0x1:(WRITE) flags 0x2008800", "io-error"),
        ("Buffer I/O error on dev sda1, logical block 7, lost async page write", "io-error"),
        ("nvme nvme0: I/O tag 641 (c281) opcode 0x1 (I/O Cmd) QID 8 timeout, aborting req_op:WRITE(1)", "io-error"),
        ("nvme nvme0: I/O 12 QID 3 timeout, completion polled", "io-error"),
        ("nvme nvme0: controller is down; will reset: CSTS=0x3, PCI_STATUS=0x10", "io-error"),
        ("WARNING: CPU: 0 PID: 1 at kernel/sched/core.c:1 x+0x1/0x2", "warning"),
        ("mce: [Hardware Error]: Machine check events logged", "warning"),
        ("perf: interrupt took too long (2503 > 2500), lowering kernel.perf_event_max_sample_rate", None),
        ("systemd[1]: Started something.", None),
        ("audit: type=1400 audit(1.0:1): apparmor=DENIED", None),
        ("ktrial-agent (17130): drop_caches: 3", None),
        ("zram1: detected capacity change from 0 to 524288", None),
    ],
)
def test_lines_of_kernels_have_their_kind_whatever_their_severity(text: str, kind: str | None) -> None:
    for level in (4, 6):
        log = KernelLog(oldest=0, newest=1, records=(KernelRecord(1, level, 0, text),))
        lines = new_lines(KernelLog(oldest=0, newest=0), log, log_patterns()).lines
        assert [line.kind for line in lines] == ([] if kind is None else [kind])


def test_every_harmless_line_has_its_reason() -> None:
    assert all(bool(entry.why) == (entry.kind is None) for entry in log_patterns())
    assert len({entry.pattern for entry in log_patterns()}) == len(log_patterns())

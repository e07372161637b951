# SPDX-License-Identifier: Apache-2.0
"""Measures how long a kernel takes to boot in a guest, and which steps take longest."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from ktrial.bench.guest_tools import GuestBootTime, GuestFailed, GuestPlace, GuestRun, GuestTool, InitCall, Job
from ktrial.guests.agent_replies import read_replies
from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import with_hint
from ktrial.kit.json_bytes import read_bytes
from ktrial.machine.kernel_log import KernelRecord, read_kmsg

#: Kernel arguments that make the kernel log its initcalls, in a log with enough room for them.
WORDS = ("initcall_debug", "log_buf_len=8M")

_CALL = re.compile(
    r"initcall ([\w.]{1,200})\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[[\w-]+\])? returned -?\d+ after (\d{1,12}) usecs"
)
_INIT = re.compile(r"Run /\S* as init process")


def read_initcalls(records: Iterable[KernelRecord]) -> tuple[InitCall, ...]:
    """Return the initcalls (start functions of the kernel) that the log shows, slowest first."""
    found = (_CALL.match(record.text) for record in records)
    calls = [InitCall(name=match[1], us=int(match[2])) for match in found if match is not None]
    return tuple(sorted(calls, key=lambda call: (-call.us, call.name)))


def kernel_us(records: Iterable[KernelRecord]) -> int | None:
    """Return the time at which the kernel started its first process; None if the log does not show it."""
    return next((record.at_us for record in records if _INIT.match(record.text)), None)


_FILE = "/ktrial/requests"
_REQUEST = 1


class BootsMeasured(Protocol):
    """Boots guests. A place is a kernel and the virtual machine that boots it."""

    def boot(self, place: GuestPlace, job: Job, files: Mapping[str, bytes]) -> GuestRun: ...


def boot_time(lab: BootsMeasured, place: GuestPlace, runs: int) -> GuestBootTime:
    """Boot `runs` times to measure the time until the first process, and once more to measure each initcall."""
    plain = [_good(lab.boot(place, Job(), {})) for _ in range(runs)]
    verbose = msgspec.structs.replace(place.shape, append=(*place.shape.append, *WORDS))
    request = msgspec.json.encode({"id": _REQUEST, "do": "kernel_log", "from": 0}) + b"\n"
    program = GuestTool(argv=("/usr/bin/ktrial-agent", "batch", "--role", "root", _FILE))
    run = _good(lab.boot(msgspec.structs.replace(place, shape=verbose), Job(programs=(program,)), {_FILE: request}))
    with with_hint("run the command again"):
        reply = read_replies(run.stdout).get(_REQUEST)
    if reply is None or reply.ok is None or "log" not in reply.ok:
        why = reply.error.message if reply is not None and reply.error is not None else "the agent did not return it"
        raise BadRun(f"cannot read the guest's kernel log: {why}", hint="use a kernel with CONFIG_PRINTK=y")
    records = read_kmsg(read_bytes(reply.ok["log"]))
    begun = [one.begun for one in plain if one.begun is not None]
    return GuestBootTime(
        kernel=place.kernel,
        release=begun[0].release,
        mode=place.shape.mode,
        first_process_s=tuple(one.uptime_s for one in begun),
        median_s=statistics.median(one.uptime_s for one in begun),
        wall_s=statistics.median(one.wall_s for one in plain),
        told_first_process_s=run.begun.uptime_s if run.begun is not None else None,
        told_kernel_s=None if (us := kernel_us(records)) is None else us / 1e6,
        calls=read_initcalls(records),
        cut=bool(reply.ok.get("truncated")),
    )


def _good(run: GuestRun) -> GuestRun:
    if run.failure is not None or run.begun is None:
        raise GuestFailed(run.failure or "the guest ended before its first process ran", run.exit_status)
    return run

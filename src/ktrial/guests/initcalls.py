# SPDX-License-Identifier: Apache-2.0
"""What the kernel's own start cost, from the log of a kernel that was booted with `initcall_debug`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ktrial.bench.guest_tools import InitCall
from ktrial.machine.kernel_log import KernelRecord

#: What makes a kernel tell, and room in its log for that.
WORDS = ("initcall_debug", "log_buf_len=8M")
_CALL = re.compile(
    r"initcall ([\w.]{1,200})\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[[\w-]+\])? returned -?\d+ after (\d{1,12}) usecs"
)
_INIT = re.compile(r"Run /\S* as init process")


def read_initcalls(records: Iterable[KernelRecord]) -> tuple[InitCall, ...]:
    """The calls, the slowest first."""
    found = (_CALL.match(record.text) for record in records)
    calls = [InitCall(name=match[1], us=int(match[2])) for match in found if match is not None]
    return tuple(sorted(calls, key=lambda call: (-call.us, call.name)))


def kernel_us(records: Iterable[KernelRecord]) -> int | None:
    """When the kernel handed over to the first process; None where it does not say so."""
    return next((record.at_us for record in records if _INIT.match(record.text)), None)

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from ktrial.bench.guest_tools import GuestFailed, GuestPlace, GuestRun, GuestStart, Job, ProgramEnded, Shape
from ktrial.guests.boot_time import boot_time
from ktrial.guests.text import boot_time_text
from ktrial.kit.errors import BadRun

PLACE = GuestPlace(kernel="6.12", shape=Shape(mode="exact", memory_bytes=1 << 29, cpus=1, append=("nohz=off",)))
LOG = "6,1,100,-;initcall slow_init+0x0/0x30 returned 0 after 2500 usecs\n6,2,1300000,-;Run /init as init process\n"


class Lab:
    """Boots that take 1, 3, 2 s … to their first process."""

    def __init__(self, log: str | None = LOG, failure: str | None = None) -> None:
        self._log, self._failure = log, failure
        self.words: list[tuple[str, ...]] = []

    def boot(self, place: GuestPlace, job: Job, files: Mapping[str, bytes]) -> GuestRun:
        self.words.append(place.shape.append)
        uptime_s = (1.0, 3.0, 2.0, 4.0)[(len(self.words) - 1) % 4]
        begun = GuestStart(
            release="6.12.1",
            version="#1",
            architecture="x86_64",
            command_line="",
            uptime_s=uptime_s,
            cpus=1,
            memory_bytes=1,
        )
        ok = {"oldest": 0, "newest": 2, "log": self._log, "truncated": False}
        told = {"id": 1, "ok": ok} if self._log is not None else {"id": 1, "error": {"kind": "io", "message": "no"}}
        return GuestRun(
            shape=place.shape,
            emulator="QEMU",
            begun=begun,
            ended=ProgramEnded(status=0) if job.programs else None,
            stdout=msgspec.json.encode(told) + b"\n" if job.programs else b"",
            stderr=b"",
            console=b"",
            wall_s=5.0,
            failure=self._failure,
        )


def test_the_boot_is_timed_without_what_the_kernel_tells_of_it() -> None:
    lab = Lab()
    found = boot_time(lab, PLACE, 3)
    assert lab.words[:3] == [("nohz=off",)] * 3
    assert lab.words[3][:2] == ("nohz=off", "initcall_debug")
    assert (found.median_s, found.told_first_process_s, found.told_kernel_s) == (2.0, 4.0, 1.3)
    assert [(call.name, call.us) for call in found.calls] == [("slow_init", 2500)]
    text = boot_time_text(found, 10, width=80)
    assert "after 2.000 s of guest time, the median of 3 boots" in text
    assert "  2.5 ms  slow_init" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_boot_that_fails_is_no_time() -> None:
    with pytest.raises(GuestFailed, match="panicked") as raised:
        boot_time(Lab(failure="the kernel panicked: x"), PLACE, 1)
    assert "--limit" not in str(raised.value.hint), "more time would not help"


def test_a_log_that_is_not_handed_over_is_told() -> None:
    with pytest.raises(BadRun, match="cannot read the guest's kernel log: no"):
        boot_time(Lab(log=None), PLACE, 1)

# SPDX-License-Identifier: Apache-2.0
"""How many trial boots with a fault returned to the default entry: a record of each run of the lab, and a table.

The lab adds to the record only with `KTRIAL_RECORD=1`, and then every run, whatever its result.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from collections.abc import Iterable
from typing import Literal

import msgspec

from tests.support.boot_attempts import Attempts
from tests.support.boot_guest import BootGuest
from tests.support.debian_guest import CHECKOUT, CLONE

COUNTS = CHECKOUT / "docs" / "data" / "boot-counts.toml"
#: Marks around the table in `docs/boots.md`.
BEGIN, END = "<!-- boot counts -->\n", "<!-- end of boot counts -->\n"
#: After N attempts without a failure, the failure rate is at most this number divided by N, with 95 % confidence.
_RULE_OF_THREE = 3


class BootCount(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the lab: attempts with one fault, in one guest."""

    date: datetime.date
    commit: str
    firmware: Literal["grub-bios", "grub-efi", "systemd-boot"]
    loader: str
    kernel: str
    userland: Literal["script", "systemd"]
    fault: str
    attempts: int
    back: int
    #: Seconds of the attempts that returned to the default entry, from arming the entry to recording its end.
    seconds: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 0 <= self.back <= self.attempts or self.attempts == 0:
            raise ValueError(f"{self.back} of {self.attempts} attempts cannot have come back")


class _Counts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: list[BootCount] = []


def read_counts(text: str) -> list[BootCount]:
    """Parse the record. Raise ValidationError if it is invalid."""
    return msgspec.toml.decode(text, type=_Counts).run


def is_recording() -> bool:
    return bool(os.environ.get("KTRIAL_RECORD"))


def current_commit() -> str:
    """Return the newest commit of the files in the guest, with a `+` if files differ from the commit."""
    of_guest = ("src", "agent", "setup", "ktrial")
    changed = _git("status", "--porcelain", "--", *of_guest)
    return _git("log", "-1", "--format=%h", "--abbrev=10", "--", *of_guest) + ("+" if changed else "")


def _git(*words: str) -> str:
    argv = ["git", "-C", str(CHECKOUT), *words]
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def record_count(guest: BootGuest, userland: Literal["script", "systemd"], fault: str, made: Attempts) -> None:
    """Add a run in this guest to the record if requested. The guest must be in a boot that answers."""
    if not is_recording():
        return
    status = json.loads(guest.run(f"{CLONE}/ktrial boot status --json").out)
    count = BootCount(
        date=datetime.datetime.now(datetime.UTC).date(),
        commit=current_commit(),
        firmware=guest.loader,
        loader=status["version"],
        kernel=guest.run("uname -r").out.strip(),
        userland=userland,
        fault=fault,
        attempts=made.begun,
        back=made.back,
        seconds=made.took_s,
    )
    with COUNTS.open("a", encoding="utf-8") as file:
        file.write(f"\n[[run]]\n{count_text(count)}")


def count_text(count: BootCount) -> str:
    fields = msgspec.structs.asdict(count)
    return "".join(f"{name} = {_toml(value)}\n" for name, value in fields.items())


def _toml(value: object) -> str:
    return msgspec.json.encode(value).decode() if isinstance(value, (str, tuple)) else str(value)


def table(counts: Iterable[BootCount]) -> str:
    """Return the table of attempts per loader and fault, with the bound of failures per loader."""
    counts = tuple(counts)
    lines = ["| Loader | Fault | Userspace | Attempts | Came back |", "|---|---|---|---|---|"]
    groups: dict[tuple[str, str, str], list[BootCount]] = {}
    for one in sorted(counts, key=lambda one: (one.firmware, one.fault, one.userland)):
        groups.setdefault((one.firmware, one.fault, one.userland), []).append(one)
    for (firmware, fault, userland), found in groups.items():
        attempts, back = _sums(found)
        lines.append(f"| {firmware} | {fault} | {userland} | {attempts} | {back} |")
    lines += ["", "| Loader | Attempts | Came back | Failures, at most (95 %) |", "|---|---|---|---|"]
    for firmware in sorted({one.firmware for one in counts}):
        own = [one for one in counts if one.firmware == firmware]
        attempts, back = _sums(own)
        versions = ", ".join(sorted({one.loader for one in own}))
        lines.append(f"| {firmware} ({versions}) | {attempts} | {back} | {bound_text(attempts, back)} |")
    return "\n".join(lines) + "\n"


def _sums(counts: Iterable[BootCount]) -> tuple[int, int]:
    counts = tuple(counts)
    return sum(one.attempts for one in counts), sum(one.back for one in counts)


def bound_text(attempts: int, back: int) -> str:
    """Return the upper bound of the share of attempts that fail, at 95 % confidence: by the rule of three, or exact."""
    if back == attempts:
        return f"{min(1.0, _RULE_OF_THREE / attempts):.0%}".replace("%", " %")
    from scipy.stats import beta

    return f"{beta.ppf(0.95, attempts - back + 1, back) if back else 1.0:.0%}".replace("%", " %")


def with_table(page: str, counts: Iterable[BootCount]) -> str:
    """Return the page with the table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(counts)}\n{END}{after}"

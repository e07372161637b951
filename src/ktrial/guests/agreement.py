# SPDX-License-Identifier: Apache-2.0
"""Boots guests in the mode that works on this machine. Exact guests boot twice, because two boots must agree."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

import msgspec

from ktrial.bench.guest_tools import EXACT_SETTLE_S, GuestDiffers, GuestRun, Mode, Shape
from ktrial.kit.errors import KtrialError

#: How much of a line to show before and after the first different byte.
_AROUND_BYTES = 100
#: The time limit for a kernel to start its first process with a working KVM.
_KVM_BEGIN_S = 20.0
#: What two boots must have in common: fields of GuestRun, and their names for people.
_TEXTS = {"console": "the console", "stdout": "stdout", "stderr": "stderr", "said": "the agent's replies"}
_REPORTS = {
    "begun": "the report of the guest's start",
    "ended": "the report of the program's end",
    "failure": "the failure of the guest",
}
#: Two values that differ, in words.
_SIDES = "{} in one run and {} in another"


class Boots(Protocol):
    """Boots a kernel with a job in a guest of a given shape, for at most `limit_s`.

    `begin_limit_s` limits the time until the guest's first process.
    """

    def __call__(self, shape: Shape, limit_s: float, begin_limit_s: float | None = None) -> GuestRun: ...


class BootResult(msgspec.Struct, frozen=True, kw_only=True):
    """The boot to report; `no_kvm` is the reason if the guest was emulated because KVM is unusable.

    `twin_sha256` is the digest of two exact boots that agree; `odd` describes how another boot differed.
    """

    run: GuestRun
    no_kvm: str | None = None
    twin_sha256: str | None = None
    odd: str | None = None


def settle_s(mode: Mode | None) -> int:
    """Return the seconds before a guest starts its program. Exact guests wait for the kernel's own work after boot."""
    return EXACT_SETTLE_S if mode == "exact" else 0


class Stops(Protocol):
    """Ends the guests that it runs."""

    def stop(self) -> None: ...


class House(Stops, Protocol):
    """Ends guests, and finds out why KVM is unusable."""

    def why_no_kvm(self) -> str | None: ...


def boot_in(mode: Mode | None, shape: Shape, limit_s: float, boot: Boots, house: House) -> BootResult:
    """Boot in `mode` or, if it is None, in the fastest mode that works. Boot an exact guest twice.

    Raise KtrialError if the mode is `kvm` and KVM is unusable.
    """
    if mode == "exact":
        return boot_twice(shape, limit_s, boot, house)
    if mode == "emulated":
        return BootResult(run=boot(shape, limit_s))
    why = house.why_no_kvm()
    if why is None:
        run = boot(msgspec.structs.replace(shape, mode="kvm"), limit_s, _KVM_BEGIN_S if mode is None else None)
        if run.begun is not None or mode == "kvm":
            return BootResult(run=run)
        why = f"/dev/kvm works, but not with this kernel ({run.failure})"
    if mode == "kvm":
        raise KtrialError(f"cannot use KVM: {why}", hint="use --mode emulated")
    return BootResult(run=boot(msgspec.structs.replace(shape, mode="emulated"), limit_s), no_kvm=why)


def boot_twice(shape: Shape, limit_s: float, boot: Boots, house: Stops) -> BootResult:
    """Boot twice in parallel. If the boots differ in any byte, a third boot decides.

    Raise GuestDiffers if no two boots agree.
    """
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(boot, shape, limit_s) for _ in range(2)]
        try:
            first, second = (run.result() for run in runs)
        except BaseException:
            house.stop()
            raise
    agreed = agreement(first, second, lambda: boot(shape, limit_s))
    sha256 = None if agreed.run.limit_passed else digest(agreed.run)
    return BootResult(run=agreed.run, twin_sha256=sha256, odd=agreed.odd)


class Agreement(NamedTuple):
    """The boot to report. `odd` describes how another boot of the guest differed; None if no boot differed."""

    run: GuestRun
    odd: str | None = None


def agreement(first: GuestRun, second: GuestRun, again: Callable[[], GuestRun]) -> Agreement:
    """Return a boot that another boot of the same guest repeats. If `first` and `second` differ, boot a third time.

    If a time limit ended a boot, return that boot, because its difference is due to the limit and not to the guest.
    Raise GuestDiffers if no two boots agree.
    """
    found = difference(first, second)
    if found is None or first.limit_passed:
        return Agreement(first)
    if second.limit_passed or (third := again()).limit_passed:
        return Agreement(second if second.limit_passed else third)
    agreed = next((run for run in (first, second) if difference(run, third) is None), None)
    if agreed is None:
        raise GuestDiffers(
            f"three runs of the same exact guest differ: {found}",
            hint="run the same command again",
        )
    return Agreement(agreed, found)


def digest(run: GuestRun) -> str:
    """Return a hash of everything that a boot produced."""
    found = hashlib.sha256()
    for part in (
        run.console,
        run.stdout,
        run.stderr,
        run.said,
        msgspec.json.encode([run.begun, run.ended, run.failure]),
    ):
        found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()


def difference(first: GuestRun, second: GuestRun) -> str | None:
    """Return the first difference of two boots as a clause; None if the boots are equal."""
    for name, where in _TEXTS.items():
        one, other = (getattr(run, name).splitlines(keepends=True) for run in (first, second))
        for number in range(max(len(one), len(other))):
            left, right = (lines[number] if number < len(lines) else b"" for lines in (one, other))
            if left != right:
                begin = max(0, _same(left, right) - _AROUND_BYTES)
                shown = _SIDES.format(_show_line(left, begin), _show_line(right, begin))
                return f"line {number + 1} of {where} is {shown}"
    for field, what in _REPORTS.items():
        left, right = getattr(first, field), getattr(second, field)
        if left != right:
            return f"{what} is {_apart(left, right)}"
    return None


def _apart(left: object, right: object) -> str:
    """Return both values as text; of structs, only the fields that differ. None is shown as missing."""
    one, other = msgspec.to_builtins(left), msgspec.to_builtins(right)
    if not isinstance(one, dict) or not isinstance(other, dict):
        return _SIDES.format(*("missing" if found is None else repr(found) for found in (one, other)))
    names = [name for name in one if one[name] != other[name]]
    return _SIDES.format(*(", ".join(f"{name} {found[name]!r}" for name in names) for found in (one, other)))


def _same(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix of two lines."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def _show_line(line: bytes, begin: int) -> str:
    """Show an excerpt of a line from byte `begin` on."""
    if not line:
        return "missing"
    text = line.rstrip(b"\r\n")[begin : begin + 2 * _AROUND_BYTES].decode(errors="replace")
    more = "…" if len(line) > begin + 2 * _AROUND_BYTES else ""
    return repr(f"{'…' if begin else ''}{text}{more}")

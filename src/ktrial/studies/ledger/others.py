# SPDX-License-Identifier: Apache-2.0
"""Verdicts of others, from imported bundles: `ktrial.elsewhere/1`. They are never evidence about this machine."""

# No `from __future__ import annotations`: msgspec would evaluate every string annotation at each start.
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from ktrial.kit.errors import KtrialError, UnknownName
from ktrial.kit.json_strict import decode_as
from ktrial.kit.units import show_bytes
from ktrial.studies.ledger.model import LedgerEntry, link_entries

SCHEMA: Literal["ktrial.elsewhere/1"] = "ktrial.elsewhere/1"
#: Facts that show how similar two machines are, besides kernel and disks.
HARDWARE_FACTS = ("cpu.model", "cpu.threads", "memory.total", "virtualisation.kind", "kernel.release")
#: Kinds of disks by the prefix of the kernel's name. A machine has the first kind that fits.
_DISKS = {"nvme": "NVMe", "sd": "SATA, SAS or USB", "vd": "virtio", "xvd": "Xen", "mmcblk": "MMC"}
_VENDORS = ("AMD", "Intel", "ARM", "Apple", "Qualcomm", "Ampere", "Cortex", "Neoverse")
_LONGEST_TEXT = 200
_LARGEST_COUNT = 1 << 60


class Hardware(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The properties that decide how similar two machines are; null if unknown."""

    cpu: str | None = None
    threads: int | None = None
    memory_bytes: int | None = None
    kernel: str | None = None
    disk: str | None = None
    virtualisation: str | None = None


class OthersTrial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The verdicts of one trial of a bundle.

    `sha256` is the digest of the trial's record and log. `signer` is null if nobody checked the bundle's signature.
    """

    sha256: str
    bundle: str
    bundle_sha256: str
    signer: str | None = None
    imported_unix_ms: int
    hardware: Hardware
    entries: tuple[LedgerEntry, ...]


class OthersLedger(msgspec.Struct, frozen=True, kw_only=True):
    """All verdicts of others."""

    schema: Literal["ktrial.elsewhere/1"] = SCHEMA
    trials: tuple[OthersTrial, ...] = ()


class Likeness(msgspec.Struct, frozen=True, kw_only=True):
    """How similar another machine is to this one: points, and the names of equal, different and unknown properties."""

    score: int
    same: tuple[str, ...]
    differs: tuple[str, ...]
    unknown: tuple[str, ...]


class OthersVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict of another person, and how similar that person's machine is to this machine."""

    entry: LedgerEntry
    signer: str | None
    bundle: str
    hardware: Hardware
    likeness: Likeness


class MergedOthers(NamedTuple):
    """The ledger of others after an import, and the trials that are new, were known before, or are newly signed."""

    ledger: OthersLedger
    added: tuple[OthersTrial, ...]
    known: tuple[OthersTrial, ...]
    newly_signed: tuple[OthersTrial, ...]


def hardware_from(fact: Callable[[str], Any], disks: Iterable[str], kernel: str | None = None) -> Hardware:
    """Return the hardware from the machine's facts and from `disks`, the kernel's names of the disks.

    `fact` returns a fact by name; a value of the wrong type counts as unknown. `kernel` replaces the running release.
    """
    return Hardware(
        cpu=_text(fact("cpu.model")),
        threads=_count(fact("cpu.threads")),
        memory_bytes=_count(fact("memory.total")),
        kernel=_text(kernel) or _text(fact("kernel.release")),
        disk=_disk(disks),
        virtualisation=_text(fact("virtualisation.kind")),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT else None


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LARGEST_COUNT
    return value if is_count else None


def _disk(names: Iterable[str]) -> str | None:
    listed = list(names)
    return next((kind for start, kind in _DISKS.items() if any(name.startswith(start) for name in listed)), None)


def compare_hardware(theirs: Hardware, here: Hardware) -> Likeness:
    """Return how similar two machines are.

    Each of these gives one point: the same CPU vendor, CPU model, kernel series (6.12), kind of disk, virtualisation.
    Numbers of threads within a factor of two give one more point, and so do sizes of memory.
    """
    points = 0
    same: list[str] = []
    differs: list[str] = []
    unknown: list[str] = []

    def judge(name: str, their: str | None, ours: str | None, *, alike: bool) -> None:
        nonlocal points
        if their is None or ours is None:
            unknown.append(name)
        elif alike:
            points += 1
            same.append(name)
        else:
            differs.append(f"{name} {their} (here {ours})")

    vendors = [_vendor(one.cpu) for one in (theirs, here)]
    if theirs.cpu is not None and theirs.cpu == here.cpu:
        points += 2
        same.append("CPU model")
    elif None not in vendors and vendors[0] == vendors[1]:
        points += 1
        same.append("CPU vendor")
        differs.append(f"CPU {theirs.cpu} (here {here.cpu})")
    else:
        judge("CPU", theirs.cpu, here.cpu, alike=False)
    for name, pair, text in (
        ("threads", (theirs.threads, here.threads), str),
        ("memory", (theirs.memory_bytes, here.memory_bytes), show_bytes),
    ):
        their, ours = (None if one is None else text(one) for one in pair)
        judge(name, their, ours, alike=_within_twice(*pair))
    judge("kernel", theirs.kernel, here.kernel, alike=_series(theirs.kernel) == _series(here.kernel))
    judge("disk", theirs.disk, here.disk, alike=theirs.disk == here.disk)
    virtual = theirs.virtualisation, here.virtualisation
    judge("virtualisation", *virtual, alike=virtual[0] == virtual[1])
    return Likeness(score=points, same=tuple(same), differs=tuple(differs), unknown=tuple(unknown))


def _vendor(cpu: str | None) -> str | None:
    words = (cpu or "").replace("(R)", "").lower().split()
    return next((name for name in _VENDORS if any(word.startswith(name.lower()) for word in words)), None)


def _within_twice(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and max(one, other) <= 2 * min(one, other)


def _series(release: str | None) -> tuple[str, ...]:
    """Return `6.12` of `6.12.3-arch1-1` as its parts."""
    return tuple((release or "").partition("-")[0].split(".")[:2])


def verdicts_of(
    ledger: OthersLedger, here: Hardware, is_wanted: Callable[[LedgerEntry], bool] = lambda entry: True
) -> tuple[OthersVerdict, ...]:
    """Return the verdicts of others that `is_wanted` accepts, the most similar machine first, then the newest."""
    bundles: dict[str, list[OthersTrial]] = {}
    for trial in ledger.trials:
        bundles.setdefault(trial.bundle_sha256, []).append(trial)
    found = []
    for trials in bundles.values():
        places = {entry.trial: trial for trial in trials for entry in trial.entries}
        for entry in link_entries(entry for trial in trials for entry in trial.entries):
            if is_wanted(entry):
                trial = places[entry.trial]
                likeness = compare_hardware(trial.hardware, here)
                found.append(
                    OthersVerdict(
                        entry=entry,
                        signer=trial.signer,
                        bundle=trial.bundle,
                        hardware=trial.hardware,
                        likeness=likeness,
                    )
                )
    return tuple(sorted(found, key=lambda one: (-one.likeness.score, -one.entry.started_unix_ms, one.entry.trial)))


def merge(ledger: OthersLedger, trials: Sequence[OthersTrial]) -> MergedOthers:
    """Add the trials that the ledger lacks. A signed trial replaces the same unsigned trial in the ledger."""
    there = {one.sha256: one for one in ledger.trials}
    added, known, newly_signed = [], [], []
    for trial in trials:
        old = there.get(trial.sha256)
        if old is None:
            added.append(trial)
        elif old.signer is None and trial.signer is not None:
            newly_signed.append(trial)
        else:
            known.append(old)
            continue
        there[trial.sha256] = trial
    return MergedOthers(OthersLedger(trials=tuple(there.values())), tuple(added), tuple(known), tuple(newly_signed))


def decode_others(data: bytes, path: Path) -> OthersLedger:
    """Return the ledger of others from its file. Raise KtrialError if the file is damaged."""
    try:
        return decode_as(data, OthersLedger)
    except msgspec.DecodeError as error:
        raise KtrialError(
            f"cannot read the verdicts of others in {path}: {error}",
            hint="remove the file, then import the bundles again; your own verdicts are in another file",
        ) from None


def without(ledger: OthersLedger, source: str) -> OthersLedger:
    """Return the ledger without the verdicts from `source`: a signer, or the file name or digest of a bundle.

    Raise UnknownName if the ledger has no such verdicts.
    """
    gone = [one for one in ledger.trials if source in {one.signer, one.bundle, one.bundle_sha256}]
    if not gone:
        known = {name for one in ledger.trials for name in (one.signer, one.bundle) if name is not None}
        hint = (
            f"use one of: {', '.join(sorted(known))}" if known else "run `ktrial ledger import BUNDLE` to add verdicts"
        )
        raise UnknownName("signer or bundle", source, known, hint=hint)
    return OthersLedger(trials=tuple(one for one in ledger.trials if one not in gone))

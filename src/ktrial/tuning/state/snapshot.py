# SPDX-License-Identifier: Apache-2.0
"""Record the whole tunable state of a machine, and compare two states against what was declared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import msgspec

from ktrial.kit.errors import AgentError
from ktrial.kit.toml_files import BUILT_IN, read_toml
from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Machine
from ktrial.machine.reading import Reading
from ktrial.machine.transactions import UNFINISHED, status
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.address import parse_address
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.observe import observe, with_couples
from ktrial.tuning.knobs.profile import Profile
from ktrial.tuning.plans.model import Request
from ktrial.tuning.state.diff import Declaration, StateDifference, difference
from ktrial.tuning.state.state import FACTS, MachineState, StateValue, fact_values, file_text


class MovingFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file, or a pattern of files, whose content changes by itself, and why.

    A state leaves the file out, unless it is `compared`; a comparison then shows `why` as a note. The agent does not
    even list `hidden` files, so a state always names them as left out.
    """

    path: str
    why: str
    compared: bool = False
    hidden: bool = False


class _Moving(msgspec.Struct, forbid_unknown_fields=True):
    file: list[MovingFile]


@cache
def moving_files() -> tuple[MovingFile, ...]:
    return tuple(read_toml(BUILT_IN / "moving.toml", _Moving).file)


_SYSCTLS = "/proc/sys"
_MODULES = ("/sys/module/*/parameters/**", "/sys/module/*/version")
_DEBUGFS = "/sys/kernel/debug/"
_FEATURES = (f"{_DEBUGFS}sched/features", f"{_DEBUGFS}sched_features")
#: Files per request, few enough for the limit of a reply.
_READ_AT_ONCE = 2000
_IN_FORCE = frozenset(("applied", UNFINISHED))


def take_state(machine: Machine, catalog: Catalog, facts: FactBook | None = None) -> MachineState:
    """Return the state: the catalog's knobs, all of /proc/sys, modules with their parameters, and the facts."""
    facts = facts if facts is not None else machine.facts(FACTS)
    knobs: dict[str, str] = {}
    readings: dict[str, Reading | None] = {}
    for state in observe(machine, (knob for knob in catalog.knobs.values() if knob.files)).values():
        for instance in state.instances:
            knobs[f"{state.knob}@{instance.label}" if instance.label else state.knob] = instance.path
            readings[instance.path] = instance.reading
    matches = machine.list([*_MODULES, *_FEATURES, f"{_DEBUGFS}*"])
    listed = {path for pattern in (*_MODULES, *_FEATURES) for path in matches[pattern]}
    listed |= set(_files_below(machine, _SYSCTLS))
    left_out = dict(_left_out({*listed, *readings}))
    wanted = sorted(listed - set(readings) - set(left_out))
    for start in range(0, len(wanted), _READ_AT_ONCE):
        readings |= machine.read(wanted[start : start + _READ_AT_ONCE])
    files = {path: _value(path, reading) for path, reading in readings.items() if reading is not None}
    hidden = "debugfs is not mounted" if machine.is_root else "only root can see debugfs"
    return MachineState(
        facts=fact_values(facts),
        knobs={address: path for address, path in knobs.items() if path not in left_out},
        files={path: value for path, value in files.items() if path not in left_out},
        left_out=left_out,
        hidden={} if matches[f"{_DEBUGFS}*"] else {_DEBUGFS: hidden},
    )


def compare_states(
    before: MachineState, after: MachineState, declarations: Sequence[Declaration] = ()
) -> StateDifference:
    """Compare two states and add what the catalog knows of values that the kernel changes itself."""
    paths = {*before.files, *after.files}
    noted = [(re.compile(_pattern(entry.path)), entry.why) for entry in moving_files() if entry.compared]
    notes = {path: why for path in paths for pattern, why in noted if pattern.fullmatch(path)}
    return difference(before, after, declarations, notes)


def declared_knobs(words: Iterable[str], catalog: Catalog) -> tuple[Declaration, ...]:
    """Return declarations of knobs (KNOB or KNOB@INSTANCE) and of paths of kernel files."""
    found = []
    for word in words:
        if word.startswith("/"):
            found.append(Declaration(by="--declared", path=word.rstrip("/")))
        else:
            address = parse_address(word)
            knob = find_knob(address.knob, catalog.knobs).id
            found.append(Declaration(by="--declared", knob=word.replace(address.knob, knob, 1)))
    return tuple(found)


def declared_settings(requests: Iterable[Request], catalog: Catalog) -> tuple[Declaration, ...]:
    """Return declarations of the knobs that requests set, and of the knobs that the kernel changes along with them."""
    found: list[Declaration] = []
    for request in requests:
        for setting in request.settings:
            if isinstance(setting, Profile):
                continue
            found.append(Declaration(by=request.origin, knob=setting.knob))
            found += coupled_with(setting.knob, request.origin, catalog)
    return tuple(found)


def declared_transactions(machine: Machine, catalog: Catalog) -> tuple[Declaration, ...]:
    """Return declarations of the values that transactions in force have changed.

    Raise AgentError if this session may not read the journal.
    """
    found: list[Declaration] = []
    for transaction in status(machine).transactions:
        if transaction.state in _IN_FORCE:
            by = f"transaction {transaction.transaction}"
            for step in transaction.steps:
                if step.path.startswith("/"):
                    found.append(Declaration(by=by, path=step.path))
                if step.knob is not None and step.knob.partition("@")[0] in catalog.knobs:
                    found += coupled_with(step.knob, by, catalog)
    return tuple(found)


def coupled_with(address: str, by: str, catalog: Catalog) -> Iterator[Declaration]:
    """Yield declarations of the knobs that the kernel changes along with the knob at `address`."""
    knob = find_knob(address, catalog.knobs)
    for other in with_couples([knob], catalog.knobs):
        if other is not knob:
            yield Declaration(by=f"{by}, with {knob.id}", knob=other.id)


def _files_below(machine: Machine, folder: str) -> Iterator[str]:
    """Yield all files below a folder, in several requests if one reply would be too large."""
    try:
        yield from machine.list([f"{folder}/**"])[f"{folder}/**"]
    except AgentError as error:
        if error.kind != "oversized":
            raise
        below = machine.list([f"{folder}/*"])[f"{folder}/*"]
        for path in below:
            found = tuple(_files_below(machine, path))
            yield from found or (path,)


def _left_out(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    yield from ((entry.path, entry.why) for entry in moving_files() if entry.hidden)
    entries = [(re.compile(_pattern(entry.path)), entry.why) for entry in moving_files() if not entry.compared]
    for path in paths:
        why = next((why for pattern, why in entries if pattern.fullmatch(path)), None)
        if why is not None:
            yield path, why


def _pattern(path: str) -> str:
    return "[^/]*".join(re.escape(part) for part in path.split("*"))


def _value(path: str, reading: Reading) -> StateValue:
    if reading.data is not None:
        return StateValue(text=file_text(reading.data))
    why = reading.unreadable or reading.invalid or "no reason given"
    return StateValue(unreadable=why.rpartition(f"{path}: ")[2])

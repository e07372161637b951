# SPDX-License-Identifier: Apache-2.0
"""Compare two states of a machine, and separate declared from undeclared differences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from ktrial.tuning.knobs.address import parse_address, selects
from ktrial.tuning.state.state import COMMAND_LINE, MachineState, StateValue

Kind = Literal["knob", "sysctl", "module", "boot", "fact", "file", "folder"]

_BRACKETED = re.compile(r"[\[(]([^\])]{0,256})[\])]")
_PARAMETER = re.compile(r'(?:[^\s"]|"[^"]*")+')
_MODULE = re.compile(r"/sys/module/([^/]+)/(?:parameters/(.+)|version)")
_MODULES = "kernel.modules"
_THERE = "there"


class ValueDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One difference; None stands for a side without a value.

    `declared` names what declares the difference. `note` is what is known about a value that the kernel may change
    itself.
    """

    name: str
    kind: Kind
    path: str | None
    before: str | None
    after: str | None
    declared: str | None = None
    note: str | None = None


class Unclear(msgspec.Struct, frozen=True, kw_only=True):
    """Something that could not be compared, with the reason."""

    name: str
    why: str


class StateDifference(msgspec.Struct, frozen=True, kw_only=True):
    """All differences between two states, undeclared ones first, and what could not be compared.

    `left_out` maps the paths that a state leaves out to the reason.
    """

    undeclared: tuple[ValueDifference, ...]
    declared: tuple[ValueDifference, ...]
    unclear: tuple[Unclear, ...]
    left_out: Mapping[str, str]


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """An intended change of a knob, a fact, a file or a folder; `by` names who declared it."""

    by: str
    knob: str | None = None
    path: str | None = None
    fact: str | None = None

    def covers(self, difference: ValueDifference) -> bool:
        """Return whether the declaration covers a difference. A selector `[field=value]` covers all instances."""
        if self.fact is not None:
            return difference.kind == "fact" and difference.name == self.fact
        if self.path is not None:
            return difference.path is not None and f"{difference.path}/".startswith(f"{self.path}/")
        wanted = parse_address(self.knob or "")
        name, _, label = difference.name.partition("@")
        if wanted.knob not in {name, difference.name.partition(" ")[0]}:
            return False
        return wanted.selector is None or wanted.selector.startswith("[") or selects(wanted.selector, label, None)


def difference(
    before: MachineState,
    after: MachineState,
    declarations: Sequence[Declaration] = (),
    notes: Mapping[str, str] | None = None,
) -> StateDifference:
    """Return the difference of two states, split by `declarations`. `notes` maps paths to remarks on their values."""
    files = _StateFiles(before, after, notes or {})
    facts, fact_unclear = _facts(before.facts, after.facts)
    loaded = {one.name.partition(" ")[2] for one in facts if one.name.startswith(f"{_MODULES} ")}
    found = [*facts, *(one for one in files.differences() if not _is_of_module(one, loaded))]
    judged = [_judge_difference(one, declarations) for one in found]
    return StateDifference(
        undeclared=tuple(one for one in judged if one.declared is None),
        declared=tuple(one for one in judged if one.declared is not None),
        unclear=(*fact_unclear, *files.unclear()),
        left_out={**before.left_out, **after.left_out},
    )


def _judge_difference(one: ValueDifference, declarations: Iterable[Declaration]) -> ValueDifference:
    by = next((declaration.by for declaration in declarations if declaration.covers(one)), None)
    return msgspec.structs.replace(one, declared=by)


def _is_of_module(one: ValueDifference, loaded: set[str]) -> bool:
    """Return whether the difference came or went with a module that is itself listed as a difference."""
    parts = (one.path or "").split("/")
    return parts[1:3] == ["sys", "module"] and parts[3] in loaded and None in (one.before, one.after)


class _StateFiles:
    """The files of two states."""

    def __init__(self, before: MachineState, after: MachineState, notes: Mapping[str, str]) -> None:
        self._before, self._after, self._notes = before, after, notes
        self._addresses: dict[str, set[str]] = {}
        for state in (before, after):
            for address, path in state.knobs.items():
                self._addresses.setdefault(path, set()).add(address)
        self._hidden: dict[str, tuple[str, int]] = {}
        self._unreadable: list[Unclear] = []

    def unclear(self) -> Iterator[Unclear]:
        """Yield what could not be compared. Call `differences` first."""
        yield from self._unreadable
        for folder, (why, count) in sorted(self._hidden.items()):
            yield Unclear(name=f"{count} file{'s'[: count != 1]} below {folder}", why=why)

    def differences(self) -> list[ValueDifference]:
        """Return values that differ, then files that only one side has."""
        found: list[ValueDifference] = []
        only: tuple[list[str], list[str]] = ([], [])
        for path in sorted({*self._before.files, *self._after.files}):
            left, right = self._before.files.get(path), self._after.files.get(path)
            if left is None or right is None:
                self._one_sided(path, only, in_before=left is not None)
            elif left.unreadable is not None or right.unreadable is not None:
                why = left.unreadable or right.unreadable or ""
                self._unreadable.append(Unclear(name=self._name(path), why=why))
            elif left != right:
                found += self._changed_lines(path, left.text or "", right.text or "")
        for paths, state, other, is_before in (
            (only[0], self._before, self._after, True),
            (only[1], self._after, self._before, False),
        ):
            found += self._alone(paths, state, other, is_before=is_before)
        return found

    def _one_sided(self, path: str, only: tuple[list[str], list[str]], *, in_before: bool) -> None:
        other = self._after if in_before else self._before
        if path in other.left_out:
            return
        folder = next((folder for folder in other.hidden if path.startswith(folder)), None)
        if folder is not None:
            _, count = self._hidden.get(folder, ("", 0))
            self._hidden[folder] = (other.hidden[folder], count + 1)
        else:
            only[0 if in_before else 1].append(path)

    def _changed_lines(self, path: str, left: str, right: str) -> Iterator[ValueDifference]:
        addresses = self._addresses.get(path, set())
        if len(addresses) > 1:
            yield from self._tokens(path, left, right, addresses)
            return
        shown = _bracketed(left, right)
        yield self._difference(path, self._name(path), *shown)

    def _tokens(self, path: str, left: str, right: str, addresses: set[str]) -> Iterator[ValueDifference]:
        """Yield the switches that differ in a file of `FEATURE` and `NO_FEATURE` words."""
        known = {address.partition(":")[2]: address for address in addresses}
        sides = [{word.removeprefix("NO_"): word for word in text.split()} for text in (left, right)]
        for word in sorted({*sides[0], *sides[1]}):
            one, other = sides[0].get(word), sides[1].get(word)
            if one != other:
                yield self._difference(path, known.get(word, f"{path} {word}"), one, other)

    def _alone(
        self, paths: Sequence[str], state: MachineState, other: MachineState, *, is_before: bool
    ) -> Iterator[ValueDifference]:
        """Yield files that only one side has; a whole folder is reported once."""
        folders = {folder for path in other.files for folder in _folders(path)}
        groups: dict[str, list[str]] = {}
        for path in paths:
            top = next((folder for folder in _folders(path) if folder not in folders), path)
            groups.setdefault(top, []).append(path)
        for top, members in groups.items():
            value = state.files[members[0]]
            if len(members) == 1:
                text = value.text if value.text is not None else f"(unreadable: {value.unreadable})"
                shown, name = text, self._name(members[0])
                kind, path = None, members[0]
            else:
                shown, name, kind, path = f"{len(members)} values", _file_name(top), "folder", top
            sides = (shown, None) if is_before else (None, shown)
            made = self._difference(path, name, *sides)
            yield made if kind is None else msgspec.structs.replace(made, kind="folder")

    def _difference(self, path: str, name: str, before: str | None, after: str | None) -> ValueDifference:
        kind: Kind = "knob" if path in self._addresses else _kind(path)
        return ValueDifference(name=name, kind=kind, path=path, before=before, after=after, note=self._notes.get(path))

    def _name(self, path: str) -> str:
        addresses = self._addresses.get(path, set())
        return next(iter(addresses)) if len(addresses) == 1 else _file_name(path)


def _facts(
    before: Mapping[str, StateValue], after: Mapping[str, StateValue]
) -> tuple[list[ValueDifference], list[Unclear]]:
    found: list[ValueDifference] = []
    unclear: list[Unclear] = []
    missing = StateValue(absent="not recorded")
    for name in sorted({*before, *after}):
        left, right = before.get(name, missing), after.get(name, missing)
        if left.unreadable is not None or right.unreadable is not None:
            unclear.append(Unclear(name=name, why=left.unreadable or right.unreadable or ""))
        elif name == COMMAND_LINE and left.text is not None and right.text is not None:
            found += _parameters(left.text, right.text)
        elif left.words is not None or right.words is not None:
            found += _words(name, left.words or (), right.words or ())
        elif left.text != right.text:
            found.append(ValueDifference(name=name, kind="fact", path=None, before=left.text, after=right.text))
    return found, unclear


def _parameters(before: str, after: str) -> Iterator[ValueDifference]:
    """Yield kernel parameters that differ; the value of a repeated parameter joins all its values in order."""
    sides = [_by_name(text) for text in (before, after)]
    for name in sorted({*sides[0], *sides[1]}):
        left, right = sides[0].get(name), sides[1].get(name)
        if left != right:
            yield ValueDifference(name=f"boot:{name}", kind="boot", path=None, before=left, after=right)


def _by_name(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in _PARAMETER.findall(text):
        name, equals, value = word.partition("=")
        shown = value if equals else "(given)"
        found[name] = f"{found[name]} {shown}" if name in found else shown
    return found


def _words(name: str, before: Sequence[str], after: Sequence[str]) -> Iterator[ValueDifference]:
    for word in sorted({*before} ^ {*after}):
        sides = (_THERE, None) if word in before else (None, _THERE)
        kind: Kind = "module" if name == _MODULES else "fact"
        yield ValueDifference(name=f"{name} {word}", kind=kind, path=None, before=sides[0], after=sides[1])


def _bracketed(left: str, right: str) -> tuple[str, str]:
    """Return the bracketed words if the texts differ only in which word is in brackets, otherwise the texts."""
    plain = [_BRACKETED.sub(r"\1", text) for text in (left, right)]
    found = [_BRACKETED.findall(text) for text in (left, right)]
    if plain[0] == plain[1] and all(len(one) == 1 for one in found):
        return found[0][0], found[1][0]
    return left, right


def _folders(path: str) -> Iterator[str]:
    at = path.find("/", 1)
    while at != -1:
        yield path[:at]
        at = path.find("/", at + 1)


def _file_name(path: str) -> str:
    """Return the usual name of a file: a sysctl with dots, a module's parameter, otherwise the path."""
    if path.startswith("/proc/sys/"):
        return ".".join(part.replace(".", "/") for part in path.removeprefix("/proc/sys/").split("/"))
    found = _MODULE.fullmatch(path)
    if found is None:
        return path
    return f"module:{found[1]}.{found[2]}" if found[2] else f"version of module {found[1]}"


def _kind(path: str) -> Kind:
    if path.startswith("/proc/sys/"):
        return "sysctl"
    return "module" if path.startswith("/sys/module/") else "file"

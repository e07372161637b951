# SPDX-License-Identifier: Apache-2.0
"""`composite.xml` of the Phoronix Test Suite: a group for each system, a run for each raw value.

The reader refuses document types, entities and unusually deep nesting. `RawString` holds the runs, joined by `:`. A
result without it holds only a mean, unless the times in `JSON` say that there was one run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn
from xml.parsers import expat

import msgspec

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import Quantity, decode_output, unreadable
from ktrial.kit.json_strict import NotStrictJson, decode
from ktrial.kit.outcome import Direction
from ktrial.results.foreign import ForeignResults, ForeignRun, slug
from ktrial.results.importers._shared import labelled, measurement
from ktrial.results.importers._units import AS_IT_STANDS, scale_of, signed_number

_DEEPEST = 12
#: Display formats of results that are single numbers.
_BARS = frozenset(("BAR_GRAPH", "HORIZONTAL_BOX_PLOT", "BOX_PLOT", "BAR_ANALYZE_GRAPH"))
_PROPORTIONS: Mapping[str, Direction] = {"HIB": "higher", "LIB": "lower"}


class PhoronixEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A system's result of a test, in `line` of the file.

    `values` has one text for each run; it is empty if the file has only the mean of the runs.
    """

    system: str
    line: int
    values: tuple[str, ...]


class PhoronixResult(msgspec.Struct, frozen=True, kw_only=True):
    """A test. `scale` is the test's own name for the unit; `attributes` distinguish the test from other tests."""

    test: str
    title: str
    description: str
    scale: str
    direction: Direction | None
    attributes: Mapping[str, str]
    entries: tuple[PhoronixEntry, ...]


class PhoronixFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file. `systems` has hardware, software and notes by the system's name, `left_out` omitted results and why."""

    systems: Mapping[str, Mapping[str, str]]
    results: tuple[PhoronixResult, ...]
    left_out: tuple[str, ...]


class _Node:
    """An XML element."""

    def __init__(self, name: str, line: int) -> None:
        self.name = name
        self.line = line
        self.children: list[_Node] = []
        self.parts: list[str] = []

    def all(self, name: str) -> list[_Node]:
        return [child for child in self.children if child.name == name]

    def text(self, name: str) -> str:
        """Return the text of the first child called `name`; empty if there is none."""
        return next(("".join(child.parts).strip() for child in self.children if child.name == name), "")


class _Tree:
    """Builds nodes from a parser's events; refuses anything but plain data."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.EntityDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.open: list[_Node] = []
        self.root: _Node | None = None

    def _refuse(self, *_declared: object) -> NoReturn:
        line = self.parser.CurrentLineNumber
        raise unreadable(self.source, line, "<!DOCTYPE or <!ENTITY", "plain XML: ktrial expands no entities")

    def _start(self, name: str, _attributes: Mapping[str, str]) -> None:
        node = _Node(name, self.parser.CurrentLineNumber)
        if len(self.open) >= _DEEPEST:
            raise unreadable(
                self.source,
                node.line,
                f"<{name}>",
                f"an element of a result file: it is nested more than {_DEEPEST} deep",
            )
        if self.open:
            self.open[-1].children.append(node)
        else:
            self.root = node
        self.open.append(node)

    def _end(self, _name: str) -> None:
        self.open.pop()

    def _text(self, text: str) -> None:
        self.open[-1].parts.append(text)


def read_phoronix(data: bytes, source: str = "composite.xml") -> PhoronixFile:
    """Read all results that show single numbers.

    `left_out` names the other results (pictures, lines over time, pass or fail), and results with only a mean.
    """
    root = _root(data, source)
    if root.name != "PhoronixTestSuite":
        raise unreadable(source, root.line, f"<{root.name}>", "the root <PhoronixTestSuite>")
    every = [(_result(node, source), node) for node in root.all("Result")]
    if not every:
        raise unreadable(source, root.line, "<PhoronixTestSuite>", "a file of results: it has no <Result>")
    bars: list[PhoronixResult] = []
    left_out: list[str] = []
    for result, node in every:
        display = node.text("DisplayFormat")
        name = f"{result.title} ({result.description})" if result.description else result.title
        if display and display not in _BARS:
            left_out.append(f"{name}: left out, because {display} does not show one number for each run")
            continue
        bare = [entry.system for entry in result.entries if not entry.values]
        if bare:
            left_out.append(f"{name}: left out for {', '.join(bare)}, because the file has only a mean of its runs")
        bars.append(result)
    systems = {node.text("Identifier"): _about(node) for node in root.all("System")}
    return PhoronixFile(systems=systems, results=tuple(bars), left_out=tuple(left_out))


def _root(data: bytes, source: str) -> _Node:
    decode_output(data, source)
    tree = _Tree(source)
    try:
        tree.parser.Parse(data, True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code) or "an error"
        raise unreadable(source, None, "", f"valid XML: {what} in line {error.lineno}") from None
    if tree.root is None:
        raise unreadable(source, None, "", "XML: it has no element")
    return tree.root


def _about(node: _Node) -> dict[str, str]:
    names = {"hardware": "Hardware", "software": "Software", "notes": "Notes", "time": "TimeStamp"}
    return {name: text for name, tag in names.items() if (text := node.text(tag))}


def _result(node: _Node, source: str) -> PhoronixResult:
    title = node.text("Title")
    entries = [entry for data in node.all("Data") for entry in data.all("Entry")]
    if not title or not entries:
        raise unreadable(
            source, node.line, "<Result>", "complete: its <Title> or its <Data> with an <Entry> is missing"
        )
    numbers = node.text("DisplayFormat") in {"", *_BARS}
    names = {"arguments": "Arguments", "app_version": "AppVersion", "description": "Description"}
    return PhoronixResult(
        test=node.text("Identifier") or title,
        title=title,
        description=node.text("Description"),
        scale=node.text("Scale"),
        direction=_PROPORTIONS.get(node.text("Proportion")),
        attributes={name: text for name, tag in names.items() if (text := node.text(tag))},
        entries=tuple(_entry(entry, source, numbers) for entry in entries),
    )


def _entry(node: _Node, source: str, numbers: bool) -> PhoronixEntry:
    system = node.text("Identifier")
    if not system:
        raise unreadable(source, node.line, "<Entry>", "an entry with an <Identifier>")
    raw, value = node.text("RawString"), node.text("Value")
    texts = raw.split(":") if raw else [value] if _ran_once(node.text("JSON")) else []
    if not numbers or not value:
        return PhoronixEntry(system=system, line=node.line, values=())
    values = tuple(signed_number(text, source, node.line, f"a run of {system}") for text in texts)
    return PhoronixEntry(system=system, line=node.line, values=values)


def _ran_once(text: str) -> bool:
    """Return whether the entry's JSON has the time of exactly one run."""
    try:
        details = decode(text) if text else None
    except NotStrictJson:
        return False
    times = details.get("test-run-times") if isinstance(details, dict) else None
    return isinstance(times, str) and bool(times) and ":" not in times


NAME = "phoronix"
WHAT = "composite.xml of the Phoronix Test Suite."
_VERSION = re.compile(r"-\d+(?:\.\d+)*$")
_KERNEL = re.compile(r"(?:^|, )Kernel: ([^,]+)")


def sniff(head: bytes, name: str) -> bool:
    return b"<PhoronixTestSuite" in head


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Return a run for each raw value. Raise BadRun for a file without values of single runs."""
    file = read_phoronix(data, name)
    runs: list[ForeignRun] = []
    unknown: set[str] = set()
    for result in file.results:
        if scale_of(result.scale) is None:
            unknown.add(result.scale or "(none)")
        for entry in result.entries:
            runs += _runs(result, entry, file, len(runs), name)
    if not runs:
        raise BadRun(
            f"{name}: the file has no values of single runs; {'; '.join(file.left_out)}",
            hint="name a file with the value of each run (RawString), which newer versions of the suite write",
        )
    notes = list(file.left_out)
    if unknown:
        notes.append(f"stored unchanged, as scores: {', '.join(sorted(unknown))}")
    return ForeignResults(format=NAME, runs=labelled(runs, options.label, name), notes=tuple(notes))


def _runs(
    result: PhoronixResult, entry: PhoronixEntry, file: PhoronixFile, before: int, source: str
) -> list[ForeignRun]:
    scale = scale_of(result.scale) or AS_IT_STANDS
    test = _VERSION.sub("", result.test)
    name = "-".join(slug(part) for part in (test, result.description) if part)
    attributes = {"test": result.test, "title": result.title, **result.attributes, **_system(file.systems, entry)}
    runs = []
    for place, text in enumerate(entry.values, 1):
        value = scale.value(text, source, entry.line, f"run {place} of {result.title} on {entry.system}")
        quantity = Quantity(value, f"{text} {result.scale}".strip())
        runs.append(
            ForeignRun(
                group=entry.system,
                benchmark=name,
                number=before + place,
                measurements=(measurement("result", quantity, scale.unit, result.direction),),
                attributes=attributes,
            )
        )
    return runs


def _system(systems: Mapping[str, Mapping[str, str]], entry: PhoronixEntry) -> dict[str, str]:
    about = dict(systems.get(entry.system, {}))
    kernel = _KERNEL.search(about.get("software", ""))
    return {**about, "kernel": kernel[1]} if kernel else about

# SPDX-License-Identifier: Apache-2.0
"""Go's benchmark text: one run per result line.

The text has `key: value` lines, result lines and `Unit` lines; all others are ignored.

Units are normalised as Go's tools do: ns become seconds, MB/s become bytes per second. The normalised unit names the
outcome. A failed benchmark has the line `--- FAIL: BenchmarkName` instead of a result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.formats.tool_output import Quantity, numbered, unreadable, whole
from ktrial.kit.outcome import Direction, Unit
from ktrial.results.foreign import ForeignResults, ForeignRun
from ktrial.results.importers._shared import group_of, measurement
from ktrial.results.importers._units import AS_IT_STANDS, Scale, signed_number

_KEY = re.compile(r"([a-z][^\s:A-Z]*):(?:\s+(.*))?")
_NAME = re.compile(r"Benchmark(?:[^a-z\s]\S*)?")
#: Other names than those of `go test` count if a complete result follows; "Benchmarking 3 files" is not a result.
_LIKE_ONE = re.compile(r"Benchmark\S*\s+[0-9]+(?:\s+[0-9][0-9.eE+-]*\s+[^\s0-9]\S*)+")
_FAIL = re.compile(r"\s*--- FAIL: (Benchmark\S+)")
_PROCESSORS = re.compile(r"(.+)-(\d{1,6})")
_BETTER: Mapping[str, Direction] = {"higher": "higher", "lower": "lower"}
_DIRECTIONS: Mapping[str, Direction] = {"sec/op": "lower", "B/s": "higher", "B/op": "lower", "allocs/op": "lower"}
_BASES: Mapping[str, Unit] = {"sec/op": "s", "B/s": "B/s", "B/op": "B", "allocs/op": "count"}
#: Units by the ending after `NAME-`.
_ENDINGS: Mapping[str, Unit] = {
    "B": "B",
    "bytes": "B",
    "B/s": "B/s",
    "count": "count",
    "ratio": "ratio",
    "joules": "J",
    "watts": "W",
}
#: A rate `NAME/s`, except bits and bytes, whose prefix would need scaling.
_RATE = re.compile(r"(?!.*(?:[Bb]|[Bb]its?|[Bb]ytes?)/s)\S+/s")


class GoValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value: `unit` is the normalised unit, `base` the base unit of `value`."""

    unit: str
    base: Unit
    direction: Direction | None
    value: float
    original: str


class GoResult(msgspec.Struct, frozen=True, kw_only=True):
    """A result line, or a failure without values; `config` holds the `key: value` lines that apply."""

    line: int
    name: str
    processors: int | None
    iterations: int | None
    values: tuple[GoValue, ...]
    config: Mapping[str, str]


def read_go_bench(data: bytes, source: str = "bench.txt") -> tuple[GoResult, ...]:
    """Read all results in order. Raise UnreadableOutput if no result has a value."""
    config: dict[str, str] = {}
    better: dict[str, Direction] = {}
    results: list[GoResult] = []
    for line, text in numbered(data, source):
        fields = text.split()
        if match := _KEY.fullmatch(text):
            config = {**config, match[1]: (match[2] or "").strip()}
        elif text.startswith("Unit ") and len(fields) >= 3:
            better |= _declared(fields)
        elif match := _FAIL.match(text):
            results.append(_result(line, match[1], None, (), config))
        elif _is_result(fields) or _LIKE_ONE.fullmatch(text.rstrip()):
            iterations = whole(fields[1], source, line, "iterations")
            results.append(_result(line, fields[0], iterations, _values(fields[2:], source, line), config))
    if not any(result.values for result in results):
        raise unreadable(
            source, None, "", "Go's benchmark text: no line has the form 'BenchmarkName iterations value unit'"
        )
    return tuple(_directed(result, better) for result in results)


def _is_result(fields: list[str]) -> bool:
    return len(fields) >= 3 and _NAME.fullmatch(fields[0]) is not None and fields[1].isascii() and fields[1].isdigit()


def _declared(fields: list[str]) -> dict[str, Direction]:
    """Return the direction that a `Unit` line declares, by normalised unit; empty if the line declares none."""
    pairs = dict(field.partition("=")[::2] for field in fields[2:])
    return {tidied(fields[1])[0]: _BETTER[pairs["better"]]} if pairs.get("better") in _BETTER else {}


def _result(
    line: int, word: str, iterations: int | None, values: tuple[GoValue, ...], config: Mapping[str, str]
) -> GoResult:
    name = word.removeprefix("Benchmark") or word
    match = _PROCESSORS.fullmatch(name)
    return GoResult(
        line=line,
        name=match[1] if match else name,
        processors=int(match[2]) if match else None,
        iterations=iterations,
        values=values,
        config=config,
    )


def _values(fields: list[str], source: str, line: int) -> tuple[GoValue, ...]:
    if len(fields) % 2:
        raise unreadable(source, line, " ".join(fields), "a list of values, each with its unit")
    values: dict[str, GoValue] = {}
    for number, unit in zip(fields[::2], fields[1::2], strict=True):
        text = signed_number(number, source, line, f"a value in {unit}")
        name, scale = tidied(unit)
        if name in values:
            raise unreadable(source, line, f"{number} {unit}", "the line's only value in this unit")
        value = scale.value(text, source, line, f"a value in {unit}")
        values[name] = GoValue(unit=name, base=scale.unit, direction=None, value=value, original=f"{text} {unit}")
    return tuple(values.values())


def tidied(unit: str) -> tuple[str, Scale]:
    """Return the normalised unit, which names the outcome, and the conversion to the base unit."""
    if unit == "MB/s":
        return "B/s", Scale("B/s", 10**6)
    if unit in {"ns", "ns/op"} or unit.startswith("ns/") or unit.endswith("-ns"):
        return re.sub(r"(?:^|(?<=-))ns(?=$|/)", "sec", unit), Scale("s", 1, 10**9)
    if unit == "sec" or unit.startswith("sec/") or unit.endswith("-sec"):
        return unit, Scale("s")
    if unit in _BASES:
        return unit, Scale(_BASES[unit])
    ending = unit.rpartition("-")[2]
    if ending != unit and ending in _ENDINGS:
        return unit, Scale(_ENDINGS[ending])
    return unit, Scale("1/s") if _RATE.fullmatch(unit) else AS_IT_STANDS


def _directed(result: GoResult, better: Mapping[str, Direction]) -> GoResult:
    values = tuple(
        msgspec.structs.replace(one, direction=better.get(one.unit, _DIRECTIONS.get(one.unit))) for one in result.values
    )
    return msgspec.structs.replace(result, values=values)


NAME = "go-bench"
WHAT = "Text of Go benchmarks (go test -bench), and of programs that print the same format."
_LINE = re.compile(rb"^Benchmark(?:(?:[^a-z\s]\S*)?\s+\d+\s+\S+|\S+\s+\d+\s+\d[0-9.eE+-]*)\s+[^\s0-9]\S*", re.MULTILINE)


def sniff(head: bytes, name: str) -> bool:
    return _LINE.search(head) is not None


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Return a run for each result line, in order; a failed benchmark becomes a failed run."""
    group = group_of(options.label, name)
    results = read_go_bench(data, name)
    runs = tuple(_run(result, group, number) for number, result in enumerate(results, 1))
    unknown = sorted({one.unit for result in results for one in result.values if one.base == "score"})
    notes = ["one value is a mean over its iterations"]
    if unknown:
        notes.append(f"stored unchanged, as scores: {', '.join(unknown)}")
    return ForeignResults(format=NAME, runs=runs, notes=tuple(notes))


def _run(result: GoResult, group: str, number: int) -> ForeignRun:
    attributes = dict(result.config)
    if result.processors is not None:
        attributes["gomaxprocs"] = str(result.processors)
    if result.iterations is not None:
        attributes["iterations"] = str(result.iterations)
    return ForeignRun(
        group=group,
        benchmark=result.name,
        number=number,
        measurements=tuple(
            measurement(one.unit, Quantity(one.value, one.original), one.base, one.direction) for one in result.values
        ),
        attributes=attributes,
        failure=None if result.values else "the text says FAIL",
    )

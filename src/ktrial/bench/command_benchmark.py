# SPDX-License-Identifier: Apache-2.0
"""Any command as a benchmark: it measures the command's resources and numbers in its output."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

import msgspec

from ktrial.bench.benchmark import Benchmark, Invocation, ParsedRun, Probe, RawOutput, Step, check_exit
from ktrial.bench.outcomes import outcome
from ktrial.kit.errors import BadInput, BadRun
from ktrial.kit.json_path import is_path, parse_path, select
from ktrial.kit.json_strict import NotStrictJson, decode
from ktrial.kit.outcome import Direction, Measurement, Outcome, OutcomeKind, Unit
from ktrial.machine.facts import FactBook

NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
#: The part of a number after a match: digits, a decimal or thousands mark of any language with digits after it, an
#: exponent.
_GOES_ON = re.compile(r"(?:[.,'\u2019\u00a0\u202f]?[0-9]+)+|[eE][-+]?[0-9]+")
#: The part of a number before a match: digits always, a mark or a sign only if the expression matches nothing before
#: the number.
_BEGAN = re.compile(r"[-+]?[0-9.]{0,40}[0-9]\.?$")
_BEGAN_OUTSIDE = re.compile(r"(?:[-+]?[0-9.,'\u2019\u00a0\u202f]{0,40}[0-9][.,'\u2019\u00a0\u202f]?|(?<!\w)-)$")
#: How many characters on each side of a number are examined.
_BESIDE = 40
#: Suffix of a metric's name -> base unit, factor to it, kind. Longer suffixes come first.
_SUFFIXES: tuple[tuple[str, Unit, float, OutcomeKind], ...] = (
    ("_mb_per_s", "B/s", 1e6, "rate"),
    ("_mib_per_s", "B/s", 2.0**20, "rate"),
    ("_kb_per_s", "B/s", 1e3, "rate"),
    ("_bytes_per_s", "B/s", 1, "rate"),
    ("_per_s", "1/s", 1, "rate"),
    ("_ns", "s", 1e-9, "time"),
    ("_us", "s", 1e-6, "time"),
    ("_ms", "s", 1e-3, "time"),
    ("_s", "s", 1, "time"),
    ("_bytes", "B", 1, "size"),
    ("_percent", "ratio", 0.01, "score"),
    ("_count", "count", 1, "count"),
)
_PLENTY = 1e18
#: Maximum number of warm-up runs of a command.
MOST_WARM_UPS = 1000
_USAGE = "for example  'p99_ms:lower=p99: ([0-9.]+)', or 'p99_ms:lower=$.latency.p99' for a JSON document"


class PrintedNumber:
    """The output in which a metric finds its number, as text or as a JSON document."""

    def __init__(self, raw: RawOutput) -> None:
        self._raw = raw

    @cached_property
    def text(self) -> str:
        return b"\n".join((self._raw.stdout, self._raw.stderr)).decode("utf-8", "backslashreplace")

    @cached_property
    def document(self) -> Any:
        """The JSON document on stdout. Raise BadRun unless there is exactly one."""
        if not self._raw.stdout.strip():
            raise BadRun(
                "stdout is empty, but a JSON path needs a JSON document",
                hint="make the command print JSON to stdout",
            )
        try:
            return decode(self._raw.stdout.decode("utf-8"))
        except UnicodeDecodeError:
            raise BadRun(
                "stdout is not UTF-8 text, but a JSON path needs a JSON document",
                hint="make the command print JSON in UTF-8",
            ) from None
        except NotStrictJson as error:
            line = "" if error.line is None else f"line {error.line} of "
            raise BadRun(
                f"{error} in {line}stdout", hint="make the command print one JSON document and nothing else"
            ) from None


class Metric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number that the command prints; the end of its name gives the unit.

    `_ms`, `_per_s`, `_bytes` and others are units; without a unit, the number is a score. `match` is a regular
    expression with one group, or a path (`$.jobs[0].iops`) in the JSON document on stdout.
    """

    name: str
    direction: Direction
    match: str

    def check(self) -> None:
        """Raise BadInput if the name, the expression or the path is invalid."""
        for _, error in self.faults():
            raise error

    def faults(self) -> Iterator[tuple[str, BadInput]]:
        """Yield pairs of a key, such as `match`, and what is wrong with its value."""
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            hint = "use lower-case letters, digits and _, beginning with a letter"
            yield "name", BadInput(f"invalid metric name {self.name!r}", hint=hint)
        try:
            groups = 1 if is_path(self.match) and parse_path(self.match) else re.compile(self.match).groups
        except re.error as error:
            wrong = f"invalid expression for {self.name} at position {error.pos}: {error.msg}"
            yield "match", BadInput(wrong, hint="write a regular expression as Python's `re` reads it")
        except BadInput as error:
            yield "match", error
        else:
            if groups != 1:
                wrong = f"expected one group in the expression for {self.name}, got {groups}"
                yield "match", BadInput(wrong, hint="put one group around the number, as in 'p99: ([0-9.]+)'")

    def outcome(self) -> tuple[Outcome, float]:
        """Return the outcome in its base unit, and the factor from the printed unit to the base unit."""
        suffix, unit, factor, kind = next(
            (row for row in _SUFFIXES if self.name.endswith(row[0]) and self.name != row[0]),
            ("", "score", 1.0, "score"),
        )
        name = self.name.removesuffix(suffix)
        return _outcome(name, unit, kind, self.direction, low=-_PLENTY if kind == "score" else 0), factor

    def read(self, printed: PrintedNumber) -> Measurement:
        found = self._selected(printed) if is_path(self.match) else self._matched(printed.text)
        outcome, factor = self.outcome()
        return Measurement(outcome=outcome.name, value=float(found) * factor, original=f"{self.name} {found}")

    def _selected(self, printed: PrintedNumber) -> str:
        try:
            return repr(select(printed.document, self.match))
        except BadRun as error:
            raise BadRun(f"{self.name}: {error.message}", hint=error.hint) from None

    def _matched(self, text: str) -> str:
        found = list(re.finditer(self.match, text, re.MULTILINE))
        if len(found) != 1:
            how = "nowhere" if not found else f"{len(found)} times"
            raise BadRun(
                f"the expression for {self.name} matches {how} in the output, expected one match",
                hint="make the expression match what the command prints"
                if not found
                else "make the expression match one number only",
            )
        number = found[0][1] or ""
        if not NUMBER.fullmatch(number.strip()):
            raise BadRun(
                f"{self.name}: expected a number such as 12.5, got {number!r}",
                hint="let the group match the number only",
            )
        whole = whole_number(found[0])
        if whole != number:
            raise BadRun(
                f"{self.name}: {number!r} is only part of {whole!r}",
                hint="match the text on both sides of the number too, as in 'p99: ([0-9.]+) ms'",
            )
        return number


class OwnBenchmark(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A command from the command line or a file; implements `Benchmark`.

    ktrial kills a run after `limit_s` seconds. Without `directory`, the command runs in the run's private directory.
    Before each run the commands of `prepare` run in the same way, unmeasured. The first `warm_ups` runs do not count.
    With `any_status`, a run with a non-zero exit status is good too.
    """

    name: str
    what: str
    argv: tuple[str, ...]
    directory: str | None = None
    environment: dict[str, str] = {}
    limit_s: float = 3600.0
    prepare: tuple[tuple[str, ...], ...] = ()
    warm_ups: int = 0
    any_status: bool = False
    metric: tuple[Metric, ...] = ()

    def check(self) -> None:
        for _, error in self.faults():
            raise error

    def faults(self) -> Iterator[tuple[str, BadInput]]:
        """Yield pairs of a path in the file, such as `$.metric[1].match`, and what is wrong there."""
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", self.name):
            hint = "use lower-case letters, digits and hyphens"
            yield "$.name", BadInput(f"invalid benchmark name {self.name!r}", hint=hint)
        if not self.argv or not self.argv[0]:
            yield "$.argv", BadInput(f"`argv` of {self.name} is empty", hint='for example  argv = ["make", "-j4"]')
        if self.directory is not None and not self.directory.startswith("/"):
            yield (
                "$.directory",
                BadInput(
                    f"`directory` of {self.name} is not an absolute path ({self.directory!r})",
                    hint="write the full path",
                ),
            )
        if not 0 < self.limit_s < math.inf:
            yield (
                "$.limit_s",
                BadInput(
                    f"expected a finite limit_s above 0 for {self.name}, got {self.limit_s:g}",
                    hint="for example  limit_s = 60",
                ),
            )
        for number, step in enumerate(self.prepare):
            if not step or not step[0]:
                empty = BadInput(
                    f"`prepare` of {self.name} contains an empty command",
                    hint='for example  prepare = [["make", "clean"]]',
                )
                yield f"$.prepare[{number}]", empty
        if not 0 <= self.warm_ups <= MOST_WARM_UPS:
            most = f"expected warm_ups from 0 to {MOST_WARM_UPS} for {self.name}, got {self.warm_ups}"
            yield "$.warm_ups", BadInput(most, hint="for example  warm_ups = 1")
        taken = {outcome.name for outcome in _USED}
        for number, metric in enumerate(self.metric):
            yield from ((f"$.metric[{number}].{key}", error) for key, error in metric.faults())
            name = metric.outcome()[0].name
            if name in taken:
                twice = BadInput(
                    f"two outcomes of {self.name} are named {name}",
                    hint="rename the metric; ktrial itself measures wall, user, system and peak_memory",
                )
                yield f"$.metric[{number}].name", twice
            taken.add(name)

    packages: ClassVar[Mapping[str, str]] = {}
    root_reason: ClassVar[str | None] = None
    user_reason: ClassVar[str | None] = None
    least_cpus: ClassVar[int] = 1
    probe: ClassVar[Probe | None] = None
    parameters: ClassVar[Mapping[str, Any]] = {}

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.argv[0], *(step[0] for step in self.prepare))))

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The metrics and the resource usage. The headline is the first metric, or `wall` if there is no metric."""
        metrics = tuple(metric.outcome()[0] for metric in self.metric)
        all_of = (*metrics, *_USED)
        return (msgspec.structs.replace(all_of[0], headline=True), *all_of[1:])

    def invocation(self, parameters: Mapping[str, Any], facts: FactBook) -> Invocation:
        return Invocation(
            argv=self.argv,
            limit_s=self.limit_s,
            environment=self.environment,
            directory=self.directory,
            steps=tuple(Step(argv=step, limit_s=self.limit_s) for step in self.prepare),
            warm_ups=self.warm_ups,
        )

    def version_invocation(self) -> Invocation | None:
        return None

    def parse_version(self, raw: RawOutput) -> str | None:
        return None

    def parse(self, raw: RawOutput, parameters: Mapping[str, Any]) -> ParsedRun:
        printed = PrintedNumber(raw)
        found = [metric.read(printed) for metric in self.metric]
        used = (
            ("wall", raw.wall_ns, 1e-9, "ns"),
            ("user", raw.user_us, 1e-6, "us"),
            ("system", raw.system_us, 1e-6, "us"),
            ("peak_memory", raw.max_rss_bytes, 1, "B"),
        )
        found += [
            Measurement(outcome=name, value=value * factor, original=f"{value} {unit}")
            for name, value, factor, unit in used
            if value is not None
        ]
        cut = "the command printed more than ktrial captures; only the beginning of its output is stored"
        notes = (cut,) if raw.cut else ()
        return ParsedRun(measurements=tuple(found), notes=notes)


def check_run(benchmark: Benchmark, raw: RawOutput) -> None:
    """Raise BadRun if a run failed, or if output that the benchmark parses is incomplete."""
    unread = isinstance(benchmark, OwnBenchmark) and not benchmark.metric
    raw = msgspec.structs.replace(raw, cut=False) if unread else raw
    if isinstance(benchmark, OwnBenchmark) and benchmark.any_status and raw.exit_status is not None:
        raw = msgspec.structs.replace(raw, exit_status=0)
    check_exit(raw)


def whole_number(found: re.Match[str]) -> str:
    """Return the number with adjacent digits outside the match: in `1,5`, an expression may have matched only `1`."""
    begin, end = found.span(1)
    before, after = found.string[max(0, begin - _BESIDE) : begin], found.string[end : end + _BESIDE]
    began = (_BEGAN_OUTSIDE if begin == found.start() else _BEGAN).search(before)
    goes_on = _GOES_ON.match(after) if end == found.end() else None
    return f"{began[0] if began else ''}{found[1]}{goes_on[0] if goes_on else ''}"


def parse_metric(text: str) -> Metric:
    """Parse `NAME:lower=REGEX` or `NAME:lower=$.path`; the direction is `lower` or `higher`."""
    head, equals, expression = text.partition("=")
    name, colon, direction = head.partition(":")
    if not equals or not colon or direction not in {"lower", "higher"} or not expression:
        raise BadInput(f"cannot read --metric {text!r}: expected NAME:lower=REGEX or NAME:higher=REGEX", hint=_USAGE)
    metric = Metric(name, "lower" if direction == "lower" else "higher", expression)
    metric.check()
    return metric


class ShellCommand(OwnBenchmark, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A command from the command line with the shell's variables; records show `told` in place of the values."""

    told: dict[str, str] = {}

    def invocation(self, parameters: Mapping[str, Any], facts: FactBook) -> Invocation:
        return msgspec.structs.replace(OwnBenchmark.invocation(self, parameters, facts), told=self.told)


def _outcome(name: str, unit: Unit, kind: OutcomeKind, direction: Direction, *, low: float = 0) -> Outcome:
    text = f"The command's {name} became [better|worse]."
    blind = "Covers everything that the command does, including its start."
    return outcome(name, unit, kind, text, blind, (low, _PLENTY), direction=direction)


_USED = (
    _outcome("wall", "s", "time", "lower"),
    _outcome("user", "s", "time", "lower"),
    _outcome("system", "s", "time", "lower"),
    _outcome("peak_memory", "B", "size", "lower"),
)

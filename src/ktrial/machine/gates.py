# SPDX-License-Identifier: Apache-2.0
"""Rules on the conditions under which groups of runs were measured: pass, suspect, refuse.

A gate looks at one reading. What passes gives no finding; what could not be read gives one of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Literal, NamedTuple

import msgspec

from ktrial.kit.errors import BadInput, UnknownName
from ktrial.kit.finding import Finding
from ktrial.kit.units import parse_quantity, show_bytes, show_seconds

Reading = float | str | None
#: Conditions of one run by name; None could not be read, ABSENT is known not to exist there.
Readings = Mapping[str, Reading]
#: Groups (arms, labels) of runs.
Groups = Mapping[str, Sequence[Readings]]
Level = Literal["suspect", "refuse", "could-not-tell"]
ABSENT = "none"
OFF = "off"
SAME = "same"
#: How the failure of a run begins that is void.
VOID = "void"

_LEVELS: tuple[Level, ...] = ("suspect", "refuse")
#: Digits after which two distances are the same.
_DIGITS = 9


class GateFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A doubt about a comparison, or about one run. `limit` is as it was set; `values` are by group."""

    gate: str
    level: Level
    groups: tuple[str, ...]
    values: Mapping[str, float | str]
    limit: str
    sentence: str


class GateLimits(msgspec.Struct, frozen=True):
    """From where on one gate doubts and refuses; None for never. `same` gates know no numbers, only the level."""

    suspect: float | None = None
    refuse: float | None = None
    same: Literal["suspect", "refuse"] | None = None

    @property
    def is_off(self) -> bool:
        return self.suspect is None and self.refuse is None and self.same is None


class Gate(NamedTuple):
    """One rule.

    `distance` and `ratio` compare the medians of groups, `same` their texts, `above` each run by itself, and `share`
    tells how many runs were touched at all.
    """

    name: str
    reading: str
    rule: Literal["distance", "ratio", "same", "above", "share"]
    dimension: str
    what: str
    default: GateLimits


def _percent(value: float) -> str:
    return f"{value:.3g} %"


def _celsius(value: float) -> str:
    return f"{value:.1f} °C"


def _ratio(value: float) -> str:
    return f"{value:.3g} times as much" if math.isfinite(value) else "all of it in one"


_SHOWN: Mapping[str, Callable[[float], str]] = {
    "celsius": _celsius,
    "percent": _percent,
    "seconds": show_seconds,
    "bytes": show_bytes,
    "ratio": _ratio,
    "number": lambda value: f"{value:g}",
}
#: Readings of these are shares from 0 to 1; their limits are written in percent.
_SHARES = frozenset(("others_share", "steal_share", "zram_fill", "disk_full"))

GATES: Mapping[str, Gate] = {
    gate.name: gate
    for gate in (
        Gate("start_temperature", "temperature_c", "distance", "celsius", "temperature at the start", GateLimits(5, 8)),
        Gate("on_ac", "power_source", "same", "", "power source", GateLimits(same="refuse")),
        Gate("battery", "battery_percent", "distance", "percent", "battery level", GateLimits(None, 10)),
        Gate("governor", "governor", "same", "", "cpufreq governor", GateLimits(same="suspect")),
        Gate("uptime", "uptime_s", "ratio", "seconds", "time since boot", GateLimits(4)),
        Gate("free_pages", "free_high_order_pages", "ratio", "number", "free high-order pages", GateLimits(4)),
        Gate("swap", "swap_used_bytes", "above", "bytes", "swap in use", GateLimits(16 << 20)),
        Gate("zram", "zram_fill", "above", "percent", "zram filled", GateLimits(50)),
        Gate("disk", "disk_full", "above", "percent", "disk filled", GateLimits(90)),
        Gate("others", "others_share", "above", "percent", "CPU time that others used before it", GateLimits(10)),
        Gate("steal", "steal_share", "above", "percent", "CPU time taken by the hypervisor", GateLimits(2)),
        Gate("throttling", "throttled_share", "share", "percent", "thermally limited", GateLimits(0)),
        Gate("kernel_log", "kernel_warnings", "share", "number", "warnings of the kernel", GateLimits(0)),
    )
}
"""All gates with their defaults. Free pages of high order differ by a factor of 4 when memory is fragmented in one
group and not in the other; swap up to 16 MiB is what an idle desktop leaves behind after boot."""

#: Limits by rule, else by dimension.
_EXAMPLES = {"same": SAME, "ratio": "4x", "share": "10%", "celsius": "8C", "bytes": "16MiB"}
#: Readings that records of before do not have: there was nobody to tell them.
_LATER = frozenset(("others_share",))
#: Known after a run only.
OF_THE_RUN = frozenset(("steal", "throttling", "kernel_log"))

DEFAULTS: Mapping[str, GateLimits] = {name: gate.default for name, gate in GATES.items()}


def parse_gates(table: Mapping[str, Any]) -> dict[str, GateLimits]:
    """`[gates]` of a protocol over the defaults. Raises BadInput; a gate that is not known names the nearest."""
    limits = dict(DEFAULTS)
    for name, value in table.items():
        if name not in GATES:
            raise UnknownName("gate", name, GATES, hint=f"there are {', '.join(GATES)}")
        limits[name] = _parsed(GATES[name], value)
    return limits


def _parsed(gate: Gate, value: Any) -> GateLimits:
    if value == OFF:
        return GateLimits()
    if isinstance(value, Mapping):
        for key in value:
            if key not in _LEVELS:
                raise UnknownName(f"level of gate {gate.name}", str(key), _LEVELS, hint="there are suspect and refuse")
        if gate.rule == "same":
            return GateLimits(same=_same_level(gate, value))
        suspect, refuse = (None if key not in value else _limit(gate, value[key]) for key in _LEVELS)
        if suspect is not None and refuse is not None and suspect > refuse:
            raise BadInput(f"gate {gate.name}: it refuses before it doubts", hint="suspect is the lower limit")
        return GateLimits(suspect, refuse)
    if gate.rule == "same":
        if value != SAME:
            raise _bad(gate, value)
        return gate.default
    limit = _limit(gate, value)
    if gate.default.refuse is None:
        return GateLimits(suspect=limit)
    suspect = gate.default.suspect
    return GateLimits(suspect=None if suspect is None else min(suspect, limit), refuse=limit)


def _same_level(gate: Gate, value: Mapping[str, Any]) -> Literal["suspect", "refuse"]:
    for one in value.values():
        if one != SAME:
            raise _bad(gate, one)
    return "refuse" if "refuse" in value else "suspect"


def _limit(gate: Gate, value: Any) -> float:
    dimension = "ratio" if gate.rule == "ratio" else "percent" if gate.rule == "share" else gate.dimension
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _bad(gate, value)
    try:
        limit = parse_quantity(value, dimension) if isinstance(value, str) else float(value)
    except ValueError:
        raise _bad(gate, value) from None
    if not math.isfinite(limit) or limit < (1 if gate.rule == "ratio" else 0):
        raise _bad(gate, value)
    return limit


def _bad(gate: Gate, value: Any) -> BadInput:
    example = _EXAMPLES.get(gate.rule) or _EXAMPLES.get(gate.dimension, "5%")
    return BadInput(
        f"gate {gate.name}: {value!r} is not a limit", hint=f'for example {gate.name} = "{example}", or "{OFF}"'
    )


def judge_groups(groups: Groups, limits: Mapping[str, GateLimits] = DEFAULTS) -> tuple[GateFinding, ...]:
    """Return findings of all gates, in the order of GATES; the order of groups does not matter."""
    ordered = {name: groups[name] for name in sorted(groups)}
    found: list[GateFinding] = []
    for gate in GATES.values():
        limit = limits.get(gate.name, gate.default)
        if not limit.is_off:
            unknown = ABSENT if gate.reading in _LATER else None
            columns = {name: [run.get(gate.reading, unknown) for run in runs] for name, runs in ordered.items()}
            for column in columns.values():
                _check(gate, column)
            found += _missing(gate, columns, limit)
            found += _RULES[gate.rule](gate, columns, limit)
    return tuple(found)


def judge_start(
    reference: Readings, now: Readings, limits: Mapping[str, GateLimits] = DEFAULTS
) -> tuple[GateFinding, ...]:
    """Return findings on one run before it starts, against the first one. What refuses here makes the run void."""
    at_start = {name: GateLimits() if name in OF_THE_RUN else limits.get(name, DEFAULTS[name]) for name in GATES}
    alone = {name for name in GATES if GATES[name].rule == "above"}
    against = {name: GateLimits() if name in alone else limit for name, limit in at_start.items()}
    itself = {name: limit if name in alone else GateLimits() for name, limit in at_start.items()}
    return (
        *judge_groups({"first run": [reference], "this run": [now]}, against),
        *judge_groups({"this run": [now]}, itself),
    )


def why_void(
    before: Iterable[GateFinding] = (), *, suspended_s: float = 0.0, misread: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return why a run is void; nothing else than these makes it so.

    `before`: findings of gates that were read before the run. `misread`: knobs that no longer read back as set.
    """
    if not math.isfinite(suspended_s) or suspended_s < 0:
        raise BadInput(f"{suspended_s} is not a time that a machine slept")
    reasons = [one.sentence for one in before if one.level == "refuse"]
    if suspended_s > 0:
        reasons.append(f"the machine slept for {show_seconds(suspended_s)} during the run")
    reasons += [f"{knob} no longer reads back as set" for knob in misread]
    return tuple(reasons)


def _check(gate: Gate, column: Sequence[Reading]) -> None:
    """Raise BadInput for what cannot be a reading of this gate."""
    for value in column:
        if value is None or value == ABSENT or (gate.rule == "same" and isinstance(value, str)):
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if gate.rule == "same" or not number or not math.isfinite(float(value)) or not _possible(gate, float(value)):
            raise BadInput(f"{gate.reading} = {value!r} is not a reading of {gate.what}")


def _possible(gate: Gate, value: float) -> bool:
    """Return whether a number lies where readings of this kind can lie at all."""
    return gate.dimension == "celsius" or value >= 0


def _missing(gate: Gate, columns: Mapping[str, Sequence[Reading]], limit: GateLimits) -> list[GateFinding]:
    counts = {name: sum(value is None for value in column) for name, column in columns.items()}
    short = {name: count for name, count in counts.items() if count or not columns[name]}
    if not short:
        return []
    told = ", ".join(f"{count} of {len(columns[name])} runs of {name}" for name, count in short.items())
    return [
        GateFinding(
            gate=gate.name,
            level="could-not-tell",
            groups=tuple(short),
            values={},
            limit=limit_text(gate, limit),
            sentence=f"could not tell {gate.what}: not known of {told}",
        )
    ]


def _apart(gate: Gate, columns: Mapping[str, Sequence[Reading]], limit: GateLimits) -> list[GateFinding]:
    """Return the two groups whose medians are farthest apart."""
    mixed = _presence(gate, columns, limit)
    medians = {name: median(numbers) for name, column in columns.items() if (numbers := _numbers(gate, column))}
    if mixed or len(medians) < 2:
        return mixed
    low, high = min(medians, key=lambda name: medians[name]), max(medians, key=lambda name: medians[name])
    is_distance = gate.rule == "distance"
    apart = round(medians[high] - medians[low], _DIGITS) if is_distance else _times(medians[low], medians[high])
    level = _level(apart, limit)
    if level is None:
        return []
    show = _SHOWN[gate.dimension]
    of_percent = gate.dimension == "percent"
    distance = f"{f'{apart:.3g} points' if of_percent else show(apart)} apart" if is_distance else _ratio(apart)
    sides = " and ".join(f"{show(medians[name])} in {name}" for name in sorted((low, high)))
    sentence = f"{gate.what}: {sides}, {distance} (limit {limit_text(gate, limit, level)})"
    return [_finding(gate, level, (low, high), medians, limit, sentence)]


def _presence(gate: Gate, columns: Mapping[str, Sequence[Reading]], limit: GateLimits) -> list[GateFinding]:
    """Some groups have what others are known not to have."""
    without = {name for name, column in columns.items() if ABSENT in column}
    having = {name for name, column in columns.items() if _numbers(gate, column)}
    if not without or not having:
        return []
    level = _level(math.inf, limit) or "suspect"
    sentence = f"{gate.what}: there is none in {', '.join(sorted(without))}, but in {', '.join(sorted(having))}"
    return [_finding(gate, level, without | having, {}, limit, sentence)]


def _alike(gate: Gate, columns: Mapping[str, Sequence[Reading]], limit: GateLimits) -> list[GateFinding]:
    texts = {name: sorted({str(value) for value in column if value is not None}) for name, column in columns.items()}
    known = {name: " and ".join(values) for name, values in texts.items() if values}
    if len({value for values in texts.values() for value in values}) < 2 or limit.same is None:
        return []
    told = ", ".join(f"{value} in {name}" for name, value in known.items())
    return [_finding(gate, limit.same, known, known, limit, f"{gate.what} differs: {told}")]


def _above(gate: Gate, columns: Mapping[str, Sequence[Reading]], limit: GateLimits) -> list[GateFinding]:
    """Return the highest reading of each group that is above the limit."""
    highest = {name: max(numbers) for name, column in columns.items() if (numbers := _numbers(gate, column))}
    worst = max(highest.values(), default=0.0)
    level = _level(worst, limit)
    if level is None:
        return []
    reached = {name: value for name, value in highest.items() if _level(value, limit) is not None}
    counts = (
        (name, sum(_level(number, limit) is not None for number in _numbers(gate, columns[name]))) for name in reached
    )
    show = _SHOWN[gate.dimension]
    told = ", ".join(
        f"up to {show(reached[name])} in {name} ({count}/{len(columns[name])} runs)" for name, count in counts
    )
    sentence = f"{gate.what}: {told} (limit {limit_text(gate, limit, level)})"
    return [_finding(gate, level, reached, highest, limit, sentence)]


def _touched(gate: Gate, columns: Mapping[str, Sequence[Reading]], limit: GateLimits) -> list[GateFinding]:
    """Return how many runs of each group were touched at all. The arm may have caused it, so it never voids a run."""
    shares: dict[str, float] = {}
    told = []
    for name, column in columns.items():
        numbers = _numbers(gate, column)
        if numbers:
            count = sum(number > 0 for number in numbers)
            shares[name] = 100 * count / len(numbers)
            told.append(f"{count}/{len(numbers)} in {name}")
    level = _level(max(shares.values(), default=0.0), limit)
    if level is None:
        return []
    return [_finding(gate, level, shares, shares, limit, f"{gate.what}: runs {', '.join(told)}")]


_RULES: Mapping[str, Callable[[Gate, Mapping[str, Sequence[Reading]], GateLimits], list[GateFinding]]] = {
    "distance": _apart,
    "ratio": _apart,
    "same": _alike,
    "above": _above,
    "share": _touched,
}


def _numbers(gate: Gate, column: Sequence[Reading]) -> list[float]:
    factor = 100.0 if gate.reading in _SHARES else 1.0
    return [float(value) * factor for value in column if isinstance(value, int | float)]


def _times(low: float, high: float) -> float:
    if low == high:
        return 1.0
    return math.inf if low == 0 else round(high / low, _DIGITS)


def _level(value: float, limit: GateLimits) -> Literal["suspect", "refuse"] | None:
    if limit.refuse is not None and value > limit.refuse:
        return "refuse"
    return "suspect" if limit.suspect is not None and value > limit.suspect else None


def limit_text(gate: Gate, limit: GateLimits, level: Level | None = None) -> str:
    """Return the limit that was passed; of what was not judged the first one."""
    if limit.same is not None:
        return SAME
    first = limit.suspect if limit.suspect is not None else limit.refuse
    value = limit.refuse if level == "refuse" else first
    if value is None:
        return OFF
    if gate.rule == "ratio":
        return f"{value:g}x"
    return _percent(value) if gate.rule == "share" else _SHOWN[gate.dimension](value)


def _finding(
    gate: Gate,
    level: Literal["suspect", "refuse"],
    groups: Iterable[str],
    values: Mapping[str, float | str],
    limit: GateLimits,
    sentence: str,
) -> GateFinding:
    return GateFinding(
        gate=gate.name,
        level=level,
        groups=tuple(sorted(groups)),
        values=dict(sorted(values.items())),
        limit=limit_text(gate, limit, level),
        sentence=sentence,
    )


def finding_of(found: GateFinding) -> Finding:
    """Return what a gate found; what it could not tell is good to know."""
    level = "note" if found.level == "could-not-tell" else found.level
    return Finding(kind=found.gate, level=level, sentence=found.sentence, values=found.values)


def group_findings(groups: Groups, limits: Mapping[str, GateLimits]) -> tuple[Finding, ...]:
    """Return what all gates find in groups of runs: the one way from readings to doubts."""
    return tuple(finding_of(one) for one in judge_groups(groups, limits))

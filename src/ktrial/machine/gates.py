# SPDX-License-Identifier: Apache-2.0
"""Gates: rules that judge the conditions under which runs were measured.

A gate checks one reading; its result is pass, suspect or refuse. A pass gives no finding. A reading that failed gives a
finding of its own.
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
#: Conditions of one run by name; None if the reading failed, ABSENT if the machine lacks the thing to read.
Readings = Mapping[str, Reading]
#: Groups (arms, labels) of runs.
Groups = Mapping[str, Sequence[Readings]]
Level = Literal["suspect", "refuse", "could-not-tell"]
ABSENT = "none"
OFF = "off"
SAME = "same"
#: The first word in the failure of a void run.
VOID = "void"

_LEVELS: tuple[Level, ...] = ("suspect", "refuse")
#: The number of digits to which two distances are compared.
_DIGITS = 9


class GateFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A doubt about a comparison or a run; `limit` is the configured limit, and `values` are by group."""

    gate: str
    level: Level
    groups: tuple[str, ...]
    values: Mapping[str, float | str]
    limit: str
    sentence: str


class GateLimits(msgspec.Struct, frozen=True):
    """The limits above which a gate suspects or refuses; None means never. `same` is the level of a `same` gate."""

    suspect: float | None = None
    refuse: float | None = None
    same: Literal["suspect", "refuse"] | None = None

    @property
    def is_off(self) -> bool:
        return self.suspect is None and self.refuse is None and self.same is None


class Gate(NamedTuple):
    """A rule about one reading.

    `distance` and `ratio` compare the medians of groups, and `same` compares their texts. `above` checks each run by
    itself, and `share` counts the affected runs.
    """

    name: str
    reading: str
    rule: Literal["distance", "ratio", "same", "above", "share"]
    dimension: str
    what: str
    default: GateLimits
    #: What is unknown if there is no reading; None stands for `what`.
    unknown: str | None = None


def _percent(value: float) -> str:
    return f"{value:.3g} %"


def _ratio(value: float) -> str:
    return f"{value:.3g} times as much" if math.isfinite(value) else "all of it in one"


_SHOWN: Mapping[str, Callable[[float], str]] = {
    "celsius": lambda value: f"{value:.1f} °C",
    "percent": _percent,
    "seconds": show_seconds,
    "bytes": show_bytes,
    "ratio": _ratio,
    "number": lambda value: f"{value:g}",
}
#: The reading that tells how near the load generator of a run was to its limit.
GENERATOR_BUSY = "generator_busy"
#: These readings are shares from 0 to 1, with limits in percent.
_SHARES = frozenset(("others_share", "steal_share", "zram_fill", "disk_full", GENERATOR_BUSY))

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
        Gate(
            "others",
            "others_share",
            "above",
            "percent",
            "CPU time that other programs used before the run",
            GateLimits(10),
        ),
        Gate("steal", "steal_share", "above", "percent", "CPU time taken by the hypervisor", GateLimits(2)),
        Gate("throttling", "throttled_share", "share", "percent", "thermally limited", GateLimits(0)),
        Gate("kernel_log", "kernel_warnings", "share", "number", "warnings of the kernel", GateLimits(0)),
        Gate("screen", "screen", "same", "", "screen", GateLimits(same="refuse")),
        Gate("battery_saver", "battery_saver", "same", "", "battery saver", GateLimits(same="refuse")),
        Gate("skin", "skin_c", "distance", "celsius", "temperature of the surface", GateLimits(1.5, 3)),
        Gate("thermal_status", "thermal_status", "above", "number", "Android's thermal status", GateLimits(0)),
        Gate(
            "load_generator",
            GENERATOR_BUSY,
            "above",
            "percent",
            "the load generator was saturated",
            GateLimits(80),
            "how busy the load generator was",
        ),
    )
}
"""All gates with their defaults. Free high-order pages differ by a factor of 4 if memory is fragmented in one group
and not in the other; an idle desktop has up to 16 MiB of swap in use after boot."""

#: Example limits by rule, or by dimension.
_EXAMPLES = {"same": SAME, "ratio": "4x", "share": "10%", "celsius": "8C", "bytes": "16MiB", "number": "1"}
#: Readings that older records lack, because ktrial did not take them yet.
_LATER = frozenset(("others_share", "screen", "battery_saver", "skin_c", "thermal_status", GENERATOR_BUSY))
#: Gates that only phones have.
OF_PHONES = ("screen", "battery_saver", "skin", "thermal_status")
#: The gate of runs whose load comes from another machine.
LOAD_GENERATOR = "load_generator"
#: Gates that only some measurements have.
_OF_SOME = (*OF_PHONES, LOAD_GENERATOR)
#: Gates whose readings are only known after a run.
OF_THE_RUN = frozenset(("steal", "throttling", "kernel_log", LOAD_GENERATOR))

DEFAULTS: Mapping[str, GateLimits] = {name: gate.default for name, gate in GATES.items()}


def parse_gates(table: Mapping[str, Any], *, phone: bool = False, has_generator: bool = False) -> dict[str, GateLimits]:
    """Return the limits of all gates, from a `[gates]` table or from the defaults.

    Without `phone`, leave out the gates of phones; without `has_generator`, the load generator's gate. Gates in the
    table are never left out. Raise BadInput for an unknown gate or an invalid limit.
    """
    absent = {*(() if phone else OF_PHONES), *(() if has_generator else (LOAD_GENERATOR,))}
    limits = {name: limit for name, limit in DEFAULTS.items() if name not in absent}
    for name, value in table.items():
        if name not in GATES:
            raise UnknownName("gate", name, GATES, hint=f"use one of: {', '.join(GATES)}")
        limits[name] = _parsed(GATES[name], value)
    return limits


def _parsed(gate: Gate, value: Any) -> GateLimits:
    if value == OFF:
        return GateLimits()
    if isinstance(value, Mapping):
        for key in value:
            if key not in _LEVELS:
                raise UnknownName(f"level of gate {gate.name}", str(key), _LEVELS, hint="use suspect or refuse")
        if gate.rule == "same":
            return GateLimits(same=_same_level(gate, value))
        suspect, refuse = (None if key not in value else _limit(gate, value[key]) for key in _LEVELS)
        if suspect is not None and refuse is not None and suspect > refuse:
            raise BadInput(
                f"gate {gate.name}: the limit `suspect` is above `refuse`", hint="make `suspect` the lower limit"
            )
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
        is_plain = dimension == "number" or not isinstance(value, str)
        limit = float(value) if is_plain else parse_quantity(str(value), dimension)
    except ValueError:
        raise _bad(gate, value) from None
    if not math.isfinite(limit) or limit < (1 if gate.rule == "ratio" else 0):
        raise _bad(gate, value)
    return limit


def _bad(gate: Gate, value: Any) -> BadInput:
    example = _EXAMPLES.get(gate.rule) or _EXAMPLES.get(gate.dimension, "5%")
    return BadInput(f"gate {gate.name}: {value!r} is not a limit", hint=f"write a limit such as {example}, or {OFF}")


def judge_groups(groups: Groups, limits: Mapping[str, GateLimits] = DEFAULTS) -> tuple[GateFinding, ...]:
    """Return the findings of all gates, in the order of GATES; the order of groups has no effect."""
    ordered = {name: groups[name] for name in sorted(groups)}
    found: list[GateFinding] = []
    for gate in GATES.values():
        limit = limits.get(gate.name, gate.default)
        is_elsewhere = gate.name in _OF_SOME and not any(
            gate.reading in run for runs in ordered.values() for run in runs
        )
        if not limit.is_off and not is_elsewhere:
            unknown = ABSENT if gate.reading in _LATER else None
            columns = {name: [run.get(gate.reading, unknown) for run in runs] for name, runs in ordered.items()}
            for name, column in columns.items():
                _check(gate, name, column)
            found += _missing(gate, columns, limit)
            found += _RULES[gate.rule](gate, columns, limit)
    return tuple(found)


def judge_start(
    reference: Readings, now: Readings, limits: Mapping[str, GateLimits] = DEFAULTS
) -> tuple[GateFinding, ...]:
    """Judge the readings before a run, most of them by comparison with the first run. A refusal makes the run void."""
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
    """Return the reasons why a run is void, which means that it does not count.

    `before` are findings of gates from before the run. `misread` names settings that no longer have the value
    that ktrial set.
    """
    if not math.isfinite(suspended_s) or suspended_s < 0:
        raise ValueError(f"expected a suspend time of 0 seconds or more, got {suspended_s}")
    reasons = [one.sentence for one in before if one.level == "refuse"]
    if suspended_s > 0:
        reasons.append(f"the machine slept for {show_seconds(suspended_s)} during the run")
    reasons += [f"{knob} no longer has the value that ktrial set" for knob in misread]
    return tuple(reasons)


def _check(gate: Gate, group: str, column: Sequence[Reading]) -> None:
    for value in column:
        if value is None or value == ABSENT or (gate.rule == "same" and isinstance(value, str)):
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if gate.rule == "same" or not number or not math.isfinite(float(value)) or not _possible(gate, float(value)):
            raise BadInput(
                f"cannot use {gate.reading} of {group}: {value!r} is not a possible reading of {gate.what}",
                hint="measure this run again, or leave out its session",
            )


def _possible(gate: Gate, value: float) -> bool:
    return gate.dimension == "celsius" or value >= 0


def _missing(gate: Gate, columns: Mapping[str, Sequence[Reading]], limit: GateLimits) -> list[GateFinding]:
    counts = {name: sum(value is None for value in column) for name, column in columns.items()}
    short = {name: count for name, count in counts.items() if count or not columns[name]}
    if not short:
        return []
    details = ", ".join(f"{count} of {len(columns[name])} runs of {name}" for name, count in short.items())
    return [
        GateFinding(
            gate=gate.name,
            level="could-not-tell",
            groups=tuple(short),
            values={},
            limit=limit_text(gate, limit),
            sentence=f"{gate.unknown or gate.what} is unknown in {details}",
        )
    ]


def _apart(gate: Gate, columns: Mapping[str, Sequence[Reading]], limit: GateLimits) -> list[GateFinding]:
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
    """Report that some groups have a thing that others lack."""
    without = {name for name, column in columns.items() if ABSENT in column}
    having = {name for name, column in columns.items() if _numbers(gate, column)}
    if not without or not having:
        return []
    level = _level(math.inf, limit) or "suspect"
    sentence = f"{gate.what}: none in {', '.join(sorted(without))}, but some in {', '.join(sorted(having))}"
    return [_finding(gate, level, without | having, {}, limit, sentence)]


def _alike(gate: Gate, columns: Mapping[str, Sequence[Reading]], limit: GateLimits) -> list[GateFinding]:
    texts = {name: sorted({str(value) for value in column if value is not None}) for name, column in columns.items()}
    known = {name: " and ".join(values) for name, values in texts.items() if values}
    if len({value for values in texts.values() for value in values}) < 2 or limit.same is None:
        return []
    details = ", ".join(f"{value} in {name}" for name, value in known.items())
    return [_finding(gate, limit.same, known, known, limit, f"{gate.what} differs: {details}")]


def _above(gate: Gate, columns: Mapping[str, Sequence[Reading]], limit: GateLimits) -> list[GateFinding]:
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
    details = ", ".join(
        f"up to {show(reached[name])} in {name} ({count}/{len(columns[name])} runs)" for name, count in counts
    )
    sentence = f"{gate.what}: {details} (limit {limit_text(gate, limit, level)})"
    return [_finding(gate, level, reached, highest, limit, sentence)]


def _touched(gate: Gate, columns: Mapping[str, Sequence[Reading]], limit: GateLimits) -> list[GateFinding]:
    """Compare the numbers of affected runs. This never voids a run, because the arm may be the cause."""
    shares: dict[str, float] = {}
    details = []
    for name, column in columns.items():
        numbers = _numbers(gate, column)
        if numbers:
            count = sum(number > 0 for number in numbers)
            shares[name] = 100 * count / len(numbers)
            details.append(f"{count}/{len(numbers)} in {name}")
    level = _level(max(shares.values(), default=0.0), limit)
    if level is None:
        return []
    return [_finding(gate, level, shares, shares, limit, f"{gate.what}: runs {', '.join(details)}")]


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
    """Return the limit of a level as text; without a level, the lower limit."""
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
    """Convert a gate's finding; an unknown reading becomes a note."""
    level = "note" if found.level == "could-not-tell" else found.level
    return Finding(kind=found.gate, level=level, sentence=found.sentence, values=found.values)


def group_findings(groups: Groups, limits: Mapping[str, GateLimits]) -> tuple[Finding, ...]:
    """Return the findings of `judge_groups`, converted for a result."""
    return tuple(finding_of(one) for one in judge_groups(groups, limits))


def gates_text(limits: Mapping[str, GateLimits], level: Level) -> str:
    """Return the gates of a level with their limits: `on_ac same, start_temperature 8.0 °C`."""
    return ", ".join(
        f"{name} {limit_text(GATES[name], one, level)}" for name, one in limits.items() if _has(one, level)
    )


def unread_gates(limits: Mapping[str, GateLimits], now: Readings) -> tuple[str, ...]:
    """Return the enabled gates without a reading on this machine before a run."""
    return tuple(
        name for name, limit in limits.items() if not limit.is_off and name not in OF_THE_RUN and _is_silent(name, now)
    )


def idle_gates(limits: Mapping[str, GateLimits], rows: Sequence[Readings]) -> tuple[str, ...]:
    """Return the enabled gates, other than `above` gates, whose reading was ABSENT in all `rows`, one row per run."""
    return tuple(
        name
        for name, limit in limits.items()
        if rows
        and not limit.is_off
        and all(row.get(GATES[name].reading) == ABSENT for row in rows)
        and GATES[name].rule != "above"
    )


def _is_silent(name: str, now: Readings) -> bool:
    """Return whether a gate has no reading; for `above` gates such as swap, ABSENT counts as a reading."""
    reading = now.get(GATES[name].reading)
    return reading is None or (reading == ABSENT and GATES[name].rule != "above")


def _has(limit: GateLimits, level: Level) -> bool:
    if limit.same is not None:
        return limit.same == level
    return (limit.refuse if level == "refuse" else limit.suspect) is not None

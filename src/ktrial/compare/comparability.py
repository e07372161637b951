# SPDX-License-Identifier: Apache-2.0
"""Whether two arms can be compared at all: the differences in their tools, machines and conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ktrial.bench.doubts import void_finding
from ktrial.bench.environment import of_one_salt
from ktrial.compare.arms import Arm
from ktrial.kit.finding import Finding, FindingLevel
from ktrial.machine.gates import DEFAULTS, GATES, GateLimits, group_findings

_SHOWN = 60


class Key(NamedTuple):
    """A property that must be the same in both arms. With `of_tool`, ktrial checks each benchmark."""

    name: str
    what: str
    level: FindingLevel
    of_tool: bool = False


#: All compared properties by name. `--declared NAME` states that a difference is intended.
KEYS: Mapping[str, Key] = {
    key.name: key
    for key in (
        Key("tool", "version of the tool", "refuse", of_tool=True),
        Key("command", "command line of the benchmark", "refuse", of_tool=True),
        Key("parameters", "parameters of the benchmark", "refuse", of_tool=True),
        Key("cpus", "CPUs that the benchmark runs on", "refuse", of_tool=True),
        Key("load", "background load", "refuse", of_tool=True),
        Key("runtime", "container or runtime", "refuse", of_tool=True),
        Key("environment", "environment of the benchmark", "suspect", of_tool=True),
        Key("cpu", "CPU", "refuse"),
        Key("threads", "number of CPUs", "refuse"),
        Key("virtualisation", "kind of machine", "refuse"),
        Key("governor", "cpufreq governor", "refuse"),
        Key("power", "power source", "refuse"),
        Key("kernel", "kernel release", "suspect"),
        Key("memory", "size of memory", "suspect"),
        Key("board", "board", "suspect"),
        Key("settings", "settings of the kernel", "suspect"),
        Key("system", "operating system", "suspect"),
    )
}
#: Keys whose absence is reported; the others may be missing silently.
_EXPECTED = ("tool", "command", "governor", "power", "kernel", "threads")
#: Gates whose readings are compared as keys.
_HERE = frozenset(("governor", "on_ac"))


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """A finding on one arm against the control. `benchmark` is set if the finding concerns only that benchmark."""

    arm: str
    finding: Finding
    benchmark: str | None = None

    def concerns(self, arm: str, benchmark: str) -> bool:
        return self.arm == arm and self.benchmark in (None, benchmark)


def doubts(control: Arm, arms: Iterable[Arm], declared: Iterable[str] = ()) -> tuple[Doubt, ...]:
    """Return a doubt for every difference, arm by arm, then doubts about void runs and unknown properties.

    `declared` names the keys that are meant to differ.
    """
    meant = frozenset(declared)
    others = tuple(arms)
    found = (doubt for arm in others for doubt in _against(control, arm, meant))
    return (*found, *_voids((control, *others)), *_unknown((control, *others)))


def _against(control: Arm, arm: Arm, meant: frozenset[str]) -> Iterator[Doubt]:
    yield from _same_data(control, arm)
    shared = [name for name in _benchmarks(control) if name in _benchmarks(arm)]
    for key in KEYS.values():
        for benchmark in shared if key.of_tool else [None]:
            found = _differs(key, control, arm, benchmark, meant)
            if found is not None:
                yield Doubt(arm=arm.name, benchmark=benchmark, finding=found)
    yield from (Doubt(arm=arm.name, finding=found) for found in (*_others(control, arm), *_gates(control, arm)))


def _same_data(control: Arm, arm: Arm) -> Iterator[Doubt]:
    both = {run.name for run in control.runs} & {run.name for run in arm.runs}
    if both:
        finding = Finding(
            kind="same-runs",
            level="refuse",
            sentence=f"{arm.name} and {control.name} have {_count(len(both), 'run')} in common",
            values={"runs": float(len(both))},
        )
        yield Doubt(arm=arm.name, finding=finding)


def _differs(key: Key, control: Arm, arm: Arm, benchmark: str | None, meant: frozenset[str]) -> Finding | None:
    values = {one.name: one.values_of(key.name, benchmark) for one in (control, arm)}
    if key.name == "environment":
        values = of_one_salt(values)
    if not all(values.values()) or len({text for side in values.values() for text in side}) < 2:
        return None
    if key.name == "command" and all(side == (name,) for name, side in values.items()):
        return None  # the arms are named after these commands
    shown = _apart({name: " and ".join(side) for name, side in values.items()})
    told = "; ".join(f"{text} in {name}" for name, text in shown.items())
    where = "" if benchmark is None else f" ({benchmark})"
    is_meant = key.name in meant
    return Finding(
        kind=f"other-{key.name}",
        level="note" if is_meant else key.level,
        sentence=f"{key.what}{where} differs{', as declared' if is_meant else ''}: {told}",
        values=shown,
    )


def _others(control: Arm, arm: Arm) -> Iterator[Finding]:
    """Yield a finding for each other attribute of foreign files that is constant in both arms but not equal."""
    sides = [_constants(one) for one in (control, arm)]
    for name in sorted(set(sides[0]) & set(sides[1])):
        texts = {one.name: side[name] for one, side in zip((control, arm), sides, strict=True)}
        if len(set(texts.values())) > 1 and any(text != label for label, text in texts.items()):
            told = "; ".join(f"{_short(text)} in {label}" for label, text in texts.items())
            yield Finding(kind="other-attribute", level="note", sentence=f"{name} differs: {told}", values=texts)


def _constants(arm: Arm) -> dict[str, str]:
    """Return the attributes that all runs of an arm state with the same value."""
    found: dict[str, set[str]] = {}
    for run in arm.runs:
        for name, text in run.other.items():
            found.setdefault(name, set()).add(text)
    whole = {name for name in found if all(name in run.other for run in arm.runs)}
    return {name: next(iter(found[name])) for name in whole if len(found[name]) == 1}


def _gates(control: Arm, arm: Arm) -> Iterator[Finding]:
    """Yield findings of those gates for which at least one run has a reading."""
    groups = {one.name: [run.readings for run in one.runs] for one in (control, arm)}
    told = {name for runs in groups.values() for run in runs for name, value in run.items() if value is not None}
    judged = {
        name: DEFAULTS[name] if gate.reading in told and name not in _HERE else GateLimits()
        for name, gate in GATES.items()
    }
    yield from group_findings(groups, judged)


def _voids(arms: Iterable[Arm]) -> Iterator[Doubt]:
    for arm in arms:
        found = void_finding(arm.name, sum(run.void for run in arm.runs), len(arm.runs))
        if found is not None:
            yield Doubt(arm=arm.name, finding=found)


def _unknown(arms: Sequence[Arm]) -> Iterator[Doubt]:
    missing = [KEYS[name].what for name in _EXPECTED if not all(one.values_of(name) for one in arms)]
    if not any(run.readings.get("temperature_c") is not None for one in arms for run in one.runs):
        missing.append("temperature at the start")
    own = any(run.session is not None and run.trial_arm is None for one in arms for run in one.runs)
    if own and not all(one.states for one in arms):
        missing.append("tunable state of the machine, which result files do not contain")
    if missing:
        sentence = f"not compared, because an arm doesn't record these: {', '.join(missing)}"
        yield Doubt(arm=arms[-1].name, finding=Finding(kind="not-known", level="note", sentence=sentence))


def failures(control: Arm, arm: Arm) -> tuple[Doubt, ...]:
    """Return a doubt for each benchmark that fails in only one of the two arms."""
    found = []
    for benchmark in _benchmarks(control):
        counts = {
            one.name: sum(run.failure is not None for run in one.runs if run.benchmark == benchmark)
            for one in (control, arm)
        }
        failed = [name for name, count in counts.items() if count]
        if len(failed) == 1:
            finding = Finding(
                kind="fails-in-one-arm",
                level="suspect",
                sentence=f"{benchmark} failed {_count(counts[failed[0]], 'time')} in {failed[0]} and never in "
                f"{next(name for name in counts if name != failed[0])}",
                values={name: float(count) for name, count in counts.items()},
            )
            found.append(Doubt(arm=arm.name, benchmark=benchmark, finding=finding))
    return tuple(found)


def findings_of(found: Iterable[Doubt]) -> tuple[Finding, ...]:
    """Return each finding once, the most serious first."""
    by_sentence = {doubt.finding.sentence: doubt.finding for doubt in found}
    levels: Sequence[FindingLevel] = ("refuse", "suspect", "note")
    return tuple(sorted(by_sentence.values(), key=lambda one: levels.index(one.level)))


def _benchmarks(arm: Arm) -> list[str]:
    return list(dict.fromkeys(run.benchmark for run in arm.runs))


def _apart(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts; if they are long, only the words in which they differ."""
    if max(map(len, texts.values())) <= _SHOWN:
        return dict(texts)
    gap = ", " if all(", " in text for text in texts.values()) else " "
    words = {name: text.split(gap) for name, text in texts.items()}
    common = set.intersection(*map(set, words.values()))
    return {
        name: _short(gap.join(word for word in some if word not in common) or "nothing else")
        for name, some in words.items()
    }


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s'[: number != 1]}"

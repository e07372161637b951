# SPDX-License-Identifier: Apache-2.0
"""The machine at rest: power by an energy counter, and how deep the CPUs sleep."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from ktrial.bench.adapters._tool import Program, ToolBenchmark, collected, whole
from ktrial.bench.benchmark import WATCHED, Invocation, Parameters, ParsedRun, RawOutput
from ktrial.bench.energy import BATTERY, PATTERNS, RAPL, EnergyCounter, consumed, counters
from ktrial.bench.watched import Watched, read_watched
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement, Outcome
from ktrial.recordings import cpuidle

_CORRECTION = (
    "A stay is counted when it ends: one that lasts over an end of the run is counted wholly or not at all, so that "
    "a share may even be a little above 100 %."
)
_POWER = Outcome(
    name="power",
    unit="W",
    direction="lower",
    kind="power",
    low=1e-3,
    high=2000.0,
    better="The machine at rest took less power.",
    worse="The machine at rest took more power.",
    blind_spots="What the counter does not cover is not in it: RAPL knows the processor, not screen, disks or fans. "
    "Whatever else runs on the machine is in it.",
    headline=True,
)
_SHARES = (
    Outcome(
        name="idle-share",
        unit="ratio",
        direction="higher",
        kind="score",
        low=0.0,
        high=1.5,
        better="The CPUs were idle for more of the time.",
        worse="The CPUs were idle for less of the time.",
        blind_spots=_CORRECTION,
    ),
    Outcome(
        name="deepest-share",
        unit="ratio",
        direction="higher",
        kind="score",
        low=0.0,
        high=1.5,
        better="The CPUs spent more of the time in the deepest idle state.",
        worse="The CPUs spent less of the time in the deepest idle state.",
        blind_spots=f"{_CORRECTION} It is the state that the kernel asked for; the hardware may have entered another.",
    ),
    Outcome(
        name="idle-entries",
        unit="1/s",
        direction="lower",
        kind="rate",
        low=0.0,
        high=1e9,
        better="The CPUs were woken less often.",
        worse="The CPUs were woken more often.",
        blind_spots="Entries into idle states of all CPUs together, whatever woke them.",
    ),
)
Chosen = Callable[[EnergyCounter], bool]


def _read(chosen: Chosen, raw: RawOutput, _: Parameters) -> ParsedRun:
    watched = read_watched(collected(raw, WATCHED))
    found = [counter for counter in counters(watched.before) if chosen(counter)]
    if not found:
        raise BadRun("the energy counter could not be read; mostly root alone may: start ktrial with sudo")
    used = [consumed(counter, watched.before, watched.after, watched.seconds) for counter in found]
    power = Measurement(
        outcome="power",
        value=sum(one.joules for one in used) / watched.seconds,
        original=f"{' + '.join(one.original for one in used)} in {watched.seconds:.6f} s",
    )
    shares, residency = _sleep(watched)
    notes = () if shares else ("this machine tells no idle states of its CPUs",)
    details = {"residency": residency, "domains": [counter.domain for counter in found]}
    return ParsedRun(measurements=(power, *shares), details=details, notes=notes)


def _sleep(watched: Watched) -> tuple[tuple[Measurement, ...], dict[str, float]]:
    if not any("/cpuidle/" in path for path in watched.after):
        return (), {}
    states = cpuidle.read_cpuidle(watched.before, watched.after, watched.seconds)
    entries = sum(state.entries for state in states)
    idle = sum(state.share for state in states)
    measurements = (
        Measurement(outcome="idle-share", value=idle, original=f"{idle:.6f}"),
        Measurement(
            outcome="deepest-share", value=states[-1].share, original=f"{states[-1].name} {states[-1].share:.6f}"
        ),
        Measurement(
            outcome="idle-entries", value=entries / watched.seconds, original=f"{entries} in {watched.seconds:.6f} s"
        ),
    )
    return measurements, {state.name: state.share for state in states}


def _command(parameters: Parameters) -> Invocation:
    seconds = whole(parameters, "duration_s", high=3600)
    return Invocation(
        argv=("sleep", str(seconds)),
        limit_s=seconds + 60.0,
        expected_s=float(seconds),
        watches=(*PATTERNS, *cpuidle.FILES),
    )


def _benchmark(name: str, of: str, needs: str, seconds: int, chosen: Chosen) -> ToolBenchmark:
    return ToolBenchmark(
        name=name,
        what=f"Power of {of} while nothing is done, and the time that the CPUs spend in each idle state.",
        program=Program(
            needs=("sleep", needs), packages=dict.fromkeys(("apt", "dnf", "pacman", "zypper"), "coreutils")
        ),
        outcomes=(_POWER, *_SHARES),
        parameters={"duration_s": seconds},
        command=_command,
        reader=partial(_read, chosen),
    )


def _is_package(counter: EnergyCounter) -> bool:
    return re.fullmatch(r"package-\d+(-die-\d+)?", counter.domain) is not None


def _is_battery(counter: EnergyCounter) -> bool:
    return counter.kind in {"battery-energy", "battery-charge"}


BENCHMARKS = (
    _benchmark("idle-package", "the processor packages (RAPL)", RAPL, 60, _is_package),
    _benchmark("idle-battery", "the whole machine on battery", BATTERY, 600, _is_battery),
)

# SPDX-License-Identifier: Apache-2.0
"""The machine at rest: power from an energy counter, and how deeply the CPUs sleep."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from ktrial.bench.adapters._tool import Program, ToolBenchmark, collected, everywhere, whole
from ktrial.bench.benchmark import WATCHED, Invocation, Parameters, ParsedRun, RawOutput
from ktrial.bench.energy import BATTERY, PATTERNS, RAPL, Consumed, EnergyCounter, consumed, counters
from ktrial.bench.outcomes import outcome
from ktrial.bench.watched import Watched, read_watched
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement
from ktrial.recordings import cpuidle

_CORRECTION = (
    "The kernel counts a stay in an idle state when it ends: one that spans the start or end of the run counts whole "
    "or not at all, so a share may be slightly above 100 %."
)
_POWER = outcome(
    "power",
    "W",
    "power",
    "The machine at rest draws [less|more] power.",
    "Includes only what the counter covers: RAPL covers the processor, not screen, disks or fans. Whatever else runs "
    "on the machine is included.",
    (1e-3, 2000.0),
    headline=True,
)
_SHARES = (
    outcome(
        "idle-share",
        "ratio",
        "score",
        "The CPUs are idle for [more|less] of the time.",
        _CORRECTION,
        (0.0, 1.5),
        direction="higher",
    ),
    outcome(
        "deepest-share",
        "ratio",
        "score",
        "The CPUs spend [more|less] of the time in the deepest idle state.",
        f"{_CORRECTION} This is the state that the kernel requested; the hardware may have entered another.",
        (0.0, 1.5),
        direction="higher",
    ),
    outcome(
        "idle-entries",
        "1/s",
        "rate",
        "The CPUs are woken [less|more] often.",
        "Entries into idle states of all CPUs together, whatever woke them.",
        (0.0, 1e9),
    ),
)
_PACKAGE = re.compile(r"package-\d+(-die-\d+)?")
Chosen = Callable[[EnergyCounter], bool]


def _read(chosen: Chosen, raw: RawOutput, _: Parameters) -> ParsedRun:
    watched = read_watched(collected(raw, WATCHED))
    found = [counter for counter in counters(watched.before) if chosen(counter)]
    if not found:
        raise _no_counter(chosen, watched)
    used = [_used(counter, watched) for counter in found]
    power = Measurement(
        outcome="power",
        value=sum(one.joules for one in used) / watched.seconds,
        original=f"{' + '.join(one.original for one in used)} in {watched.seconds:.6f} s",
    )
    shares, residency = _sleep(watched)
    notes = () if shares else ("this machine does not report idle states of its CPUs",)
    details = {"residency": residency, "domains": [counter.domain for counter in found]}
    return ParsedRun(measurements=(power, *shares), details=details, notes=notes)


def _no_counter(chosen: Chosen, watched: Watched) -> BadRun:
    if chosen is _is_battery:
        return BadRun(
            "no battery of this machine has a file energy_now or charge_now",
            hint="use idle-package, which reads RAPL",
        )
    if any("/powercap/" in path and _PACKAGE.fullmatch(text) for path, text in watched.before.items()):
        return BadRun("cannot read the RAPL counters of the processor packages", hint="start ktrial with sudo")
    return BadRun("RAPL has no counter for a processor package", hint="use idle-battery on a laptop")


def _used(counter: EnergyCounter, watched: Watched) -> Consumed:
    try:
        return consumed(counter, watched.before, watched.after, watched.seconds)
    except BadRun as error:
        raise BadRun(f"energy of {counter.domain} is unknown: {error.message}", hint=error.hint) from None


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
        what=f"Power of {of} at rest, and the time that the CPUs spend in each idle state.",
        program=Program(needs=("sleep", needs), packages=everywhere("coreutils")),
        outcomes=(_POWER, *_SHARES),
        parameters={"duration_s": seconds},
        command=_command,
        reader=partial(_read, chosen),
    )


def _is_package(counter: EnergyCounter) -> bool:
    return _PACKAGE.fullmatch(counter.domain) is not None


def _is_battery(counter: EnergyCounter) -> bool:
    return counter.kind in {"battery-energy", "battery-charge"}


BENCHMARKS = (
    _benchmark("idle-package", "the processor packages (RAPL)", RAPL, 15, _is_package),
    _benchmark("idle-battery", "the whole machine on battery", BATTERY, 600, _is_battery),
)

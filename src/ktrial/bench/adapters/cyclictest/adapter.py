# SPDX-License-Identifier: Apache-2.0
"""cyclictest: how late timers wake their threads, for ordinary threads and for real-time ones."""

from __future__ import annotations

import re

from ktrial.bench.adapters._tool import Program, ToolBenchmark, agree, collected, flag, one_measurement, whole
from ktrial.bench.adapters.cyclictest.output import CyclictestRun, read_json
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, RawOutput
from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import Quantity, in_base, nearest_rank
from ktrial.kit.outcome import Measurement, Outcome

_FILE = "out.json"
_QUANTILES = {"latency-p50": 0.5, "latency-p99": 0.99, "latency-p999": 0.999}
#: A quantile of which fewer samples than this lie above is said to rest on few.
_FEW_ABOVE = 5
#: What cyclictest asks for to find out whether it may, before it does anything.
_LEAST_PRIORITY = 1
_HELD = re.compile(rb"# /dev/cpu_dma_latency set to (\d+)us")
_BLIND = (
    "A timer's expiry only, at a fixed rhythm. Held at its own default, cyclictest keeps the whole machine out of deep "
    "idle states through /dev/cpu_dma_latency, which erases what idle settings do; here it does not unless asked. "
    "Threads end together with the first, so that they differ in their number of samples."
)
_PROGRAM = Program(
    needs=("cyclictest",),
    packages={"apt": "rt-tests", "dnf": "realtime-tests", "pacman": "rt-tests", "zypper": "rt-tests"},
    version=("cyclictest", "--help"),
    version_pattern=r"cyclictest V (\S+)",
)


def _outcome(name: str, which: str, blind: str, *, headline: bool = False) -> Outcome:
    return Outcome(
        name=name,
        unit="s",
        kind="latency-quantile",
        direction="lower",
        low=0.0,
        high=60.0,
        better=f"{which} ran sooner after its timer's expiry.",
        worse=f"{which} ran later after its timer's expiry.",
        blind_spots=blind,
        resolution=1e-6,
        headline=headline,
    )


_OUTCOMES = (
    _outcome("latency-p50", "The thread of a typical wake-up", _BLIND),
    _outcome("latency-p99", "The thread of the latest wake-up in a hundred", _BLIND, headline=True),
    _outcome("latency-p999", "The thread of the latest wake-up in a thousand", _BLIND),
    _outcome("latency-max", "The thread of the latest wake-up of all", "Grows with the number of samples. " + _BLIND),
)


def _command(parameters: Parameters, priority: int | None) -> Invocation:
    seconds = whole(parameters, "seconds", 1, 86_400)
    argv = ["cyclictest", "-q", "-D", str(seconds), "-i", str(whole(parameters, "interval_us", 10)), "-a"]
    threads = whole(parameters, "threads", 0, 4096)
    argv += ["-t", str(threads)] if threads else ["-t"]
    if priority is not None:
        argv += ["-p", str(priority)]
    if not flag(parameters, "hold_dma_latency"):
        argv.append("--default-system")
    argv += ["-h", str(whole(parameters, "histogram_us", 10, 1_000_000)), "--histfile=histogram", f"--json={_FILE}"]
    return Invocation(
        argv=tuple(argv),
        limit_s=2.0 * seconds + 60,
        expected_s=seconds,
        files=(_FILE,),
        realtime_priority=priority or _LEAST_PRIORITY,
    )


def _read(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    run = read_json(collected(raw, _FILE), _FILE)
    if threads := whole(parameters, "threads", 0, 4096):
        agree({"threads": threads}, {"threads": len(run.threads)})
    histogram, beyond = run.histogram_us, run.beyond
    measurements: tuple[Measurement, ...] = ()
    notes = _warnings(raw, parameters)
    total = sum(histogram.values()) + beyond
    for name, fraction in _QUANTILES.items():
        value = nearest_rank(histogram, fraction, beyond)
        if value is None:
            notes += (f"{name} lies beyond the histogram's end ({beyond} of {total} samples do): it is left out",)
            continue
        measurements += one_measurement(name, Quantity(in_base(value, "us"), f"{value} us"))
        if (1 - fraction) * total < _FEW_ABOVE:
            notes += (f"{name} rests on few samples: {total} in all",)
    latest = max((thread.maximum for thread in run.threads), key=lambda maximum: maximum.value)
    measurements += one_measurement("latency-max", latest)
    return ParsedRun(measurements=measurements, tool_version=run.version, details=_details(run), notes=notes)


def _details(run: CyclictestRun) -> dict[str, object]:
    return {
        "histogram_ns": {str(key * 1000): count for key, count in sorted(run.histogram_us.items())},
        "beyond": run.beyond,
        "cycles": [thread.cycles for thread in run.threads],
    }


def _warnings(raw: RawOutput, parameters: Parameters) -> tuple[str, ...]:
    said = raw.stderr.decode("utf-8", "backslashreplace").splitlines()
    asked = "not setting cpu_dma_latency"
    notes = tuple(f"cyclictest warns: {line}" for line in said if line.startswith("WARN") and asked not in line)
    held, wanted = _HELD.search(raw.stdout), flag(parameters, "hold_dma_latency")
    if wanted and not held:
        raise BadRun(
            "asked to hold /dev/cpu_dma_latency, but cyclictest did not: only root may; run it in a root shell"
        )
    if held and not wanted:
        microseconds = held[1].decode("ascii")
        notes += (f"cyclictest held /dev/cpu_dma_latency at {microseconds} us although it was asked not to",)
    return notes


_PARAMETERS = {
    "seconds": 10,
    "interval_us": 1000,
    "threads": 0,
    "histogram_us": 20_000,
    "hold_dma_latency": False,
}
BENCHMARKS = (
    ToolBenchmark(
        name="cyclictest-other",
        what="Lateness of timer wake-ups of ordinary threads, one on each CPU.",
        program=_PROGRAM,
        outcomes=_OUTCOMES,
        parameters=_PARAMETERS,
        command=lambda parameters: _command(parameters, None),
        reader=_read,
        standalone=True,
        root_reason="cyclictest does not start without the right to real-time priorities, even when it uses none",
    ),
    ToolBenchmark(
        name="cyclictest-fifo",
        what="Lateness of timer wake-ups of real-time threads (SCHED_FIFO), one on each CPU.",
        program=_PROGRAM,
        outcomes=_OUTCOMES,
        parameters={**_PARAMETERS, "priority": 80},
        command=lambda parameters: _command(parameters, whole(parameters, "priority", 1, 99)),
        reader=_read,
        standalone=True,
        root_reason="its threads run at a real-time priority",
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""cyclictest: how late timers wake their threads, for ordinary threads and for real-time ones."""

from __future__ import annotations

import re

from ktrial.bench.adapters._tool import Program, ToolBenchmark, agree, collected, flag, one_measurement, whole
from ktrial.bench.adapters.cyclictest.output import read_json
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, RawOutput
from ktrial.bench.outcomes import latency
from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import Quantity, in_base, nearest_rank
from ktrial.kit.outcome import Measurement, Outcome

_FILE = "out.json"
_QUANTILES = {"latency-p50": 0.5, "latency-p99": 0.99, "latency-p999": 0.999}
#: With fewer samples than this above a quantile, a note says that it rests on few.
_FEW_ABOVE = 5
#: The priority that cyclictest requests at its start, to find out whether it may.
_LEAST_PRIORITY = 1
_HELD = re.compile(rb"# /dev/cpu_dma_latency set to (\d+)us")
_BLIND = (
    "Wake-ups by timers only, at a fixed rhythm. By default cyclictest keeps the whole machine out of deep idle states "
    "through /dev/cpu_dma_latency, which hides the effect of idle settings; here it does so only on request. All "
    "threads end with the first one, so they differ in their number of samples."
)
_PROGRAM = Program(
    needs=("cyclictest",),
    packages={"apt": "rt-tests", "dnf": "realtime-tests", "pacman": "rt-tests", "zypper": "rt-tests"},
    version=("cyclictest", "--help"),
    version_pattern=r"cyclictest V (\S+)",
)


def _outcome(name: str, which: str, blind: str, *, headline: bool = False) -> Outcome:
    return latency(name, f"{which} [sooner|later] after the timer's expiry.", blind, resolution=1e-6, headline=headline)


_OUTCOMES = (
    _outcome("latency-p50", "A typical wake-up comes", _BLIND),
    _outcome("latency-p99", "The latest 1 % of wake-ups come", _BLIND, headline=True),
    _outcome("latency-p999", "The latest 0.1 % of wake-ups come", _BLIND),
    _outcome("latency-max", "The latest wake-up comes", "Grows with the number of samples. " + _BLIND),
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
            notes += (f"{name} is left out: it lies beyond the histogram's end, as do {beyond} of {total} samples",)
            continue
        measurements += one_measurement(name, Quantity(in_base(value, "us"), f"{value} us"))
        if (1 - fraction) * total < _FEW_ABOVE:
            notes += (f"{name} rests on few samples: {total} in all",)
    latest = max((thread.maximum for thread in run.threads), key=lambda maximum: maximum.value)
    measurements += one_measurement("latency-max", latest)
    details = {
        "histogram_ns": {str(key * 1000): count for key, count in sorted(histogram.items())},
        "beyond": beyond,
        "cycles": [thread.cycles for thread in run.threads],
    }
    return ParsedRun(measurements=measurements, tool_version=run.version, details=details, notes=notes)


def _warnings(raw: RawOutput, parameters: Parameters) -> tuple[str, ...]:
    said = raw.stderr.decode("utf-8", "backslashreplace").splitlines()
    asked = "not setting cpu_dma_latency"
    notes = tuple(f"cyclictest warns: {line}" for line in said if line.startswith("WARN") and asked not in line)
    held, wanted = _HELD.search(raw.stdout), flag(parameters, "hold_dma_latency")
    if wanted and not held:
        raise BadRun("cyclictest did not hold /dev/cpu_dma_latency as requested", hint="run ktrial in a root shell")
    if held and not wanted:
        microseconds = held[1].decode("ascii")
        notes += (f"cyclictest held /dev/cpu_dma_latency at {microseconds} us, against the request",)
    return notes


_PARAMETERS = {"seconds": 10, "interval_us": 1000, "threads": 0, "histogram_us": 20_000, "hold_dma_latency": False}
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
        root_reason="cyclictest does not start without the right to real-time priorities, even if it uses none",
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

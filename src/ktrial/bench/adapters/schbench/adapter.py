# SPDX-License-Identifier: Apache-2.0
"""schbench: wake-up and request latencies of a message thread and its workers."""

from __future__ import annotations

from ktrial.bench.adapters._tool import Program, ToolBenchmark, collected, flag, lasted, one_measurement, whole
from ktrial.bench.adapters.schbench.output import SchbenchBlock, SchbenchRun, read_schbench_json, read_schbench_text
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, RawOutput
from ktrial.bench.outcomes import latency, rate
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement, Outcome

_FILE = "out.json"
#: Suffix of an outcome -> percentile as the readers name it. The 20th of requests per second reflects only the start.
_PERCENTILES = {"p50": "50", "p75": "75", "p90": "90", "p95": "95", "p99": "99", "p995": "99.5", "p999": "99.9"}
#: With fewer samples than this above a quantile, a note says that it rests on few.
_FEW_ABOVE = 5
_WAKEUP_BLIND = (
    "Wake-ups through futexes only, which some schedulers treat specially. Includes the waker's walk over its workers, "
    "so it grows with their number; latencies of 0 us are dropped, which biases fast machines upwards. At a fixed rate "
    "(-R) busy workers are not recorded. Other numbers of threads are another measure."
)
_REQUEST_BLIND = (
    "From before the worker's sleep to the end of its work, at whatever rate it gets: a system that stalls gets fewer "
    "requests, so stalls are undercounted (coordinated omission). Frequency and cache decide the median."
)
_RPS_BLIND = (
    "Sampled once per second, so there are few samples, the first from the start. The average includes the warm-up."
)


def _latency(label: str, suffix: str, blind: str) -> Outcome:
    share = "maximum" if suffix == "max" else f"{_PERCENTILES[suffix]}th percentile"
    what = "wake-up" if label == "wakeup" else "request"
    return latency(
        f"{label}-{suffix}",
        f"The {share} of {what} latencies gets [shorter|longer].",
        blind + (" The maximum grows with the number of samples." if suffix == "max" else ""),
        high=120.0,
        resolution=1e-6,
        headline=(label, suffix) == ("wakeup", "p99"),
    )


def _rps(name: str, which: str) -> Outcome:
    return rate(
        name,
        "1/s",
        f"[More|Fewer] requests per second are served {which}.",
        _RPS_BLIND,
        (0.0 if name == "rps-p50" else 0.01, 1e9),
        resolution=1.0 if name == "rps-p50" else 0.01,
    )


_OUTCOMES = (
    *(_latency("wakeup", suffix, _WAKEUP_BLIND) for suffix in (*_PERCENTILES, "max")),
    *(_latency("request", suffix, _REQUEST_BLIND) for suffix in (*_PERCENTILES, "max")),
    _rps("rps-p50", "in the median second"),
    _rps("rps-average", "over the whole run"),
)


def _command(parameters: Parameters) -> Invocation:
    seconds = whole(parameters, "seconds", 1, 86_400)
    argv = ["schbench", "-m", str(whole(parameters, "message_threads", 1, 4096))]
    if workers := whole(parameters, "workers", 0, 65536):
        argv += ["-t", str(workers)]
    argv += ["-r", str(seconds)]
    if flag(parameters, "json"):
        argv += ["-j", _FILE]
    return Invocation(argv=tuple(argv), limit_s=2.0 * seconds + 60, expected_s=seconds, files=(_FILE,))


def _read(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    if flag(parameters, "json"):
        run = read_schbench_json(collected(raw, _FILE), _FILE)
    else:
        run = read_schbench_text(raw.stderr)
    if run.runtime_s is not None:
        lasted(whole(parameters, "seconds", 1, 86_400), run.runtime_s)
    measurements: tuple[Measurement, ...] = ()
    notes: tuple[str, ...] = ()
    for label in ("wakeup", "request"):
        if label in run.blocks:
            found, doubts = _latencies(label, run.blocks[label])
            measurements += found
            notes += doubts
    measurements += _requests(run)
    if not measurements:
        raise BadRun(
            "schbench exited with status 0 but sampled neither a wake-up nor a request",
            hint="raise the parameter seconds",
        )
    samples = {label: block.samples for label, block in run.blocks.items() if block.samples is not None}
    details = {"layout": run.layout, "samples": samples}
    return ParsedRun(measurements=measurements, details=details, notes=notes)


def _latencies(label: str, block: SchbenchBlock) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    if block.empty:
        return (), (f"no {label} latency was sampled: schbench prints 0 for its percentiles, so they are left out",)
    found: tuple[Measurement, ...] = ()
    for suffix, key in _PERCENTILES.items():
        found += one_measurement(f"{label}-{suffix}", block.percentiles.get(key))
    found += one_measurement(f"{label}-max", block.maximum)
    notes: tuple[str, ...] = ()
    if block.samples is not None and 0.01 * block.samples < _FEW_ABOVE:
        notes = (f"{label}-p99 rests on few samples: {block.samples} in all",)
    return found, notes


def _requests(run: SchbenchRun) -> tuple[Measurement, ...]:
    found: tuple[Measurement, ...] = ()
    block = run.blocks.get("rps")
    if block is not None and not block.empty:
        found = one_measurement("rps-p50", block.percentiles.get("50"))
    return found + one_measurement("rps-average", run.average_rps)


BENCHMARK = ToolBenchmark(
    name="schbench",
    what="Latency of waking workers by a message thread, and of the requests that they serve.",
    program=Program(needs=("schbench",)),
    outcomes=_OUTCOMES,
    parameters={"message_threads": 1, "workers": 0, "seconds": 30, "json": False},
    command=_command,
    reader=_read,
    standalone=True,
)

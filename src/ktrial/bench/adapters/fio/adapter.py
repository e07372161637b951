# SPDX-License-Identifier: Apache-2.0
"""fio: sequential, random and mixed reads and writes of one file."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from ktrial.bench.adapters._tool import (
    Program,
    ToolBenchmark,
    agree,
    collected,
    everywhere,
    flag,
    matching,
    one_measurement,
    one_of,
    whole,
)
from ktrial.bench.adapters.fio.output import FioDirection, read_fio
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, RawOutput
from ktrial.bench.outcomes import outcome, rate
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement, Outcome

_FILE = "out.json"
_QUANTILES = {"latency-p50": "50.000000", "latency-p99": "99.000000", "latency-p999": "99.900000"}
#: No flash answers a single read faster; memory does.
_FASTEST_DEVICE_S = 4e-6
_ENGINES = ("libaio", "io_uring", "psync", "sync", "pvsync2")
#: Options that fio prints as it understood them, and that define the measurement.
_IDENTITY = ("rw", "bs", "ioengine", "iodepth", "direct", "size", "runtime", "ramp_time", "rwmixread")
_SIZE = "[1-9][0-9]{0,8}[kmgKMG]?"
_BLIND = (
    "One file on the file system of the run's folder. The page cache, the device's own cache and, in a guest, the "
    "host's cache may answer instead of the medium; flash slows down when it is full or warm. "
)
_BLIND_BYTES = _BLIND + "Values above the parameter `ceiling` are refused as the bandwidth of memory."
_BLIND_BLOCKS = _BLIND + "With a deep queue it says little about the latency of one request."
_PROGRAM = Program(
    needs=("fio",), packages=everywhere("fio"), version=("fio", "--version"), version_pattern=r"(fio-\S+)"
)


def _latency(prefix: str, name: str, does: str) -> Outcome:
    share = {"latency-p50": "Half", "latency-p99": "All but 1 %", "latency-p999": "All but 0.1 %"}[name]
    return outcome(
        f"{prefix}{name}",
        "s",
        "latency-quantile",
        f"{share} of the blocks are {does} within a [shorter|longer] time.",
        _BLIND + "From the submission to the completion, at the queue depth of the benchmark: more depth is "
        "more latency. fio rounds into bins of some 1 %.",
        (1e-7, 600.0),
    )


def _outcomes(directions: tuple[str, ...], headline: str) -> tuple[Outcome, ...]:
    found: list[Outcome] = []
    for direction in directions:
        does = {"read": "read", "write": "written"}[direction]
        prefix = f"{direction}-" if len(directions) > 1 else ""
        throughput, blocks = f"{prefix}throughput", f"{prefix}rate"
        bytes_text, blocks_text = (f"[More|Fewer] {what} per second are {does}." for what in ("bytes", "blocks"))
        found.append(rate(throughput, "B/s", bytes_text, _BLIND_BYTES, (1.0, 1e12), headline=throughput == headline))
        found.append(rate(blocks, "1/s", blocks_text, _BLIND_BLOCKS, (0.01, 1e9), headline=blocks == headline))
        found += [_latency(prefix, name, does) for name in _QUANTILES]
    return tuple(found)


def _command(pattern: str, parameters: Parameters) -> Invocation:
    seconds, ramp = whole(parameters, "seconds", 1, 86_400), whole(parameters, "ramp_seconds", 0, 3600)
    argv = [
        "fio",
        "--name=ktrial",
        f"--rw={pattern}",
        f"--bs={matching(parameters, 'block', _SIZE, '4k')}",
        f"--ioengine={one_of(parameters, 'engine', _ENGINES)}",
        f"--iodepth={whole(parameters, 'depth', 1, 65536)}",
        f"--direct={int(flag(parameters, 'direct'))}",
        f"--size={matching(parameters, 'size', _SIZE, '1g')}",
        f"--runtime={seconds}",
        f"--ramp_time={ramp}",
        "--time_based",
        "--randseed=7",
    ]
    name = "data"
    if parameters["folder"]:
        # The folder may hold other people's files, so the name must differ from theirs. fio needs the folder before the
        # name.
        name = "ktrial-fio-data"
        argv.append(f"--directory={matching(parameters, 'folder', '/[^:,]*', '/mnt/disk')}")
    argv += [f"--filename={name}", "--unlink=1", "--output-format=json+", f"--output={_FILE}"]
    if pattern == "randwrite":
        # The file is written in order first; otherwise the run would measure how it scatters the file over the disk.
        argv.append("--overwrite=1")
    if "read_percent" in parameters:
        argv.append(f"--rwmixread={whole(parameters, 'read_percent', 1, 99)}")
    expected = float(seconds + ramp)
    return Invocation(argv=tuple(argv), limit_s=2 * expected + 300, expected_s=expected, files=(_FILE,))


def _agree_options(pattern: str, parameters: Parameters, printed: Mapping[str, str]) -> None:
    """Raise BadRun if an option that fio prints differs from the command line."""
    options = (word.removeprefix("--").partition("=") for word in _command(pattern, parameters).argv)
    agree({name: value for name, _, value in options if name in _IDENTITY and name in printed}, printed)


def _read(raw: RawOutput, parameters: Parameters, pattern: str, directions: tuple[str, ...]) -> ParsedRun:
    run = read_fio(collected(raw, _FILE), _FILE)
    if len(run.jobs) != 1:
        raise BadRun(f"expected one job of fio, got {len(run.jobs)}", hint="use another version of fio")
    job = run.jobs[0]
    if job.error:
        raise BadRun(
            f"fio's job ended with error {job.error} ({errno.errorcode.get(job.error, 'unknown')})",
            hint="free some space" if job.error == errno.ENOSPC else "run fio by hand to see the cause",
        )
    missing = [direction for direction in directions if direction not in job.directions]
    if missing:
        raise BadRun(
            f"fio exited with status 0 but did no {' and no '.join(missing)}",
            hint="raise the parameter seconds",
        )
    _agree_options(pattern, parameters, job.options)
    measurements: tuple[Measurement, ...] = ()
    notes = tuple(f"fio warns: {line}" for line in run.preamble)
    bins: dict[str, Mapping[str, int]] = {}
    for direction in directions:
        found = job.directions[direction]
        prefix = f"{direction}-" if len(directions) > 1 else ""
        measurements += _measurements_of(prefix, found)
        notes += _doubts(direction, found, parameters)
        bins[direction] = {str(key): count for key, count in sorted(found.bins_ns.items())}
    details = {"histogram_ns": bins, "options": dict(job.options)}
    return ParsedRun(measurements=measurements, tool_version=run.version, details=details, notes=notes)


def _measurements_of(prefix: str, found: FioDirection) -> tuple[Measurement, ...]:
    measurements = one_measurement(f"{prefix}throughput", found.throughput) + one_measurement(
        f"{prefix}rate", found.rate
    )
    for name, key in _QUANTILES.items():
        measurements += one_measurement(f"{prefix}{name}", found.percentiles.get(key))
    return measurements


def _doubts(direction: str, found: FioDirection, parameters: Parameters) -> tuple[str, ...]:
    """Return notes on a short run and on data probably from memory. Raise BadRun for a throughput above `ceiling`."""
    ceiling = whole(parameters, "ceiling", 1, 10**13)
    if found.throughput.value > ceiling:
        raise BadRun(
            f"{direction} throughput {found.throughput.value / 1e9:.4g} GB/s "
            f"exceeds the plausible {ceiling / 1e9:g} GB/s: a cache may have answered",
            hint="set the parameter size to more than the memory, or ceiling to more than the disks can do"
            if flag(parameters, "direct")
            else "set the parameter direct to true",
        )
    notes: tuple[str, ...] = ()
    if not flag(parameters, "direct"):
        notes += (f"{direction}: without direct = true the page cache answers, not the device",)
    median = found.percentiles.get(_QUANTILES["latency-p50"])
    if median is not None and median.value < _FASTEST_DEVICE_S:
        notes += (f"{direction}: half of the blocks took under {median.original}: that is memory, not a device",)
    if found.runtime_ms < 1000:
        notes += (f"{direction}: fio measured only {found.runtime_ms} ms",)
    return notes


def _benchmark(name: str, what: str, pattern: str, directions: tuple[str, ...], own: Parameters) -> ToolBenchmark:
    headline = ("read-" if len(directions) > 1 else "") + ("rate" if "rand" in pattern else "throughput")
    common = {
        "size": "1g",
        "seconds": 10,
        "ramp_seconds": 2,
        "engine": "libaio",
        "direct": True,
        "folder": "",
        "ceiling": 15_000_000_000,
    }
    return ToolBenchmark(
        name=name,
        what=what,
        program=_PROGRAM,
        outcomes=_outcomes(directions, headline),
        parameters={**common, **own},
        command=lambda parameters: _command(pattern, parameters),
        reader=lambda raw, parameters: _read(raw, parameters, pattern, directions),
    )


_SEQUENTIAL = {"block": "1m", "depth": 8}
_RANDOM = {"block": "4k", "depth": 32}
BENCHMARKS = (
    _benchmark("fio-seq-read", "Reads a file from start to end in large blocks.", "read", ("read",), _SEQUENTIAL),
    _benchmark("fio-seq-write", "Writes a file from start to end in large blocks.", "write", ("write",), _SEQUENTIAL),
    _benchmark("fio-rand-read", "Reads blocks of a file in random order.", "randread", ("read",), _RANDOM),
    _benchmark("fio-rand-write", "Writes blocks of a file in random order.", "randwrite", ("write",), _RANDOM),
    _benchmark(
        "fio-rand-mixed",
        "Reads and writes blocks of a file in random order at the same time.",
        "randrw",
        ("read", "write"),
        {**_RANDOM, "read_percent": 70},
    ),
)

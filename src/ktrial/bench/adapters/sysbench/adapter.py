# SPDX-License-Identifier: Apache-2.0
"""sysbench: locks with yields (threads), prime numbers (cpu), block copies (memory) and contended mutexes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ktrial.bench.adapters._tool import (
    Program,
    ToolBenchmark,
    agree,
    everywhere,
    lasted,
    matching,
    one_measurement,
    one_of,
    whole,
)
from ktrial.bench.adapters.sysbench.output import SysbenchRun, read_sysbench
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, RawOutput
from ktrial.bench.outcomes import outcome, rate
from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import Quantity
from ktrial.kit.outcome import Measurement, Outcome

#: Ratio of neighbouring values on the percentile's logarithmic grid.
GRID_RATIO = 1.018
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SEED = "--rand-seed=7"
_GRID = (
    "The percentile lies on a logarithmic grid with steps of 1.8 %: equal values in several runs show the grid, not "
    "stability. Printed in steps of 0.01 ms."
)


def _events(blind: str) -> Outcome:
    return rate(
        "events",
        "1/s",
        "All threads together do [more|fewer] events per second.",
        blind + "The average latency is its reciprocal, so it is not an outcome of its own.",
        (1e-3, 1e10),
        headline=True,
    )


def _latency(name: str, which: str, blind: str) -> Outcome:
    return outcome(name, "s", "latency-quantile", f"{which} [less|more] time.", blind, (1e-5, 3600.0), resolution=1e-5)


_P95 = _latency("latency-p95", "The slowest 5 % of the events take", _GRID)
_MAX = _latency(
    "latency-max", "The slowest event takes", "One event of the whole run: it grows with the number of events."
)
_THROUGHPUT = rate(
    "throughput",
    "B/s",
    "[More|Fewer] bytes per second are written or read in memory.",
    "Blocks of 1 KiB stay in the first-level cache: this is a loop's overhead, not the memory's bandwidth, "
    "unless the block is made larger than the caches.",
    (1e3, 1e13),
    headline=True,
)
_TIME = outcome(
    "time",
    "s",
    "time",
    "All threads take and release their mutexes in [less|more] wall time.",
    "Fixed work for each thread, a few seconds at most. Each thread has one event, so its latencies repeat the time. "
    "The interplay of the scheduler and adaptive spinning decides it.",
    (1e-4, 3600.0),
    resolution=1e-4,
    headline=True,
)


def _command(test: str, options: tuple[str, ...], parameters: Parameters, seconds: int | None) -> Invocation:
    argv = ["sysbench", test, f"--threads={whole(parameters, 'threads', 1, 65536)}", _SEED, *options]
    if seconds is not None:
        argv.append(f"--time={seconds}")
    limit = 600.0 if seconds is None else 2.0 * seconds + 60
    return Invocation(argv=(*argv, "run"), limit_s=limit, expected_s=seconds)


def _threads(parameters: Parameters) -> Invocation:
    yields, locks = whole(parameters, "yields"), whole(parameters, "locks")
    options = (f"--thread-yields={yields}", f"--thread-locks={locks}")
    return _command("threads", options, parameters, whole(parameters, "seconds"))


def _cpu(parameters: Parameters) -> Invocation:
    options = (f"--cpu-max-prime={whole(parameters, 'max_prime', 3)}",)
    return _command("cpu", options, parameters, whole(parameters, "seconds"))


def _memory(parameters: Parameters) -> Invocation:
    options = (
        f"--memory-block-size={matching(parameters, 'block', '[1-9][0-9]{0,8}[KMG]?', '1K')}",
        "--memory-total-size=1024T",
        f"--memory-oper={one_of(parameters, 'operation', ('read', 'write'))}",
    )
    return _command("memory", options, parameters, whole(parameters, "seconds"))


def _mutex(parameters: Parameters) -> Invocation:
    options = (
        f"--mutex-num={whole(parameters, 'mutexes')}",
        f"--mutex-locks={whole(parameters, 'locks')}",
        f"--mutex-loops={whole(parameters, 'loops')}",
    )
    return _command("mutex", options, parameters, None)


def _expected_settings(parameters: Parameters) -> dict[str, str]:
    """Return the settings in the words that sysbench prints."""
    settings = {}
    if "max_prime" in parameters:
        settings["Prime numbers limit"] = str(parameters["max_prime"])
    if "block" in parameters:
        text = str(parameters["block"])
        size = int(text.rstrip("KMG")) * _UNITS.get(text[-1], 1)
        settings |= {"block size": f"{size // _UNITS['K']}KiB", "operation": str(parameters["operation"])}
    return settings


def _read(raw: RawOutput, parameters: Parameters) -> SysbenchRun:
    run = read_sysbench(raw.stdout)
    agree({"threads": whole(parameters, "threads", 1, 65536)}, {"threads": run.threads})
    agree({name: value for name, value in _expected_settings(parameters).items() if name in run.settings}, run.settings)
    if "seconds" in parameters:
        lasted(whole(parameters, "seconds"), run.total_time.value)
    if run.events == 0:
        hint = "raise the parameter seconds" if "seconds" in parameters else "run the benchmark again"
        raise BadRun("sysbench exited with status 0 but counted no event", hint=hint)
    return run


def _rate(run: SysbenchRun) -> Quantity:
    """Return events per second, computed from the totals if this test does not print them."""
    if run.events_per_second is not None:
        return run.events_per_second
    return Quantity(run.events / run.total_time.value, f"{run.events} events / {run.total_time.original}")


def _latencies(run: SysbenchRun) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Return 95th percentile and maximum, and notes on values below the printed resolution."""
    found: tuple[Measurement, ...] = ()
    notes: tuple[str, ...] = ()
    percentile = run.percentile_latency if run.percentile == 95 else None
    for name, value in (("latency-p95", percentile), ("latency-max", run.latency_max)):
        if value is not None and value.value > 0:
            found += one_measurement(name, value)
        elif value is not None:
            notes += (f"{name} is left out: it is printed as {value.original}, below the tool's resolution",)
    return found, notes


def _parsed(
    name: str,
    value: Callable[[SysbenchRun], Quantity | None],
    raw: RawOutput,
    parameters: Parameters,
    *,
    latencies: bool = False,
) -> ParsedRun:
    run = _read(raw, parameters)
    found, notes = _latencies(run) if latencies else ((), ())
    details = {
        "events": run.events,
        "total_time_s": run.total_time.value,
        "latency_mean_s": run.latency_avg.value,
        "percentile_grid_ratio": GRID_RATIO,
    }
    measurements = one_measurement(name, value(run)) + found
    return ParsedRun(measurements=measurements, tool_version=run.version, details=details, notes=notes)


_PROGRAM = Program(
    needs=("sysbench",),
    packages=everywhere("sysbench"),
    version=("sysbench", "--version"),
    version_pattern=r"sysbench (\d\S*)",
)
_REGISTERS = "Division in registers: it uses neither memory nor, as long as each thread has a CPU, the kernel. "
_YIELDS = "It mostly measures sched_yield, which differs between schedulers and their releases. "
BENCHMARKS = (
    ToolBenchmark(
        program=_PROGRAM,
        name="sysbench-threads",
        what="Events per second of threads that take one of a few mutexes, yield and release it a thousand times.",
        outcomes=(_events(_YIELDS), _P95, _MAX),
        parameters={"threads": 4, "seconds": 10, "yields": 1000, "locks": 8},
        command=_threads,
        reader=partial(_parsed, "events", _rate, latencies=True),
        standalone=True,
    ),
    ToolBenchmark(
        program=_PROGRAM,
        name="sysbench-cpu",
        what="Events per second of threads that search for prime numbers by division.",
        outcomes=(_events(_REGISTERS), _P95, _MAX),
        parameters={"threads": 1, "seconds": 10, "max_prime": 10000},
        command=_cpu,
        reader=partial(_parsed, "events", _rate, latencies=True),
        standalone=True,
    ),
    ToolBenchmark(
        program=_PROGRAM,
        name="sysbench-memory",
        what="Bytes per second that threads write or read in blocks.",
        outcomes=(_THROUGHPUT,),
        parameters={"threads": 1, "seconds": 10, "block": "1K", "operation": "write"},
        command=_memory,
        reader=partial(_parsed, "throughput", lambda run: run.transferred),
        standalone=True,
        beyond_exact="the clock of such a guest does not count the time of caches and memory",
    ),
    ToolBenchmark(
        program=_PROGRAM,
        name="sysbench-mutex",
        what="Wall time of threads that take and release random mutexes a fixed number of times.",
        outcomes=(_TIME,),
        parameters={"threads": 4, "mutexes": 4096, "locks": 50000, "loops": 10000},
        command=_mutex,
        reader=partial(_parsed, "time", lambda run: run.total_time),
        standalone=True,
    ),
)

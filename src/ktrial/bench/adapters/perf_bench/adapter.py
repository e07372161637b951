# SPDX-License-Identifier: Apache-2.0
"""perf bench: round trips through a pipe, messaging, memcpy, futex hash and futex wake."""

from __future__ import annotations

import msgspec

from ktrial.bench.adapters._tool import (
    Program,
    ToolBenchmark,
    agree,
    collected,
    matching,
    one_measurement,
    one_of,
    whole,
)
from ktrial.bench.adapters.perf_bench.output import (
    read_futex_hash,
    read_futex_wake,
    read_memory,
    read_messaging,
    read_pipe,
)
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, RawOutput
from ktrial.bench.outcomes import outcome, rate
from ktrial.kit.errors import BadInput, BadRun
from ktrial.kit.outcome import Outcome

_LIMIT_S = 600.0
_PINNED = "pinned"
#: Content of the file _PINNED if the run ended before its second task could be moved.
_OVER = b"over"
#: perf cannot place the two ends of its pipe itself: the shell moves the child to another CPU as soon as it exists, and
#: writes a file once that is done. The few milliseconds until then are part of the measurement. A process that has
#: ended stays as a zombie, which can still be queried and moved.
CROSS = """\
PATH=/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin
runs() { read -r _ _ state _ < "/proc/$1/stat" && [ "$state" != Z ]; } 2> /dev/null
taskset -c "$1" perf bench sched pipe -l "$3" &
parent=$!
child=
while [ -z "$child" ] && runs "$parent"; do
    { read -r child _ < "/proc/$parent/task/$parent/children"; } 2> /dev/null
done
moved=no
[ -z "$child" ] || ! taskset -pc "$2" "$child" >&2 || moved=yes
if [ -z "$child" ] || ! runs "$child"; then
    echo over > pinned
elif [ "$moved" = yes ]; then
    echo "$1 $2" > pinned
fi
wait "$parent"
"""
_PACKAGES = {"apt": "linux-perf", "dnf": "perf", "pacman": "perf", "zypper": "perf"}
_PERF = Program(
    needs=("perf",), packages=_PACKAGES, version=("perf", "--version"), version_pattern=r"perf version (\S+)"
)
_PERF_PINNED = Program(
    needs=("perf", "taskset", "sh"),
    packages=_PACKAGES,
    version=("perf", "--version"),
    version_pattern=r"perf version (\S+)",
)
_PIPE_BLIND = (
    "A round trip wakes two tasks; idle states, frequency and the distance of the CPUs decide it. Without pinning the "
    "result has two modes, so each placement is a benchmark of its own. "
)
_FREE_BLIND = (
    "The scheduler places the two tasks: runs on one CPU and on two differ several times over, so the median may "
    "change because their share changes. perf-pipe-same-cpu and perf-pipe-cross-cpu tell which it is."
)


def _pipe_outcome(where: str, blind: str) -> Outcome:
    return outcome(
        "time",
        "s",
        "time",
        f"A round trip between two tasks {where} takes [less|more] time.",
        _PIPE_BLIND + blind,
        (1e-7, 1.0),
        resolution=1e-9,
        headline=True,
    )


def _anywhere(parameters: Parameters) -> Invocation:
    argv = ("perf", "bench", "sched", "pipe", "-l", str(whole(parameters, "loops")))
    return Invocation(argv=argv, limit_s=_LIMIT_S)


def _cross_cpu(parameters: Parameters) -> Invocation:
    first, second = whole(parameters, "cpu", 0, 65535), whole(parameters, "other_cpu", 0, 65535)
    if first == second:
        raise BadInput(
            f"parameters cpu and other_cpu are both {first}: the two processes need different CPUs",
            hint="for example  -p cpu=0 -p other_cpu=1",
        )
    words = (str(first), str(second), str(whole(parameters, "loops", 10_000)))
    argv = ("sh", "-c", CROSS, "pipe", *words)
    return Invocation(argv=argv, limit_s=_LIMIT_S, files=(_PINNED,), cpus=tuple(sorted((first, second))))


def _read_pipe(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    run = read_pipe(raw.stdout)
    agree({"operations": whole(parameters, "loops")}, {"operations": run.operations})
    return ParsedRun(measurements=one_measurement("time", run.per_operation), details={"total_s": run.total.value})


def _read_cross(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    if _PINNED not in raw.files:
        other = whole(parameters, "other_cpu", 0, 65535)
        raise BadRun(f"cannot move the second process to CPU {other}", hint="check that this CPU is online and allowed")
    if collected(raw, _PINNED).strip() == _OVER:
        raise BadRun("the run ended before its second process moved to the other CPU", hint="raise the parameter loops")
    wanted = f"{whole(parameters, 'cpu', 0, 65535)} {whole(parameters, 'other_cpu', 0, 65535)}"
    agree({"CPUs": wanted}, {"CPUs": collected(raw, _PINNED).decode("ascii", "replace").strip()})
    return _read_pipe(raw, parameters)


_MESSAGING_TIME = outcome(
    "time",
    "s",
    "time",
    "All messages take [less|more] wall time: waking and switching tasks in a crowd costs [less|more].",
    "One number for the whole crowd: it shows neither latency nor fairness. Pipes and sockets, threads and processes "
    "are different measures. Printed in milliseconds.",
    (0.001, 3600.0),
    resolution=0.001,
    headline=True,
)


def _messaging(parameters: Parameters) -> Invocation:
    argv = ["perf", "bench", "sched", "messaging"]
    argv += ["-g", str(whole(parameters, "groups")), "-l", str(whole(parameters, "loops"))]
    if one_of(parameters, "tasks", ("process", "thread")) == "thread":
        argv.append("-t")
    if one_of(parameters, "transport", ("socket", "pipe")) == "pipe":
        argv.append("-p")
    return Invocation(argv=tuple(argv), limit_s=_LIMIT_S)


def _read_messaging(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    run = read_messaging(raw.stdout)
    tasks = {"process": "processes", "thread": "threads"}[one_of(parameters, "tasks", ("process", "thread"))]
    agree({"groups": whole(parameters, "groups"), "tasks": tasks}, {"groups": run.groups, "tasks": run.tasks})
    return ParsedRun(measurements=one_measurement("time", run.total), details={"tasks": run.task_count})


_THROUGHPUT = rate(
    "throughput",
    "B/s",
    "Memory is copied at [more|fewer] bytes per second.",
    "One thread. A size below that of the caches measures the caches, a single loop a cold copy. Bytes count once, "
    "though each is read and written. Page size and placement in memory affect it.",
    (1e6, 1e13),
    headline=True,
)


def _memcpy(parameters: Parameters) -> Invocation:
    size = matching(parameters, "size", "[1-9][0-9]{0,5}(KB|MB|GB)", "256MB")
    function = matching(parameters, "function", "[a-z0-9][a-z0-9_-]{0,39}", "default")
    argv = ("perf", "bench", "mem", "memcpy", "-s", size, "-l", str(whole(parameters, "loops")), "-f", function)
    return Invocation(argv=argv, limit_s=_LIMIT_S)


def _read_memcpy(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    run = read_memory(raw.stdout)
    agree({"benchmark": "mem/memcpy"}, {"benchmark": run.name})
    for size in run.sizes:
        agree({"size": parameters["size"]}, {"size": size})
    function = str(parameters["function"])
    if function not in run.throughput:
        raise BadRun(
            f"perf did not run {function}, only {', '.join(run.throughput)}",
            hint=f"set the parameter function to {next(iter(run.throughput))}",
        )
    details = {"throughput": {name: value.value for name, value in run.throughput.items()}}
    return ParsedRun(measurements=one_measurement("throughput", run.throughput[function]), details=details)


_HASH_RATE = rate(
    "rate",
    "1/s",
    "Each thread makes [more|fewer] futex calls per second: finding a futex in the kernel's table costs [less|more].",
    "The mean over threads, not their sum. The calls fail at once by design: nothing waits or is woken. Entering the "
    "kernel, mitigations included, is most of the cost.",
    (1.0, 1e10),
    resolution=1.0,
    headline=True,
)


def _hash(parameters: Parameters) -> Invocation:
    seconds = whole(parameters, "seconds", 1, 86_400)
    argv = ["perf", "bench", "futex", "hash", "-r", str(seconds)]
    if threads := whole(parameters, "threads", 0, 65536):
        argv += ["-t", str(threads)]
    return Invocation(argv=tuple(argv), limit_s=2.0 * seconds + 60, expected_s=seconds)


def _read_hash(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    run = read_futex_hash(raw.stdout)
    agree({"seconds": whole(parameters, "seconds", 1, 86_400)}, {"seconds": run.seconds})
    threads = whole(parameters, "threads", 0, 65536)
    if threads and run.count is not None:
        agree({"threads": threads}, {"threads": run.count})
    details = {"threads": [thread.value for thread in run.threads], "spread_percent": run.spread_percent}
    return ParsedRun(measurements=one_measurement("rate", run.average), details=details)


_WAKE_TIME = outcome(
    "time",
    "s",
    "time",
    "One thread takes [less|more] time to wake all waiting threads one by one.",
    "The mean of the tool's ten repetitions. Only the waker's time: it does not show when the woken threads run, but "
    "they may preempt the waker.",
    (1e-6, 3600.0),
    resolution=1e-7,
    headline=True,
)


def _wake(parameters: Parameters) -> Invocation:
    argv = ("perf", "bench", "futex", "wake", "-t", str(whole(parameters, "threads", 1, 65536)))
    return Invocation(argv=argv, limit_s=_LIMIT_S)


def _read_wake(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    run = read_futex_wake(raw.stdout)
    threads = whole(parameters, "threads", 1, 65536)
    agree({"threads": threads, "woken": threads}, {"threads": run.threads, "woken": run.woken})
    return ParsedRun(measurements=one_measurement("time", run.time), details={"spread_percent": run.spread_percent})


BENCHMARKS = (
    ToolBenchmark(
        name="perf-pipe",
        what="Time of a round trip through two pipes between two processes, placed by the scheduler.",
        program=_PERF,
        outcomes=(_pipe_outcome("placed by the scheduler", _FREE_BLIND),),
        parameters={"loops": 1_000_000},
        command=_anywhere,
        reader=_read_pipe,
        standalone=True,
    ),
    ToolBenchmark(
        name="perf-pipe-same-cpu",
        what="Time of a round trip through two pipes between two processes pinned to one CPU.",
        program=_PERF,
        outcomes=(_pipe_outcome("on one CPU", "On one CPU it is the cost of two context switches."),),
        parameters={"loops": 1_000_000, "cpu": 0},
        command=lambda parameters: msgspec.structs.replace(
            _anywhere(parameters), cpus=(whole(parameters, "cpu", 0, 65535),)
        ),
        reader=_read_pipe,
        standalone=True,
    ),
    ToolBenchmark(
        name="perf-pipe-cross-cpu",
        what="Time of a round trip through two pipes between two processes pinned to two CPUs.",
        program=_PERF_PINNED,
        outcomes=(_pipe_outcome("on two CPUs", "Your choice of CPUs decides whether they share a core or a cache."),),
        parameters={"loops": 100_000, "cpu": 0, "other_cpu": 1},
        command=_cross_cpu,
        reader=_read_cross,
        standalone=True,
        beyond_exact="such a guest has one CPU, and the benchmark needs two",
    ),
    ToolBenchmark(
        name="perf-messaging",
        what="Wall time for groups of 20 senders and 20 receivers to pass messages of 100 bytes.",
        program=_PERF,
        outcomes=(_MESSAGING_TIME,),
        parameters={"groups": 10, "loops": 1000, "transport": "socket", "tasks": "process"},
        command=_messaging,
        reader=_read_messaging,
        standalone=True,
    ),
    ToolBenchmark(
        name="perf-memcpy",
        what="Bytes per second that one implementation of memcpy copies.",
        program=_PERF,
        outcomes=(_THROUGHPUT,),
        parameters={"size": "256MB", "loops": 20, "function": "default"},
        command=_memcpy,
        reader=_read_memcpy,
        standalone=True,
        beyond_exact="the clock of such a guest does not count the time of caches and memory",
    ),
    ToolBenchmark(
        name="perf-futex-hash",
        what="Futex calls per second of each thread on futexes of its own.",
        program=_PERF,
        outcomes=(_HASH_RATE,),
        parameters={"seconds": 10, "threads": 0},
        command=_hash,
        reader=_read_hash,
        standalone=True,
    ),
    ToolBenchmark(
        name="perf-futex-wake",
        what="Time to wake a number of threads that wait on one futex, one by one.",
        program=_PERF,
        outcomes=(_WAKE_TIME,),
        parameters={"threads": 64},
        command=_wake,
        reader=_read_wake,
        standalone=True,
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""The cost of tracing: the agent beside bpftrace, perf and trace-cmd, for the same tracepoints of the same program.

Run as root in a checkout that is set up, with cc, bpftrace, linux-perf and trace-cmd:

    .venv/bin/python -m perf.trace [ROUND_TRIPS]

The program has two threads on one CPU that wake each other up: two `sched_switch` and up to two `sched_waking` for each
round trip. In each round every tool watches a run of few and a run of many round trips, in random order, between runs
without a tool. The result is the difference of the two runs, which excludes the start of a tool: the CPU time of the
tool's own processes, and the growth of the program's CPU time, for each event of the many. `kept` is the share of
events that the tool reported in the end, among these and the events that it reports as lost; the rate counts both.
bpftrace runs twice: reporting every event as the others do, and with a histogram made in the kernel. Exits with status
1 unless the agent keeps all events and is cheaper than each tool that reports every event.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ktrial.agent.binary import find_agent
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import ProcessTransport
from perf.arguments import argument, how_many

ROUNDS = 5
FEW, MANY = 200, 100_000
#: Seconds that a tool may take to be ready.
_READY_S = 4.0
OURS, NOBODY = "ktrial", "nobody"
_PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
static int there[2], back[2];
static long count;
static void *answer(void *unused) {
    char byte;
    for (long at = 0; at < count; at++)
        if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1) exit(2);
    return unused;
}
static double used(void) {
    struct rusage all;
    getrusage(RUSAGE_SELF, &all);
    return all.ru_utime.tv_sec + all.ru_stime.tv_sec + 1e-6 * (all.ru_utime.tv_usec + all.ru_stime.tv_usec);
}
static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + 1e-9 * at.tv_nsec;
}
int main(int words, char **word) {
    cpu_set_t one;
    pthread_t other;
    char byte = 0;
    count = atol(word[1]);
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof one, &one);
    if (pipe(there) || pipe(back) || pthread_create(&other, 0, answer, 0)) return 2;
    if (read(0, &byte, 1) != 1) return 2;
    double begin = now(), before = used();
    for (long at = 0; at < count; at++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) return 2;
    printf("%.6f %.6f\n", now() - begin, used() - before);
    pthread_join(other, 0);
    return words != 2;
}
"""
_TOLD = r"""
tracepoint:sched:sched_waking /pid == PID/ { printf("w %llu %d %d\n", nsecs, tid, args->pid); }
tracepoint:sched:sched_switch /pid == PID/ { printf("s %llu %d %d\n", nsecs, args->prev_pid, args->next_pid); }
"""
_IN_KERNEL = r"""
tracepoint:sched:sched_waking /pid == PID/ { @since[args->pid] = nsecs; @count = count(); }
tracepoint:sched:sched_switch /pid == PID/ {
  @count = count();
  $since = @since[args->next_pid];
  if ($since) { @delay = hist(nsecs - $since); delete(@since[args->next_pid]); }
}
"""
_FUNCTION_FILTER = "/sys/kernel/tracing/set_ftrace_filter"
_EVENTS = ("sched:sched_waking", "sched:sched_switch")


class Run(NamedTuple):
    """CPU seconds of the tool and of the program, events reported and lost, and seconds that the program took."""

    tool_s: float
    program_s: float
    kept: int
    lost: int
    wall_s: float


class Watching(NamedTuple):
    """The result of a tool that has ended."""

    tool_s: float
    kept: int
    lost: int


Count = Callable[[Path, str], tuple[int, int]]
Tool = Callable[[int, Path], contextlib.AbstractContextManager[Callable[[], Watching]]]


@contextlib.contextmanager
def nobody(pid: int, folder: Path) -> Iterator[Callable[[], Watching]]:
    yield lambda: Watching(0.0, 0, 0)


@contextlib.contextmanager
def ktrial(pid: int, folder: Path) -> Iterator[Callable[[], Watching]]:
    transport = ProcessTransport([str(find_agent()), "serve", "--role", "root"])
    session = AgentSession(transport)
    sources = {"trace": 10.0}
    session.send("watch", limit_s=600, process=pid, events=["run-delay"], sources=sources, only=True)
    session.receive_begun("watch")

    def end() -> Watching:
        session.hang_up()
        while True:
            line = session.receive_next("watch")
            if isinstance(line, dict):
                traced = line["trace"]
                return Watching(line["cpu_ns"] / 1e9, traced["read"], traced["lost"])

    yield end
    transport.close()


@contextlib.contextmanager
def _process(
    argv: list[str], output: Path, count: Callable[[Path, str], tuple[int, int]]
) -> Iterator[Callable[[], Watching]]:
    errors = output.with_suffix(".errors")
    with output.open("wb") as told, errors.open("wb") as said:
        process = subprocess.Popen(argv, stdout=told, stderr=said, stdin=subprocess.DEVNULL)
    time.sleep(_READY_S)
    if process.poll() is not None:
        raise SystemExit(f"{argv[0]} ended with {process.returncode}: {errors.read_text()}")

    def end() -> Watching:
        time.sleep(0.5)
        # Some tools end with the program; Popen.send_signal would reap them, and lose their CPU time.
        os.kill(process.pid, signal.SIGINT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return Watching(usage.ru_utime + usage.ru_stime, *count(output, errors.read_text(errors="replace")))

    yield end


def _lines(output: Path, errors: str) -> tuple[int, int]:
    lines = output.read_bytes().splitlines()
    return sum(b"sched_" in line or line[:2] in {b"w ", b"s "} for line in lines), _lost(errors + _tail(lines))


def _counted(output: Path, errors: str) -> tuple[int, int]:
    text = output.read_text()
    found = re.search(r"@count: (\d+)", text)
    return int(found[1]) if found else 0, _lost(errors)


def _tail(lines: list[bytes]) -> str:
    return b"\n".join(line for line in lines if line[:4].upper() == b"LOST").decode()


def _lost(text: str) -> int:
    return sum(int(number) for number in re.findall(r"(?i)lost (\d+)", text))


def _bpftrace(script: str, count: Callable[[Path, str], tuple[int, int]]) -> Tool:
    return lambda pid, folder: _process(
        ["bpftrace", "-e", script.replace("PID", str(pid))], folder / "bpftrace.out", count
    )


def _perf_trace(pid: int, folder: Path) -> contextlib.AbstractContextManager[Callable[[], Watching]]:
    file = folder / "perf.told"

    def count(_: Path, errors: str) -> tuple[int, int]:
        return _lines(file, errors)

    argv = ["perf", "trace", "-e", ",".join(_EVENTS), "-p", str(pid), "-o", str(file)]
    return _process(argv, folder / "perf.out", count)


def _perf_record(pid: int, folder: Path) -> contextlib.AbstractContextManager[Callable[[], Watching]]:
    file = folder / "perf.data"

    def count(_: Path, errors: str) -> tuple[int, int]:
        told = subprocess.run(["perf", "script", "-i", str(file), "-F", "event"], capture_output=True, check=True)
        return told.stdout.count(b"sched_"), _lost(errors)

    words = [word for event in _EVENTS for word in ("-e", event)]
    argv = ["perf", "record", "-q", *words, "-c", "1", "-p", str(pid), "-o", str(file)]
    return _process(argv, folder / "record.out", count)


def _trace_cmd(pid: int, folder: Path) -> contextlib.AbstractContextManager[Callable[[], Watching]]:
    file = folder / "trace.dat"
    threads = [name.name for name in Path(f"/proc/{pid}/task").iterdir()]

    def count(output: Path, errors: str) -> tuple[int, int]:
        told = subprocess.run(["trace-cmd", "report", "-i", str(file)], capture_output=True, check=True)
        overrun = sum(int(number) for number in re.findall(r"overrun: (\d+)", output.read_text() + errors))
        return told.stdout.count(b": sched_"), overrun

    words = [word for event in _EVENTS for word in ("-e", event)] + [word for tid in threads for word in ("-P", tid)]
    return _process(["trace-cmd", "record", *words, "-o", str(file)], folder / "trace.out", count)


TOOLS: dict[str, tuple[str | None, Tool]] = {
    NOBODY: (None, nobody),
    OURS: (None, ktrial),
    "bpftrace, every event": ("bpftrace", _bpftrace(_TOLD, _lines)),
    "perf trace": ("perf", _perf_trace),
    "perf record": ("perf", _perf_record),
    "trace-cmd record": ("trace-cmd", _trace_cmd),
    "bpftrace, in the kernel": ("bpftrace", _bpftrace(_IN_KERNEL, _counted)),
}
_AGGREGATES = {"bpftrace, in the kernel"}


def run(program: str, tool: Tool, count: int) -> Run:
    """Run the program once under a tool."""
    with tempfile.TemporaryDirectory(prefix="ktrial-perf-") as name:
        process = subprocess.Popen([program, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        time.sleep(0.1)
        with tool(process.pid, Path(name)) as end:
            told, _ = process.communicate("g", timeout=600)
            watched = end()
    wall_s, program_s = (float(word) for word in told.split())
    return Run(watched.tool_s, program_s, watched.kept, watched.lost, wall_s)


def measure(program: str, tools: dict[str, Tool], many: int) -> dict[str, list[tuple[Run, Run]]]:
    """Run few and then many round trips under each tool, round by round."""
    order = random.Random(7)
    found: dict[str, list[tuple[Run, Run]]] = {name: [] for name in tools}
    for _ in range(ROUNDS):
        names = list(tools)
        order.shuffle(names)
        for name in names:
            found[name].append((run(program, tools[name], FEW), run(program, tools[name], many)))
    return found


def main() -> int:
    """Measure and print; return 1 if the goal was missed or a peer is not installed."""
    many = argument("ROUND_TRIPS", MANY, how_many)
    if os.geteuid() != 0:
        print("perf.trace traces: run it as root", file=sys.stderr)
        return 1
    missing = sorted({tool for tool, _ in TOOLS.values() if tool is not None and shutil.which(tool) is None})
    if missing:
        print(f"not installed: {', '.join(missing)}")
    locked = [] if _function_tracer_writable() else ["trace-cmd"]
    if locked:
        print(f"left out: trace-cmd resets the function tracer first, and {_FUNCTION_FILTER} is locked here")
    tools = {name: tool for name, (needs, tool) in TOOLS.items() if needs not in (*missing, *locked)}
    with tempfile.TemporaryDirectory(prefix="ktrial-perf-") as folder:
        program = f"{folder}/program"
        words = ["cc", "-O2", "-pthread", "-x", "c", "-o", program, "-"]
        subprocess.run(words, input=_PROGRAM.encode(), check=True)
        found = measure(program, tools, many)
    return 0 if tell(found, many) and not missing else 1


def _function_tracer_writable() -> bool:
    try:
        os.close(os.open(_FUNCTION_FILTER, os.O_WRONLY))
    except OSError:
        return False
    return True


def tell(found: dict[str, list[tuple[Run, Run]]], many: int) -> bool:
    """Print the table; return whether the agent keeps all events and is cheaper than tools that report every event.

    A thread that is woken up may run before its waker sleeps; the waker is then not woken up. So the number of events
    is the sum of those that a tool kept and lost.
    """
    trips = many - FEW
    bare = statistics.median(after.program_s - before.program_s for before, after in found[NOBODY])
    print(f"load {os.getloadavg()[0]:.1f}; {ROUNDS} rounds of {trips} round trips; medians, ns of CPU to an event")
    print(f"{'':26}{'tool':>9}{'program':>9}{'both':>9}{'kept':>9}{'lost':>9}{'events/s':>12}{'to ours':>9}")
    cost: dict[str, float] = {}
    whole = True
    for name, rounds in found.items():
        kept = statistics.median(after.kept - before.kept for before, after in rounds)
        lost = statistics.median(after.lost - before.lost for before, after in rounds)
        events = (kept + lost) or trips
        own = 1e9 * statistics.median(after.tool_s - before.tool_s for before, after in rounds) / events
        program_s = statistics.median(after.program_s - before.program_s for before, after in rounds)
        cost[name] = own + 1e9 * (program_s - bare) / events
        rate = statistics.median((after.kept + after.lost) / after.wall_s for _, after in rounds)
        whole &= name != OURS or (kept > 0 and not any(after.lost for _, after in rounds))
        ratio = f"{cost[name] / cost[OURS]:9.2f}" if OURS in cost and name != NOBODY else f"{'':9}"
        costs = f"{own:9.0f}{cost[name] - own:9.0f}{cost[name]:9.0f}"
        print(f"{name:26}{costs}{kept / events:9.1%}{lost:9.0f}{rate:12.0f}{ratio}")
    dearer = [name for name in cost if name not in {NOBODY, OURS, *_AGGREGATES} and cost[name] <= cost[OURS]]
    print(f"all kept: {'yes' if whole else 'NO'}; cheaper than each: {'NO: ' + ', '.join(dearer) if dearer else 'yes'}")
    return whole and not dearer


if __name__ == "__main__":
    sys.exit(main())

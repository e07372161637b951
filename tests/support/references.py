# SPDX-License-Identifier: Apache-2.0
"""Pairs of an agent's load and a tool that measures the same, run in turn on one machine."""

from __future__ import annotations

import re
import shutil
import statistics
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ktrial.agent.binary import find_agent
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import ProcessTransport
from ktrial.bench.adapters.perf_bench.adapter import CROSS
from ktrial.bench.benchmark import SERVER_ADDRESS
from ktrial.kit.json_bytes import read_bytes

Figures = Mapping[str, Any]


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A load and a command that measure one thing: `ours` reads the load's results, `pattern` finds the tool's number.

    The tool's number times `scale` has the unit of `ours`. `factor` is how far both may differ without noise, for the
    reason in `why`. `around` contains further fields of the tool's request. `tool` is the program that a shell starts.
    """

    load: str
    parameters: Mapping[str, Any]
    ours: Callable[[Figures], float]
    argv: tuple[str, ...]
    pattern: str
    scale: float
    factor: float
    why: str
    cpus: tuple[int, ...] | None = None
    needs_root: bool = False
    around: Mapping[str, Any] = {}
    tool: str | None = None

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.tool or self.argv[0]

    @property
    def program(self) -> str | None:
        """The path of the program; None if the tool is not installed."""
        return _which(self.argv[0]) if _which(self.name) else None


def _which(name: str) -> str | None:
    return shutil.which(name, path="/usr/bin:/usr/sbin:/usr/local/bin:/bin")


#: The folder for files of fio and of our load, which is not in memory.
_DISK = "/var/tmp"


def _rate(name: str) -> Callable[[Figures], float]:
    return lambda results: results[name] / results["elapsed_ns"] * 1e9


#: perf's pipe across CPUs 0 and 1. It fails if the second task was not moved to its CPU.
_CROSS = CROSS + '[ "$(cat pinned)" = "0 1" ] || exit'


def _fileio(operation: str, order: str, fio: str, *, cold: bool = False) -> Reference:
    sized = {"bytes": 32 << 20, "block_bytes": 128 << 10, "duration_s": 0.2 if cold else 0.5}
    warm = ("--pre_read=1", "--invalidate=0", "--time_based", "--runtime=1")
    # Each file is read only once, because it is in the page cache afterwards. Written data is flushed block by block.
    once = ("--invalidate=1",) if operation == "read" else ("--fdatasync=1", "--time_based", "--runtime=500ms")
    return Reference(
        load="fileio",
        parameters={
            "operation": operation,
            "order": order,
            "cache": "cold" if cold else "warm",
            "directory": _DISK,
            **sized,
        },
        ours=lambda results: results["moved_bytes"] / results["busy_ns"] * 1e9,
        argv=(
            *("fio", "--name=ktrial-reference", f"--rw={fio}", "--ioengine=psync", "--bs=128k", "--size=32m"),
            "--unlink=1",
            # Otherwise fio writes different bytes each time, which takes longer than the write itself.
            "--scramble_buffers=0",
            *(once if cold else warm),
            "--output-format=json",
        ),
        pattern=rf'"{operation}" : \{{[^}}]*?"bw_bytes" : ([0-9]+)',
        scale=1.0,
        factor=2.0,
        why="fio reads the clock around every block and keeps its account of it between them",
    )


REFERENCES = {
    "fileio-read": _fileio("read", "sequential", "read"),
    "fileio-read-random": _fileio("read", "random", "randread"),
    "fileio-write": _fileio("write", "sequential", "write"),
    "fileio-write-random": _fileio("write", "random", "randwrite"),
    "fileio-read-cold": _fileio("read", "sequential", "read", cold=True),
    "fileio-read-random-cold": _fileio("read", "random", "randread", cold=True),
    "fileio-write-cold": _fileio("write", "sequential", "write", cold=True),
    "fileio-write-random-cold": _fileio("write", "random", "randwrite", cold=True),
    "messaging": Reference(
        load="messaging",
        parameters={"channel": "pipe", "groups": 2, "senders": 5, "receivers": 5, "messages": 1000},
        ours=lambda results: results["elapsed_ns"] / 1e9,
        argv=("hackbench", "-p", "-T", "-g", "2", "-f", "5", "-l", "1000"),
        pattern=r"Time: ([0-9.]+)",
        scale=1.0,
        factor=2.0,
        why="its threads wait for the start on a pipe, ours on a condition variable; it counts milliseconds",
    ),
    "messaging-socket": Reference(
        load="messaging",
        parameters={"channel": "socket", "groups": 2, "senders": 5, "receivers": 5, "messages": 1000},
        ours=lambda results: results["elapsed_ns"] / 1e9,
        argv=("hackbench", "-T", "-g", "2", "-f", "5", "-l", "1000"),
        pattern=r"Time: ([0-9.]+)",
        scale=1.0,
        factor=2.0,
        why="its threads wait for the start on a pipe, ours on a condition variable; it counts milliseconds",
    ),
    "messaging-process": Reference(
        load="messaging",
        parameters={"tasks": "process", "groups": 2, "senders": 5, "receivers": 5, "messages": 1000},
        ours=lambda results: results["elapsed_ns"] / 1e9,
        argv=("hackbench", "-p", "-P", "-g", "2", "-f", "5", "-l", "1000"),
        pattern=r"Time: ([0-9.]+)",
        scale=1.0,
        factor=2.0,
        why="it forks from a small program, ours from the agent; it counts milliseconds",
    ),
    "messaging-process-socket": Reference(
        load="messaging",
        parameters={
            "channel": "socket",
            "tasks": "process",
            "groups": 2,
            "senders": 5,
            "receivers": 5,
            "messages": 1000,
        },
        ours=lambda results: results["elapsed_ns"] / 1e9,
        argv=("hackbench", "-P", "-g", "2", "-f", "5", "-l", "1000"),
        pattern=r"Time: ([0-9.]+)",
        scale=1.0,
        factor=2.0,
        why="it forks from a small program, ours from the agent; it counts milliseconds",
    ),
    "contextswitch": Reference(
        load="contextswitch",
        parameters={"placement": "same", "duration_s": 0.2},
        ours=lambda results: float(results["mean_ns"]),
        argv=("perf", "bench", "sched", "pipe", "-T", "-l", "20000"),
        pattern=r"([0-9.]+) usecs/op",
        scale=1000.0,
        factor=2.0,
        why="each of our round trips holds a reading of the clock",
        cpus=(0,),
    ),
    "contextswitch-cross": Reference(
        load="contextswitch",
        parameters={"placement": "cross", "duration_s": 0.5},
        ours=lambda results: float(results["mean_ns"]),
        argv=("sh", "-c", _CROSS, "pipe", "0", "1", "50000"),
        tool="perf",
        pattern=r"([0-9.]+) usecs/op",
        scale=1000.0,
        factor=2.0,
        why="each of our round trips holds a reading of the clock; perf's first ones are on one CPU",
        cpus=(0, 1),
    ),
    "wakeup-timer": Reference(
        load="wakeup",
        parameters={"kind": "timer", "rate_per_s": 1000, "duration_s": 0.5},
        ours=lambda results: float(results["p50_ns"]),
        argv=("cyclictest", "-q", "-t", "1", "-i", "1000", "-l", "500", "-h", "5000", "--default-system"),
        pattern="",
        scale=1000.0,
        factor=2.0,
        why="cyclictest counts whole microseconds, and skips the moments that a late wake-up has passed",
        needs_root=True,
    ),
    "memcpy": Reference(
        load="memcpy",
        parameters={"bytes": 64 << 20, "duration_s": 0.3},
        ours=_rate("copied_bytes"),
        # Bytes per second. Without this option the unit is GB or, on a busy machine, MB.
        argv=("perf", "bench", "-f", "simple", "mem", "memcpy", "-s", "64MB", "-l", "20", "-f", "default"),
        pattern=r"(?m)^([0-9.]+)$",
        scale=1.0,
        factor=2.0,
        why="the C library's copying routine is chosen by the CPU, and perf may not take the same one",
    ),
    "lock": Reference(
        load="lock",
        parameters={"threads": 4, "locks": 8, "yields": 100, "duration_s": 1},
        ours=_rate("count"),
        argv=("sysbench", "threads", "--threads=4", "--thread-yields=100", "--thread-locks=8", "--time=1", "run"),
        pattern=r"total number of events:\s+([0-9]+)",
        scale=1.0,
        factor=1.5,
        why="its locks are others than those of our language, which try a little before they sleep",
    ),
    "tcp": Reference(
        load="tcp",
        parameters={"mode": "stream", "duration_s": 0.8, "ramp_s": 0.2},
        ours=lambda results: results["received_bytes"] / results["window_ns"] * 1e9,
        argv=("iperf3", "-c", SERVER_ADDRESS, "-t", "1", "-J"),
        pattern=r'"sum_received":\s*\{[^}]*"bits_per_second":\s*([0-9.e+]+)',
        scale=1 / 8,
        factor=2.0,
        why="iperf3 counts the slow beginning, and asks the clock and its timers between writes",
        around={"network": {}, "server": {"argv": ["/usr/bin/iperf3", "-s", "-1"], "port": 5201}},
    ),
}


def user_session() -> AgentSession:
    """Return a session that runs commands and loads."""
    return AgentSession(ProcessTransport([str(find_agent()), "serve", "--role", "user"]))


def _median_us(text: str) -> float:
    """Return the median of cyclictest's histogram in microseconds."""
    rows = re.findall(r"^(\d{6})\s+(\d+)", text, re.MULTILINE)
    values = [int(value) for value, count in rows for _ in range(int(count))]
    return float(statistics.median_low(values))


def theirs(reference: Reference, session: AgentSession) -> float:
    """Return the tool's number in the unit of `ours`.

    The tool runs in its own folder, on the disk that our load uses.
    """
    assert reference.program is not None
    with tempfile.TemporaryDirectory(prefix="ktrial-reference-", dir=_DISK) as folder:
        answer = session.request(
            "exec",
            argv=[reference.program, *reference.argv[1:]],
            environment={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
            directory=folder,
            limit_s=60.0,
            **({"cpus": list(reference.cpus)} if reference.cpus else {}),
            **reference.around,
        )
    said = read_bytes(answer["stdout"]).decode() + read_bytes(answer["stderr"]).decode()
    assert answer["exit"] == {"status": 0}, said
    if not reference.pattern:
        return _median_us(said) * reference.scale
    found = re.search(reference.pattern, said)
    assert found, said
    return float(found[1]) * reference.scale


def ours(reference: Reference, session: AgentSession) -> float:
    """Return our load's number."""
    answer = session.request(
        "load",
        load=reference.load,
        parameters=dict(reference.parameters),
        limit_s=60.0,
        **({"cpus": list(reference.cpus)} if reference.cpus else {}),
    )
    assert answer["ended"] == "done"
    return reference.ours(answer["results"])

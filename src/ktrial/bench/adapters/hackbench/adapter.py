# SPDX-License-Identifier: Apache-2.0
"""hackbench: wall time of many senders and receivers that pass short messages."""

from __future__ import annotations

from ktrial.bench.adapters._tool import Program, ToolBenchmark, agree, one_measurement, whole
from ktrial.bench.adapters.hackbench.output import read_hackbench
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, RawOutput
from ktrial.bench.outcomes import outcome

_TIME = outcome(
    "time",
    "s",
    "time",
    "All messages take [less|more] wall time: waking and switching tasks in a crowd costs [less|more].",
    "One number for the whole crowd: it shows neither latency nor fairness, and settings that let tasks run longer "
    "undisturbed improve it while they hurt latency. Pipes and sockets, threads and processes are different measures. "
    "Printed in milliseconds: runs shorter than a second are imprecise.",
    (0.001, 3600.0),
    resolution=0.001,
    headline=True,
)
_PROGRAM = Program(
    needs=("hackbench",),
    packages={"apt": "rt-tests", "dnf": "realtime-tests", "pacman": "rt-tests", "zypper": "rt-tests"},
    version=("hackbench", "--help"),
    version_pattern=r"hackbench V (\S+)",
)
_LIMIT_S = 600.0


def _benchmark(transport: str, tasks: str) -> ToolBenchmark:
    letters = ("p" if transport == "pipe" else "") + ("T" if tasks == "thread" else "")

    def command(parameters: Parameters) -> Invocation:
        argv = ["hackbench", f"-{letters}l", str(whole(parameters, "loops"))]
        for name, option, default in (("groups", "-g", 10), ("descriptors", "-f", 20), ("bytes", "-s", 100)):
            if (value := whole(parameters, name)) != default:
                argv += [option, str(value)]
        return Invocation(argv=tuple(argv), limit_s=_LIMIT_S)

    def reader(raw: RawOutput, parameters: Parameters) -> ParsedRun:
        run = read_hackbench(raw.stdout)
        mode = "threaded" if tasks == "thread" else "process"
        wanted = {
            "mode": mode,
            "groups": whole(parameters, "groups"),
            "messages": whole(parameters, "loops"),
            "bytes": whole(parameters, "bytes"),
            "tasks": 2 * whole(parameters, "groups") * whole(parameters, "descriptors"),
        }
        found = {"mode": run.mode, "groups": run.groups, "messages": run.messages, "bytes": run.message_bytes}
        agree(wanted, {**found, "tasks": run.tasks})
        return ParsedRun(measurements=one_measurement("time", run.time), details={"tasks": run.tasks})

    plural = {"thread": "threads", "process": "processes"}[tasks]
    return ToolBenchmark(
        name=f"hackbench-{transport}-{tasks}",
        what=f"Wall time for groups of {plural} to pass messages of 100 bytes through {transport}s.",
        program=_PROGRAM,
        outcomes=(_TIME,),
        parameters={"groups": 10, "descriptors": 20, "loops": 4000, "bytes": 100},
        command=command,
        reader=reader,
        standalone=True,
    )


#: hackbench-pipe-thread with its defaults is the usual `hackbench -pTl 4000`.
BENCHMARKS = tuple(_benchmark(transport, tasks) for transport in ("pipe", "socket") for tasks in ("thread", "process"))

# SPDX-License-Identifier: Apache-2.0
"""What a sample of the agent's sensors costs: beside the bare reads of the same files, and beside vmstat, sar and psutil.

Run in a checkout that is set up, with procps, sysstat and python3-psutil installed:
    .venv/bin/python -m perf.sampler [SAMPLES]

Two measurements, of CPU time per sample in user mode and in the kernel:

- The agent alone, as fast as it can (`ktrial-agent selfcost`): a sample against the reads that it consists of, from
  files that are open already, in alternating rounds of one thread.
- Everybody at once, one sample per second, which is the fastest that vmstat and sar can: each tool is run for few and
  for many samples, and the difference of what all its processes used (getrusage) is shared among the samples between.
  What it costs to start, and to end, is in neither number.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ktrial.host.find_agent import find_agent

SAMPLES = 40
ROUNDS = 5
FEW = 2
MOST_OF_BARE = 1.6
MOST_OF_VMSTAT = 1 / 3
#: The sources whose files vmstat reads.
VMSTAT = ("cpu", "memory", "vmstat")
OURS, OURS_ALL = "the agent, vmstat's files", "the agent, all sources"
_PSUTIL = """
import sys, time, psutil
for number in range(int(sys.argv[1])):
    if number:
        time.sleep(1)
    print(psutil.cpu_times(), psutil.cpu_times(percpu=True), psutil.cpu_stats(), psutil.virtual_memory(),
          psutil.swap_memory(), psutil.getloadavg(), psutil.cpu_freq(), psutil.sensors_temperatures(),
          psutil.sensors_fans(), psutil.sensors_battery())
"""
_PR_SET_CHILD_SUBREAPER = 36


def reap(argv: Sequence[str]) -> None:
    """Run a command and print the CPU seconds of all processes that it started, orphans too."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with Path(os.devnull).open("wb") as nothing:
        os.posix_spawn(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nothing.fileno(), 1)])
    used_s = 0.0
    with contextlib.suppress(ChildProcessError):
        while True:
            _, status, usage = os.wait4(-1, 0)
            if status != 0:
                raise SystemExit(f"{argv[0]} ended with {status}")
            used_s += usage.ru_utime + usage.ru_stime
    print(used_s)


def commands(count: int, folder: Path) -> dict[str, list[str]]:
    """The command line of each that is installed, for so many samples."""
    found = {OURS: _agent(count, folder, VMSTAT), OURS_ALL: _agent(count, folder, ())}
    peers = {
        "vmstat": ["vmstat", "1", str(count)],
        "sar -u -r -S -B -W -q -w": ["sar", "-u", "-r", "-S", "-B", "-W", "-q", "-w", "1", str(count)],
    }
    for name, argv in peers.items():
        place = shutil.which(argv[0])
        if place is not None:
            found[name] = [place, *argv[1:]]
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import psutil"], check=False, capture_output=True).returncode == 0:
        found["psutil"] = [python, "-c", _PSUTIL, str(count)]
    return found


def _agent(count: int, folder: Path, sources: Sequence[str]) -> list[str]:
    request = {"id": 1, "do": "sample", "count": count, "limit_s": 3600}
    if sources:
        request["sources"] = list(sources)
    file = folder / f"{count}-{len(sources)}.jsonl"
    file.write_text(json.dumps(request) + "\n", encoding="utf-8")
    return [str(find_agent()), "batch", "--role", "user", str(file)]


def used_s(tools: Mapping[str, Sequence[str]], order: random.Random) -> dict[str, float]:
    """CPU seconds of each command, all run at once."""
    names = list(tools)
    order.shuffle(names)
    running = {
        name: subprocess.Popen(
            [sys.executable, "-m", "perf.sampler", "--reap", *tools[name]], stdout=subprocess.PIPE, text=True
        )
        for name in names
    }
    return {name: float(process.communicate()[0]) for name, process in running.items()}


def side_by_side(samples: int) -> dict[str, list[float]]:
    """Microseconds of CPU of each tool's sample, round by round."""
    order = random.Random(7)
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="ktrial-perf-") as name:
        few, many = (commands(count, Path(name)) for count in (FEW, FEW + samples))
        for _ in range(ROUNDS):
            start, whole = used_s(few, order), used_s(many, order)
            for tool in few:
                found.setdefault(tool, []).append((whole[tool] - start[tool]) / samples * 1e6)
    return found


def bare() -> bool:
    """The agent against the bare reads of its files; whether the goal was met."""
    told = json.loads(subprocess.check_output([find_agent(), "selfcost", "--json"]))
    print("the agent alone, as fast as it can:")
    print(f"  {'':16}{'files':>7}{'columns':>9}{'a sample':>13}{'bare reads':>13}{'ratio':>8}")
    met = True
    for row in told["sources"]:
        if "absent" in row:
            print(f"  {row['source']:16}  not here: {row['absent']}")
            continue
        ratio = row["sample_ns"] / row["bare_ns"]
        verdict = ""
        if row["source"] == "all":
            met = ratio <= MOST_OF_BARE
            verdict = f"at most {MOST_OF_BARE}: {'met' if met else 'MISSED'}"
        print(
            f"  {row['source']:16}{row['files']:7}{row['columns']:9}{row['sample_ns'] / 1e3:10.2f} us"
            f"{row['bare_ns'] / 1e3:10.2f} us{ratio:8.2f}  {verdict}"
        )
    return met


def main() -> int:
    """Measure and print; 1 when a goal was missed or a peer is not installed."""
    if sys.argv[1:2] == ["--reap"]:
        reap(sys.argv[2:])
        return 0
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES
    met = bare()
    costs = side_by_side(samples)
    print(f"everybody at once, one sample a second, {ROUNDS} rounds of {samples} samples:")
    for name, values in costs.items():
        print(
            f"  {name:28} median {statistics.median(values):9.1f} us  from {min(values):9.1f} to {max(values):9.1f} us"
        )
    if "vmstat" not in costs:
        print("vmstat is not installed: install procps")
        return 1
    ratio = statistics.median(ours / theirs for ours, theirs in zip(costs[OURS], costs["vmstat"], strict=True))
    good = ratio <= MOST_OF_VMSTAT
    print(f"the agent over vmstat: {ratio:.2f}; at most {MOST_OF_VMSTAT:.2f}: {'met' if good else 'MISSED'}")
    return 0 if met and good else 1


if __name__ == "__main__":
    sys.exit(main())

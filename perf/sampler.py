# SPDX-License-Identifier: Apache-2.0
"""The cost of a sample of the agent's sensors, beside bare reads of the same files, vmstat, sar and psutil.

Run in a checkout that is set up, with cc, procps, sysstat and python3-psutil:

    .venv/bin/python -m perf.sampler [SAMPLES]

All numbers are CPU time per sample, in user mode and in the kernel. There are two measurements:

- Without waits, each tool alone. The agent: `ktrial-agent selfcost`, by the clock of its thread, which also measures
  the bare reads (of files that are already open, in alternating rounds). vmstat and psutil: the difference between many
  and few samples (getrusage), which excludes the start. vmstat cannot take more than one sample a second, and looks at
  some files only once a second. A library loaded before it therefore makes a second of waiting pass at once, for its
  clock too.
- All tools at once, one sample a second, by getrusage of all processes. Caches are cold then: the kernel's part, which
  is the same for all tools, is larger.

vmstat 4.0.2 reads `/proc/stat` and the counters of paging for each sample, and `/proc/meminfo` only at its start: the
goal applies to the sources `cpu` and `paging`. With `memory` the agent reads more than vmstat does.
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
from typing import Any

from ktrial.agent.binary import find_agent
from perf.arguments import argument, how_many

SAMPLES = 40
ROUNDS = 5
FEW = 2
MOST_OF_BARE = 1.6
MOST_OF_VMSTAT = 1 / 3
FAST_SAMPLES = 20_000
#: The sources with the data that vmstat reads for each sample and shows.
READ_BY_VMSTAT = ("cpu", "paging")
SHOWN_BY_VMSTAT = ("cpu", "memory", "paging")
OURS, OURS_ALL = "the agent, cpu and paging", "the agent, all sources"
#: A second of waiting takes no time, and counts as a second for the clock of libproc2.
_NO_WAITING = """
#include <time.h>
static time_t now = 1000;
unsigned sleep(unsigned seconds) { now += seconds; return 0; }
time_t time(time_t *told) { if (told) *told = now; return now; }
"""
_PSUTIL = """
import sys, time, psutil
for number in range(int(sys.argv[1])):
    if number:
        time.sleep(float(sys.argv[2]))
    print(psutil.cpu_times(), psutil.cpu_times(percpu=True), psutil.cpu_stats(), psutil.virtual_memory(),
          psutil.swap_memory(), psutil.getloadavg(), psutil.cpu_freq(), psutil.sensors_temperatures(),
          psutil.sensors_fans(), psutil.sensors_battery())
"""
_PYTHON = "/usr/bin/python3"
_PR_SET_CHILD_SUBREAPER = 36


def reap(argv: list[str]) -> None:
    """Run a command and print the CPU seconds of all processes that it started, orphans included."""
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
    """Return the command line of each installed tool, for this many samples."""
    found = {OURS: _agent(count, folder, READ_BY_VMSTAT), OURS_ALL: _agent(count, folder, ())}
    peers = {
        "vmstat": ["vmstat", "1", str(count)],
        "sar -u -r -S -B -W -q -w": ["sar", "-u", "-r", "-S", "-B", "-W", "-q", "-w", "1", str(count)],
    }
    for name, argv in peers.items():
        place = shutil.which(argv[0])
        if place is not None:
            found[name] = [place, *argv[1:]]
    if _has_psutil():
        found["psutil"] = [_PYTHON, "-c", _PSUTIL, str(count), "1"]
    return found


def _has_psutil() -> bool:
    return subprocess.run([_PYTHON, "-c", "import psutil"], check=False, capture_output=True).returncode == 0


def _agent(count: int, folder: Path, sources: Sequence[str]) -> list[str]:
    request: dict[str, object] = {"id": 1, "do": "sample", "count": count, "limit_s": 3600}
    if sources:
        request["sources"] = list(sources)
    file = folder / f"{count}-{len(sources)}.jsonl"
    file.write_text(json.dumps(request) + "\n", encoding="utf-8")
    return [str(find_agent()), "batch", "--role", "user", str(file)]


def used_s(tools: Mapping[str, Sequence[str]], order: random.Random) -> dict[str, float]:
    """Return the CPU seconds of each command, while all run at once."""
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
    """Return the CPU microseconds of each tool's sample, round by round."""
    order = random.Random(7)
    starts: dict[str, list[float]] = {}
    wholes: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="ktrial-perf-") as name:
        for count, found in ((FEW, starts), (FEW + samples, wholes)):
            tools = commands(count, Path(name))
            for _ in range(ROUNDS):
                for tool, used in used_s(tools, order).items():
                    found.setdefault(tool, []).append(used)
    return {
        tool: [(whole - statistics.median(starts[tool])) / samples * 1e6 for whole in wholes[tool]] for tool in wholes
    }


def selfcost(*sources: str) -> list[dict[str, Any]]:
    """Return the agent's report on its own cost."""
    told = json.loads(subprocess.check_output([find_agent(), "selfcost", "--json", *sources]))
    rows: list[dict[str, Any]] = told["sources"]
    return rows


def fast(argv: Sequence[str], few: int, many: int, environment: Mapping[str, str]) -> float:
    """Return the CPU microseconds of a sample of a tool that does not wait.

    COUNT in its words is replaced by the number of samples.
    """
    used = []
    for count in (few, many):
        words = [str(count) if word == "COUNT" else word for word in argv]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, env={**os.environ, **environment}) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"{argv[0]} ended with {process.returncode}")
        used.append(usage.ru_utime + usage.ru_stime)
    return (used[1] - used[0]) / (many - few) * 1e6


def against_vmstat() -> bool:
    """Compare the agent with vmstat, both without waits; return whether the goal was met."""
    vmstat = shutil.which("vmstat")
    if vmstat is None:
        print("vmstat is not installed: install procps")
        return False
    ratios = []
    theirs = []
    ours: dict[tuple[str, ...], list[float]] = {READ_BY_VMSTAT: [], SHOWN_BY_VMSTAT: []}
    with tempfile.TemporaryDirectory(prefix="ktrial-perf-") as name:
        library = f"{name}/no-waiting.so"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], input=_NO_WAITING.encode(), check=True
        )
        for _ in range(ROUNDS):
            theirs.append(fast([vmstat, "1", "COUNT"], FEW, FEW + FAST_SAMPLES, {"LD_PRELOAD": library}))
            for sources, costs in ours.items():
                costs.append(selfcost(*sources)[0]["sample_ns"] / 1e3)
            ratios.append(ours[READ_BY_VMSTAT][-1] / theirs[-1])
    _row("vmstat", theirs)
    for sources, costs in ours.items():
        _row(f"the agent, {', '.join(sources)}", costs)
    if _has_psutil():
        slow = [fast([_PYTHON, "-c", _PSUTIL, "COUNT", "0"], FEW, FEW + 500, {}) for _ in range(ROUNDS)]
        _row("psutil", slow)
    ratio = statistics.median(ratios)
    met = ratio <= MOST_OF_VMSTAT
    verdict = "met" if met else "MISSED"
    print(f"  {' and '.join(READ_BY_VMSTAT)} over vmstat: {ratio:.2f}; at most {MOST_OF_VMSTAT:.2f}: {verdict}")
    return met


def _row(name: str, values: Sequence[float]) -> None:
    print(f"  {name:32} median {statistics.median(values):8.1f} us, {min(values):8.1f} to {max(values):8.1f} us")


def bare() -> bool:
    """Compare the agent with bare reads of its files; return whether the goal was met."""
    print("as fast as it goes:")
    print(f"  {'':16}{'files':>7}{'columns':>9}{'a sample':>13}{'bare reads':>13}{'ratio':>8}")
    met = True
    for row in selfcost():
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
    """Measure and print; return 1 if a goal was missed or a peer is not installed."""
    if sys.argv[1:2] == ["--reap"]:
        reap(sys.argv[2:])
        return 0
    samples = argument("SAMPLES", SAMPLES, how_many)
    met = bare()
    met = against_vmstat() and met
    print(f"everybody at once, one sample a second, {ROUNDS} rounds of {samples} samples:")
    for name, values in side_by_side(samples).items():
        _row(name, values)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

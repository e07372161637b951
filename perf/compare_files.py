# SPDX-License-Identifier: Apache-2.0
"""`ktrial compare` of two small files, as a whole process, against `benchstat` on the same numbers.

Run in a checkout that is set up:  .venv/bin/python -m perf.compare_files [BENCHSTAT]

`go install golang.org/x/perf/cmd/benchstat@latest` builds the peer; without it, the start of Python is the peer.
"""

from __future__ import annotations

import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from perf.arguments import argument
from perf.side_by_side import measure, report

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 15
RUNS = 10
GOAL_S = 1.0


def run(*argv: str) -> None:
    """Run one process without its output."""
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def write(path: Path, base_ns: float, generator: random.Random) -> None:
    """Write three Go benchmarks of ten runs each."""
    lines = [
        f"Benchmark{name} 100 {base_ns * factor * generator.gauss(1, 0.02):.1f} ns/op\n"
        for name, factor in (("Wakeup", 1), ("Pipe", 3), ("Fault", 7))
        for _ in range(RUNS)
    ]
    path.write_text("".join(lines))


def cpu_s(action: Callable[[], None]) -> float:
    """Return the CPU time of a process, which is its time on an idle machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    action()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Measure and print; return 1 if a goal was missed."""
    python = str(ROOT / ".venv/bin/python")
    benchstat = argument("BENCHSTAT", shutil.which("benchstat"), str)
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder, "old.txt"), Path(folder, "new.txt")
        generator = random.Random(7)
        write(old, 1000, generator)
        write(new, 900, generator)
        compare = partial(run, python, "-m", "ktrial", "compare", f"old={old}", f"new={new}")
        bare = "python -c 'import numpy'"
        actions = {"ktrial compare": compare, bare: partial(run, python, "-I", "-c", "import numpy")}
        peer = bare
        if benchstat is not None:
            peer = "benchstat"
            actions[peer] = partial(run, benchstat, str(old), str(new))
        times_s = measure(actions, ROUNDS)
        busy_s = statistics.median(cpu_s(compare) for _ in range(5))
    report(times_s, peer, {})
    median_s = statistics.median(times_s["ktrial compare"])
    verdict = "met" if median_s <= GOAL_S else "MISSED"
    print(f"ktrial compare: {busy_s:.2f} s of CPU time, {median_s:.2f} s, goal {GOAL_S:g} s: {verdict}")
    return 0 if median_s <= GOAL_S else 1


if __name__ == "__main__":
    sys.exit(main())

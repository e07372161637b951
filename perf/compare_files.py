# SPDX-License-Identifier: Apache-2.0
"""`ktrial compare` of two small files, whole process, against `benchstat` on the same numbers.

Run in a checkout that is set up:  .venv/bin/python -m perf.compare_files [BENCHSTAT]
`go install golang.org/x/perf/cmd/benchstat@latest` makes the peer; without it Python's start is the peer.
"""

from __future__ import annotations

import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from perf.side_by_side import measure, report

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 15
RUNS = 10
GOAL_S = 1.0


def run(*argv: str) -> None:
    """One process, its output thrown away."""
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def write(path: Path, base_ns: float, generator: random.Random) -> None:
    """Three Go benchmarks of ten runs each."""
    lines = [
        f"Benchmark{name} 100 {base_ns * factor * generator.gauss(1, 0.02):.1f} ns/op\n"
        for name, factor in (("Wakeup", 1), ("Pipe", 3), ("Fault", 7))
        for _ in range(RUNS)
    ]
    path.write_text("".join(lines))


def main() -> int:
    """Measure and print; 1 when a goal was missed."""
    python = str(ROOT / ".venv/bin/python")
    benchstat = sys.argv[1] if len(sys.argv) > 1 else shutil.which("benchstat")
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
    report(times_s, peer, {})
    median_s = statistics.median(times_s["ktrial compare"])
    print(f"ktrial compare: {median_s:.2f} s, goal {GOAL_S:g} s: {'met' if median_s <= GOAL_S else 'MISSED'}")
    return 0 if median_s <= GOAL_S else 1


if __name__ == "__main__":
    sys.exit(main())

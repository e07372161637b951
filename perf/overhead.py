# SPDX-License-Identifier: Apache-2.0
"""What ktrial itself takes of a trial's time, per run of a benchmark: apply, verify, look, run, store and judge.

The benchmark does nothing, so that all of a run's time is the tool's; the goal is 3 % of one of five seconds.
Run as root in a checkout that is set up:  .venv/bin/python -m perf.overhead
"""

from __future__ import annotations

import cProfile
import io
import os
import pstats
import statistics
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from ktrial.cli.main import main as ktrial
from ktrial.domain.run import RunRecord
from ktrial.host.folders import state_folder
from ktrial.store.database import Database
from ktrial.store.recorder import Recorder
from ktrial.store.runs import Store

GOAL_SHARE = 0.03
BENCHMARK_S = 5.0
BLOCKS = 20
KNOB = "vm.swappiness"
#: Part -> the function that all of its time is spent below.
PARTS = {
    "apply and revert": ("trial_arms.py", "enter"),
    "read back": ("trial_arms.py", "drifted"),
    "state of an arm (once)": ("trial_course.py", "_keep_state"),
    "look at the machine before": ("start.py", "judge"),
    "look after, pack samples": ("one_run.py", "_record"),
    "run the benchmark": ("one_run.py", "_execute"),
    "store the run": ("recorder.py", "save"),
    "store the log": ("trials.py", "append"),
    "judge": ("judge.py", "judge"),
}


def main() -> int:
    """Measure and print; 1 when the goal was missed."""
    if os.geteuid() != 0:
        print("perf.overhead sets a knob: run it as root", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="ktrial-perf-") as folder:
        os.environ["XDG_STATE_HOME"] = folder
        profile = cProfile.Profile()
        words = ["try", f"{KNOB}=10", "--settle", "0s", "--no-profile", "--budget", str(BLOCKS), "--", "true"]
        said = io.StringIO()
        profile.enable()
        status = ktrial(["--machine-state", f"{folder}/journal", *words], io.StringIO(), said)
        profile.disable()
        if status != 0 or "in force already" in said.getvalue():
            print(said.getvalue(), file=sys.stderr)
            return 1
        records = _records()
    starts = sorted(one.started_monotonic_ns for one in records if not one.is_warm_up)
    apart_s = [(after - before) / 1e9 for before, after in pairwise(starts)]
    own_s = [(one.resources.wall_ns or 0) / 1e9 for one in records]
    cost_s = statistics.median(apart_s) - statistics.median(own_s)
    print(f"from one run's start to the next {1e3 * statistics.median(apart_s):.0f} ms (median of {len(apart_s)}),")
    print(f"of which the benchmark itself {1e3 * statistics.median(own_s):.1f} ms; with a profiler, which slows it:")
    for part, took_s in _parts(profile, len(records)).items():
        print(f"  {1e3 * took_s:6.1f} ms  {part}")
    share = cost_s / BENCHMARK_S
    print(f"{1e3 * cost_s:.0f} ms a run: {share:.1%} of {BENCHMARK_S:g} s (goal: less than {GOAL_SHARE:.0%})")
    return 0 if share < GOAL_SHARE else 1


def _records() -> tuple[RunRecord, ...]:
    store = Store(Database.open(str(state_folder() / "results.db")))
    try:
        (session,) = store.sessions()
        return Recorder(lambda: store, lambda: 0).records(session.session)
    finally:
        store.close()


def _parts(profile: cProfile.Profile, runs: int) -> dict[str, float]:
    """Seconds per run below each function."""
    found = {}
    stats = pstats.Stats(profile, stream=io.StringIO()).stats  # type: ignore[attr-defined]
    for part, (file, name) in PARTS.items():
        took = [row[3] for (path, _, called), row in stats.items() if Path(path).name == file and called == name]
        found[part] = sum(took) / runs
    return found


if __name__ == "__main__":
    sys.exit(main())

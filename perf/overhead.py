# SPDX-License-Identifier: Apache-2.0
"""How much of a trial's time ktrial itself takes, and whether its sampler disturbs what is measured beside it.

- Per run of a benchmark: apply, verify, look, run, store and judge. The benchmark does nothing, so the whole time of a
  run is ktrial's; the goal is 3 % of a run of five seconds.
- A trial of the built-in wake-up load, whose arm is `ktrial watch` recording beside it at its default rates.

Run as root in a checkout that is set up:  .venv/bin/python -m perf.overhead [BLOCKS]
"""

from __future__ import annotations

import contextlib
import cProfile
import io
import json
import os
import pstats
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from ktrial.agent.user_folders import state_folder
from ktrial.bench.record import RunRecord
from ktrial.cli.main import main as ktrial
from ktrial.results.store.database import Database
from ktrial.results.store.recorder import Recorder
from ktrial.results.store.runs import Store
from perf.arguments import argument, how_many

GOAL_SHARE = 0.03
BENCHMARK_S = 5.0
BLOCKS = 20
KNOB = "vm.swappiness"
#: Part of a run -> the function that contains all of its time.
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


#: The trial: do the load's threads wake up later beside the sampler? {own} are the words that start this file.
TRIAL = """
name = "sampler"
suite = "agent-wakeup-futex"
parameters = {{ duration_s = 2 }}
primary = "agent-wakeup-futex.wakeup-p50"
secondary = ["agent-wakeup-futex.wakeup-p99", "agent-wakeup-futex.lateness-p99"]
margin = "5%"
[design]
cap = {blocks}
anyway = true
settle = "1s"
until_all_decided = true
[arms.control]
[arms.placebo]
placebo = true
[arms.sampler]
commands = [{{ run = {begin}, undo = {end}, check = {check} }}]
"""
_STOP_S = 10.0


def main() -> int:
    """Measure and print; return 1 if a goal was missed."""
    if len(sys.argv) == 3:
        return {"begin": begin, "end": end, "check": check}[sys.argv[1]](Path(sys.argv[2]))
    blocks = argument("BLOCKS", BLOCKS, how_many)
    if os.geteuid() != 0:
        print("perf.overhead sets a knob: run it as root", file=sys.stderr)
        return 1
    within = own_time()
    return 0 if disturbance(blocks) and within else 1


def own_time() -> bool:
    """Print the time of a run besides the benchmark; return whether it is within the goal."""
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
            return False
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
    return share < GOAL_SHARE


def disturbance(blocks: int) -> bool:
    """Print the trial of the sampler; return whether nothing got worse beside it."""
    with tempfile.TemporaryDirectory(prefix="ktrial-perf-") as folder:
        os.environ["XDG_STATE_HOME"] = folder
        own = [sys.executable, "-m", "perf.overhead"]
        words = {verb: json.dumps([*own, verb, folder]) for verb in ("begin", "end", "check")}
        protocol = Path(folder) / "sampler.toml"
        protocol.write_text(TRIAL.format(blocks=blocks, **words), encoding="utf-8")
        said = io.StringIO()
        status = ktrial(["--machine-state", f"{folder}/journal", "trial", "run", str(protocol)], said, sys.stderr)
        print(said.getvalue())
        listed = io.StringIO()
        ktrial(["trial", "list", "--json"], listed, sys.stderr)
        return status == 0 and '"worse"' not in listed.getvalue()


def begin(folder: Path) -> int:
    """Let `ktrial watch` record until it is told to stop."""
    words = ["-m", "ktrial", "watch", "--plain", "-o", str(folder / f"recording-{time.monotonic_ns()}")]
    with (folder / "watch.log").open("wb") as log:
        watching = subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    (folder / "watch.pid").write_text(str(watching.pid), encoding="utf-8")
    return 0


def end(folder: Path) -> int:
    """Stop the recording; return 1 if it does not end."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((folder / "watch.pid").read_text(encoding="utf-8")), signal.SIGINT)
    until = time.monotonic() + _STOP_S
    while check(folder) == 0 and time.monotonic() < until:
        time.sleep(0.05)
    return 1 - check(folder)


def check(folder: Path) -> int:
    """Return 0 while it records."""
    try:
        pid = (folder / "watch.pid").read_text(encoding="utf-8")
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return 1
    return 0 if b"watch" in words else 1


def _records() -> tuple[RunRecord, ...]:
    store = Store(Database.open(str(state_folder() / "results.db")))
    try:
        (session,) = store.sessions()
        return Recorder(lambda: store, lambda: 0).records(session.session)
    finally:
        store.close()


def _parts(profile: cProfile.Profile, runs: int) -> dict[str, float]:
    """Return the seconds per run below each function."""
    found = {}
    stats = pstats.Stats(profile, stream=io.StringIO()).stats  # type: ignore[attr-defined]
    for part, (file, name) in PARTS.items():
        took = [row[3] for (path, _, called), row in stats.items() if Path(path).name == file and called == name]
        found[part] = sum(took) / runs
    return found


if __name__ == "__main__":
    sys.exit(main())

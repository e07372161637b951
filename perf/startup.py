# SPDX-License-Identifier: Apache-2.0
"""Start-up of the command, with an empty ledger and with a ledger that has the knob, against Python with click.

The peer is `python -c 'import click'`. Run in a checkout that is set up:  .venv/bin/python -m perf.startup
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec

from ktrial.agent.lent_root import LAUNCHED
from ktrial.judge.model.verdict import Effect
from ktrial.studies.ledger.model import Ledger, LedgerEntry
from perf.side_by_side import measure, report

ROOT = Path(__file__).resolve().parents[1]
PEER = "python -c 'import click'"
ROUNDS = 40
GOAL = 1.6
KNOB = "vm.swappiness"
#: Number of trials in the ledger; a third of them are about the knob.
TRIALS = 60


def run(environment: Mapping[str, str], *argv: str) -> None:
    """Run one process without its output."""
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment})


def ledger() -> Ledger:
    """Return a ledger of decided trials."""
    knobs = (KNOB, "vm.dirty_ratio", "vm.watermark_scale_factor")
    return Ledger(trials={f"t{number}": (_entry(number, knobs[number % 3]),) for number in range(TRIALS)})


def _entry(number: int, knob: str) -> LedgerEntry:
    return LedgerEntry(
        trial=f"t{number}",
        arm="changed",
        started_unix_ms=1_760_000_000_000 + number * 3_600_000,
        machine="the one of perf/startup",
        kernel="6.12.0",
        scope="on one boot",
        control="control",
        changes={knob: str(number)},
        workload="agent-pressure 0a1b2c3d",
        outcome="agent-pressure.late_frames",
        direction="lower",
        verdict="inconclusive",
        effect=Effect(estimate=0.01, low=-0.02, high=0.04, method="blocked"),
        blocks=20,
        over=True,
        held={"vm.vfs_cache_pressure": "100"},
    )


def main() -> int:
    """Measure and print; return 1 if a goal was missed."""
    python = str(ROOT / ".venv/bin/python")
    ktrial = str(ROOT / "ktrial")
    with tempfile.TemporaryDirectory() as folder:
        empty = {"XDG_STATE_HOME": f"{folder}/empty", "XDG_CACHE_HOME": f"{folder}/cache"}
        filled = {**empty, "XDG_STATE_HOME": f"{folder}/filled"}
        (Path(folder) / "filled/ktrial").mkdir(parents=True)
        (Path(folder) / "filled/ktrial/ledger.json").write_bytes(msgspec.json.encode(ledger()))
        _check(ktrial, empty, filled)
        actions = {
            PEER: partial(run, {}, python, "-I", "-c", "import click"),
            "./ktrial --version": partial(run, empty, ktrial, "--version"),
            "its head alone, without the launcher": partial(
                run, {**empty, LAUNCHED: "root"}, python, "-I", "-S", f"{ROOT}/src/ktrial/__main__.py", "--version"
            ),
            f"./ktrial explain {KNOB}, no trials": partial(run, empty, ktrial, "explain", KNOB),
            f"the same, {TRIALS // 3} of {TRIALS} trials of it": partial(run, filled, ktrial, "explain", KNOB),
            "launcher alone (sh, nothing to do)": partial(
                run, {}, "/bin/sh", "-c", f'root={ROOT}; . "$root/setup/ready.sh"; is_ready'
            ),
        }
        goals = {name: GOAL for name in actions if "ktrial" in name or "trials" in name}
        return 0 if report(measure(actions, ROUNDS), PEER, goals) else 1


def _check(ktrial: str, empty: Mapping[str, str], filled: Mapping[str, str]) -> None:
    """Check that each timed command does what its name says."""
    for environment, wanted in ((empty, False), (filled, True)):
        told = subprocess.run(
            [ktrial, "explain", KNOB], env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        if ("measured here" in told) is not wanted:
            raise SystemExit(f"perf/startup: explain {'shows no' if wanted else 'shows'} trials:\n{told}")


if __name__ == "__main__":
    sys.exit(main())

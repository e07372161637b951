# SPDX-License-Identifier: Apache-2.0
"""The ledger of real trials: variables of the environment on trial, by a program that tells how long it took."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.studies.system.test_blame import METRIC, home, run

__all__ = ["home"]
PROGRAM = """
import os, random
took = 1.3 if "SLOW" in os.environ else 1.0
print("took", took * (1 + random.gauss(0, 0.005)))
"""


def test_a_trial_is_in_the_ledger_and_its_repetition_supersedes_it(home: Path) -> None:
    (home / "program.py").write_text(PROGRAM)
    assert "No trials on this machine yet" in run("ledger")[1]
    given = ["--metric", METRIC, "--primary", "took", "--no-profile", "--settle", "0s", "--name", "slow"]
    status, _, err = run("try", "--env", "SLOW=1", *given, "--", sys.executable, "-S", str(home / "program.py"))
    assert status == 0, err
    first = json.loads(run("ledger", "--json")[1])["entries"]
    assert [(one["entry"]["verdict"], one["standing"], one["changed_since"]) for one in first] == [
        ("worse", "refused", [])
    ]
    trial = first[0]["entry"]["trial"]
    status, _, err = run("retest", trial, "--no-profile")
    assert status == 0, err
    entries = [one["entry"] for one in json.loads(run("ledger", "--json")[1])["entries"]]
    assert [one.get("superseded_by") for one in entries] == [None, entries[0]["trial"]]
    assert entries[1]["trial"] == trial
    assert "| worse (superseded) |" in run("ledger", "--markdown")[1]
    status, _, err = run("retest")
    assert (status, "nothing to retest: no trial is out of date" in err) == (2, True)


def test_explain_tells_what_was_measured_here(home: Path) -> None:
    folder = home / ".local/state/ktrial"
    folder.mkdir(parents=True)
    entry = {
        "trial": "old-1",
        "arm": "case",
        "started_unix_ms": 1_700_000_000_000,
        "machine": "another",
        "kernel": "3.2",
        "scope": "on one boot",
        "control": "control",
        "changes": {"vm.swappiness": "10"},
        "workload": "quick 1",
        "outcome": "tool.time",
        "verdict": "better",
        "over": True,
    }
    (folder / "ledger.json").write_text(json.dumps({"schema": "ktrial.ledger/1", "trials": {"old-1": [entry]}}))
    text = " ".join(run("explain", "vm.swappiness")[1].split())
    assert "measured here better vm.swappiness=10 in tool.time (quick)" in text
    assert "2023-11-14, old-1; kernel 3.2" in text
    assert "Measured under other conditions: the kernel was 3.2" in text
    assert json.loads(run("explain", "vm.swappiness", "--json")[1])["measured"][0]["trial"] == "old-1"
    assert "measured here" not in run("explain", "vm.page-cluster")[1]
    (folder / "ledger.json").write_text("{")
    assert run("explain", "vm.swappiness")[0] == 0

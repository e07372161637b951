# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.suite import Task
from ktrial.bench.suite_files import load_suites
from ktrial.bench.suites import find_suite
from ktrial.kit.errors import BadInput
from ktrial.studies.goals import load_goals
from ktrial.trial.protocol.file import ArmFile, TrialFile
from ktrial.trial.protocol.protocol import protocol_of
from ktrial.tuning.catalog.loader import load_catalog

CATALOG = load_catalog()
BENCHMARKS = all_benchmarks()
SUITES = load_suites([], BENCHMARKS)
MEASURABLE = (*SUITES, *BENCHMARKS)


def test_every_measure_names_an_outcome_that_can_decide() -> None:
    goals = load_goals([], CATALOG, MEASURABLE)
    assert set(goals) == {"gaming", "latency", "throughput", "battery", "quiet"}
    for goal in goals.values():
        for measure in goal.measure:
            entries = find_suite(measure.suite, SUITES, BENCHMARKS).benchmark
            tasks = tuple(
                Task(label=one.label, benchmark=BENCHMARKS[one.use], parameters={}, cpus=None) for one in entries
            )
            file = TrialFile(
                name="t", suite=measure.suite, primary=measure.primary, arms={"control": ArmFile(), "a": ArmFile()}
            )
            assert protocol_of(file, tasks, {}, 1, None, 1).primary.endswith(f".{measure.primary}")


def written(folder: Path, text: str) -> Path:
    (folder / "goals").mkdir()
    (folder / "goals" / "mine.toml").write_text(text)
    return folder


MINE = 'name = "mine"\nwhat = "Mine."\n[[measure]]\nknobs = ["vm.*"]\nsuite = "quick"\nprimary = "x"\n'


def test_users_have_goals_of_their_own(tmp_path: Path) -> None:
    assert "mine" in load_goals([written(tmp_path, MINE)], CATALOG, MEASURABLE)


@pytest.mark.parametrize(
    "text, said",
    [
        ('name = "mine"\nwhat = "x"\nmeasure = []\n', "has no"),
        (MINE.replace("quick", "quik"), "did you mean quick"),
        (MINE.replace("vm.*", "vmm.*"), "no knob matches 'vmm.*'"),
        (MINE.replace('"Mine."', '"Mine."\nprofiles = ["ktweek"]'), "ktweek"),
        (MINE.replace("mine", "gaming"), "already exists"),
        (MINE + '[[candidate]]\nknob = "vm.swappiness"\nvalue = 999\nwhy = "x"\n', "out of range"),
        (MINE + '[[candidate]]\nknob = "kernel.watchdog"\nvalue = 0\nwhy = "x"\n', "covers kernel.watchdog"),
    ],
)
def test_what_cannot_be_meant_is_said_with_its_file(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        load_goals([written(tmp_path, text)], CATALOG, MEASURABLE)
    assert said in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.file is None or "mine.toml" in caught.value.file

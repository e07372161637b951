# SPDX-License-Identifier: Apache-2.0
"""Trials of several machines, taken together by `ktrial compare --pool`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ktrial.judge.model.log import OutcomeRule, TrialEnd
from ktrial.kit.errors import BadInput
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from ktrial.trial.outcome.pool import pooled_question
from ktrial.trial.protocol.file import ArmFile, TrialFile
from tests.support.told_trials import a_protocol, messaging_trial
from tests.support.tree import FakeRoot

HOSTS = ("aa", "bb", "cc")
TRIALS = [f"messages-{host}" for host in HOSTS]


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the same trial of three hosts with the same hardware, and three that cannot be pooled with them."""
    place = tmp_path_factory.mktemp("once")
    store = Store(Database.open(str(place / "a.db")))
    for number, host in enumerate(HOSTS):
        messaging_trial(store, host=host, seed=number)
    messaging_trial(store, host="dd", command="other")
    messaging_trial(store, host="ee", ended=False)
    store.close()
    return place


@pytest.fixture
def machine(once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRoot:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    shutil.copy(once / "a.db", "a.db")
    return FakeRoot(tmp_path / "root")


def a_trial(name: str, **fields: Any) -> Any:
    """A finished trial with these fields in its file."""
    file = TrialFile(name="t", arms={"control": ArmFile(), "case": ArmFile()}, **fields)
    primary = f"make.{(file.primary or 'wall').removeprefix('make.')}"
    protocol = a_protocol(("control", "case"), outcomes={primary: OutcomeRule(direction="lower", role="primary")})
    end = TrialEnd(reason="decided")
    return SimpleNamespace(stored=SimpleNamespace(file=file, trial=name), protocol=protocol, log=(end,))


def test_each_trial_is_a_machine_with_its_blocks(machine: FakeRoot) -> None:
    ran = machine.run("--store", "a.db", "compare", "--pool", *TRIALS, "--json")
    assert ran.status == 0, ran.err
    found = json.loads(ran.out)
    assert found["control"] == "control"
    (outcome,) = found["outcomes"]
    assert (outcome["role"], found["asked"]["primary"]) == ("primary", "perf-messaging.time")
    assert found["asked"]["declared"] == ["environment"]
    (contrast,) = outcome["contrasts"]
    machines = contrast["pooled"]["machines"]
    assert [one["machine"] for one in machines] == [f"Example 1, 8 CPUs, no. {number}" for number in (1, 2, 3)]
    assert all(one["blocks"] >= 7 and one["effect"] for one in machines)
    assert 0.02 < contrast["effect"]["estimate"] < 0.06
    assert found["scope"] == "across 3 machines"


def test_it_comes_out_again_from_its_bundle_without_a_name_of_a_host(machine: FakeRoot) -> None:
    machine.run("--store", "a.db", "compare", "--pool", *TRIALS, "-o", "found.json")
    packed = machine.run("--store", "a.db", "bundle", "--comparison", "found.json", "found.tar.zst")
    assert packed.status == 0, packed.err
    ran = machine.run("--store", "empty.db", "recheck", "found.tar.zst", "--json")
    assert (ran.status, json.loads(ran.out)["differences"]) == (0, [])
    assert machine.run("--store", "a.db", "publish", "found.json", "--data", "-o", "out").status == 0
    told = [json.loads(path.read_text()) for path in sorted(Path("out").glob("data/sessions/*/session.json"))]
    hosts = {session["document"]["machine"]["os.machine"]["value"] for session in told}
    assert len(hosts) == 3
    assert all(host.startswith("serial-") for host in hosts)


@pytest.mark.parametrize(
    "words, said",
    [
        (TRIALS, "belongs to a trial, which has its own protocol"),
        (["--pool", *TRIALS, "messages-dd"], '`environment` of its arm case is {"TOOL":"other"}, not {'),
        (["--pool", *TRIALS[:2], "messages-ee"], "cannot pool messages-ee: it is not over"),
        (["--pool", "stock=messages-aa", "messages-bb"], "is a trial, whose arms already have names"),
        (["--pool", "messages-aa"], "all runs are from one machine"),
    ],
)
def test_what_cannot_be_pooled_is_said(machine: FakeRoot, words: list[str], said: str) -> None:
    ran = machine.run("--store", "a.db", "compare", *words)
    assert ran.status == 2
    assert said in ran.err


@pytest.mark.parametrize(
    "one, other, said",
    [
        ({}, {"margin": 0.05}, "cannot pool b with a: its margin is 0.05, not unset"),
        ({"margin": 0.0}, {"margin": 0.05}, "margin is 0.05, not 0.0"),
        ({"suite": "quick"}, {"command": ("true",)}, 'suite is unset, not "quick"'),
        ({"parameters": {"n": 1}}, {}, 'parameters is unset, not {"n":1}'),
        ({"primary": "wall"}, {"primary": "time"}, 'primary is "make.time", not "make.wall"'),
    ],
)
def test_the_field_that_differs_has_its_own_values(one: dict[str, Any], other: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as caught:
        pooled_question([a_trial("a", **one), a_trial("b", **other)])
    assert said in caught.value.message


def test_a_primary_outcome_may_have_a_short_name() -> None:
    question = pooled_question([a_trial("a"), a_trial("b", primary="wall"), a_trial("c", primary="make.wall")])
    assert question.primary == "make.wall"


def test_no_claim_is_held_against_a_single_trial(machine: FakeRoot) -> None:
    ran = machine.run("--store", "a.db", "claim", "time -4%", "messages-aa")
    assert (ran.status, ran.out) == (2, "")
    assert "ktrial trial show" in ran.err


def test_trials_are_no_moments_of_a_history(machine: FakeRoot) -> None:
    ran = machine.run("--store", "a.db", "history", "time")
    assert ran.status == 2
    assert "no run has a measurement (sessions of trials" in ran.err

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.judge.model.log import Event, OutcomeRule, Screen, TrialArm, TrialEnd
from ktrial.kit.errors import BadInput
from ktrial.studies.ledger.ledger import again, choose_trial, entries_of, held_values, interacting
from ktrial.studies.ledger.ledger_now import now_of
from ktrial.studies.ledger.model import Now
from ktrial.studies.ledger.text import verdict_sentence
from ktrial.trial.protocol.file import ArmFile, DesignFile, TrialFile
from ktrial.trial.record import ArmSettings, StoredTrial
from ktrial.tuning.state.state import MachineState, StateValue
from tests.studies.unit.test_model_ledger import entry
from tests.support.knobs import KNOBS, knob
from tests.support.machine import FakeMachine
from tests.support.trials import RATE, TIME, log_of, protocol

#: Twelve blocks in which the case is clearly better, and one in which nobody is.
BETTER = {"control": [0.0] * 12, "case": [0.1 + 0.001 * place for place in range(12)]}
CASE = ArmSettings(changes={"vm.dirty_ratio": "5", "vm.swappiness": "60"})
FILE = TrialFile(
    name="t",
    suite="quick",
    arms={"control": ArmFile(), "case": ArmFile(set={"vm.dirty_ratio": 5})},
    design=DesignFile(seed=7),
)


def stored(**changes: Any) -> StoredTrial:
    fields: dict[str, Any] = {
        "trial": "t-1",
        "session": "s",
        "protocol_sha256": "0",
        "started_unix_ms": 5,
        "file": FILE,
        "arms": {"control": ArmSettings(changes={"vm.swappiness": "60"}), "case": CASE},
        "settle_s": 0.0,
        "machine": "m",
    }
    return StoredTrial(**{**fields, **changes})


def log() -> list[Event]:
    return [*log_of(protocol(), {TIME: BETTER}), TrialEnd(reason="every comparison has its verdict")]


def test_an_arm_is_entered_with_what_it_changes_beside_the_control() -> None:
    (found,) = entries_of(stored(), log(), "6.12", None, KNOBS)
    assert (found.verdict, found.over, found.outcome, found.direction) == ("better", True, TIME, "lower")
    assert found.changes == {"vm.dirty_ratio": "5"}
    assert (found.kernel, found.control, found.scope) == ("6.12", "control", "on one boot")
    baseline = stored(file=msgspec.structs.replace(FILE, baseline="stock"))
    assert entries_of(baseline, log(), "6.12", None, KNOBS)[0].control == "stock"


def test_an_arm_of_a_front_is_judged_by_where_it_is_better_and_never_if_it_breaks_a_guard() -> None:
    names = ("fast", "safe", "bad", "idle")
    gains = {RATE: (-0.1, 0.1, 0.1, 0.0), TIME: (0.1, -0.1, 0.1, 0.0), "tool.limit": (0.0, 0.0, -0.2, 0.0)}
    rules = {
        TIME: OutcomeRule(direction="lower", role="primary"),
        RATE: OutcomeRule(direction="higher", role="secondary"),
        "tool.limit": OutcomeRule(direction="lower", role="guard", margin=0.05),
    }
    scores = {
        outcome: {"control": [0.0] * 20}
        | {name: [gain + 0.001 * (block % 3) for block in range(20)] for name, gain in zip(names, row, strict=True)}
        for outcome, row in gains.items()
    }
    fixed = protocol(names, outcomes=rules, alpha=0.025, until_all_decided=True)
    arms = {name: ArmFile(set={"vm.dirty_ratio": place}) for place, name in enumerate(names)}
    file = msgspec.structs.replace(FILE, arms={"control": ArmFile(), **arms}, secondary=("rate",), front=("rate",))
    settings = {name: ArmSettings(changes={"vm.dirty_ratio": str(place)}) for place, name in enumerate(names)}
    kept = stored(file=file, arms={"control": ArmSettings(), **settings})
    found = {one.arm: one for one in entries_of(kept, log_of(fixed, scores), None, None, KNOBS)}
    assert {name: (one.outcome, one.verdict, one.worse) for name, one in found.items()} == {
        "fast": (TIME, "better", (RATE,)),
        "safe": (RATE, "better", (TIME,)),
        "bad": ("tool.limit", "worse", ()),
        "idle": (TIME, "equivalent", ()),
    }
    assert "; worse in tool.rate" in verdict_sentence(found["fast"])
    plain = msgspec.structs.replace(kept, file=msgspec.structs.replace(file, front=msgspec.UNSET))
    assert entries_of(plain, log_of(fixed, scores), None, None, KNOBS)[1].verdict == "worse"


def test_a_trial_that_goes_on_is_open_and_another_workload_is_another() -> None:
    (found,) = entries_of(stored(), log()[:4], None, None, KNOBS)
    assert (found.verdict, found.over) == (None, False)
    other = stored(file=msgspec.structs.replace(FILE, suite=None, command=("/bin/x", "1")))
    names = {entries_of(one, log(), None, None, KNOBS)[0].workload for one in (stored(), other)}
    assert {name.partition(" ")[0] for name in names} == {"quick", "x"}


def test_a_screening_says_nothing_by_itself() -> None:
    fixed = protocol(screen=Screen(settings=("a", "b")), arms=(TrialArm(name="control"),))
    assert entries_of(stored(), [fixed], None, None, KNOBS) == ()


def test_what_interacts_is_taken_from_the_state_of_the_control() -> None:
    knobs = {**KNOBS, "vm.x": knob("vm.x", interacts=["queue:scheduler", "vm.swappiness", "vm.gone"])}
    assert interacting(["vm.x", "vm.swappiness"], knobs) == {"queue:scheduler"}
    state = MachineState(
        facts={},
        knobs={"queue:scheduler@sda": "/sda", "queue:scheduler@sdb": "/sdb", "vm.dirty_ratio": "/d"},
        files={
            "/sda": StateValue(text="none [mq-deadline]"),
            "/sdb": StateValue(unreadable="no"),
            "/d": StateValue(text="20"),
        },
    )
    assert held_values(["vm.x"], state, knobs) == {"queue:scheduler@sda": "mq-deadline"}
    assert held_values(["vm.dirty_bytes"], state, knobs) == {"vm.dirty_ratio": "20"}
    assert held_values(["vm.x"], None, knobs) == {}


def test_now_is_read_from_the_machine_as_far_as_it_is_asked() -> None:
    files = {"/proc/sys/vm/swappiness": "10\n", "/sys/block/sda/queue/scheduler": "none [mq-deadline]\n"}
    machine = FakeMachine(files, {"kernel.release": "6.12"})
    asked = [entry(changes={"vm.swappiness": "10", "queue:scheduler@sda": "none"}), entry(changes={"vm.gone": "1"})]
    now = now_of(machine, asked, KNOBS)
    assert now.kernel == "6.12"
    assert now.values == {"vm.swappiness": "10", "queue:scheduler@sda": "mq-deadline"}


NOW = Now(machine="m", kernel="6.12", values={})


def test_what_is_to_be_repeated() -> None:
    both = entry("c", changes={"vm.swappiness": "10", "vm.page-cluster": "0"})
    old = entry("a", kernel="6.1")
    assert choose_trial("vm.swappiness", [both, entry("b"), old], NOW) == "b"
    assert choose_trial("vm.page-cluster", [both, old], NOW) == "c"
    assert choose_trial("c-name", [both, old], NOW) == "c-name"
    assert choose_trial(None, [both, old], NOW) == "a"
    with pytest.raises(BadInput, match="nothing to retest: no trial is out of date"):
        choose_trial(None, [both], NOW)


def test_the_same_once_more_has_a_seed_of_its_own_and_is_part_of_nothing() -> None:
    marked = {
        "control": ArmFile(),
        "case": ArmFile(set={"vm.dirty_ratio": 5}, placebo=True),
        "p": ArmFile(placebo=True),
    }
    found = again(msgspec.structs.replace(FILE, part="blame-1", arms=marked))
    assert (found.part, found.design.seed, found.suite) == (None, None, FILE.suite)
    assert [arm.placebo for arm in found.arms.values()] == [False, False, True]
    with pytest.raises(BadInput, match="this trial belongs to a blame"):
        again(msgspec.structs.replace(FILE, screen=Screen(settings=("a", "b"))))

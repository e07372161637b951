# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is in a trial by hand, whether that arm is in force, and how far one turn goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from ktrial.bench.suite import Task
from ktrial.judge.audit import audit
from ktrial.judge.model.log import ArmFound, BlockDrawn, Event, Looked, RunEnded, TrialArm, TrialEnd, block_order
from ktrial.kit.errors import Refused, UnknownName
from ktrial.machine.facts import Fact, FactBook, FactKind
from ktrial.trial.arms.manual import Due, Expected
from ktrial.trial.protocol.file import ArmFile, DesignFile, TrialFile
from ktrial.trial.record import ArmSettings, StoredTrial
from ktrial.trial.run.manual_visits import (
    VisitTurn,
    changed_arm,
    closing,
    due_of,
    file_of_visit,
    recognise,
    refuse_other_kernel,
    runs_per_visit,
    visits_made,
    with_signs_of_control,
)
from tests.support.bench import FakeBenchmark
from tests.support.records import run_record
from tests.support.trial_course import Trial, alike, orders_in
from tests.support.trials import pair_log, protocol

KINDS = {
    "kernel.release": FactKind(name="kernel.release", type="text", what="uname -r"),
    "cpu.smt": FactKind(name="cpu.smt", type="bool", what="SMT"),
}
BORE: Mapping[str, Expected] = {"kernel.release": "6.18-bore"}
STOCK: Mapping[str, Expected] = {"kernel.release": "6.18"}


def stored(replicate: Any = "run", signs: bool = True, **more: ArmFile) -> StoredTrial:
    """Control, `bore` (another kernel) and `swap` (a setting on the control's)."""
    bore = ArmFile(manual="boot the BORE kernel", expect=BORE if signs else {})
    arms = {"control": ArmFile(), "bore": bore, "swap": ArmFile(set={"vm.swappiness": 1}), **more}
    file = TrialFile(name="kernels", suite="quick", arms=arms, design=DesignFile(replicate=replicate, seed=7))
    return StoredTrial(
        trial="kernels-ab12",
        session="s",
        protocol_sha256="0" * 64,
        started_unix_ms=0,
        file=file,
        arms={
            "control": ArmSettings(expect=STOCK if signs else {}),
            "bore": ArmSettings(manual=bore.manual, expect=bore.expect),
            "swap": ArmSettings(changes={"vm.swappiness": "1"}),
            **{name: ArmSettings(manual=arm.manual, expect=arm.expect) for name, arm in more.items()},
        },
        settle_s=0.0,
        machine="m",
    )


def facts(release: str = "6.18", **more: Fact) -> FactBook:
    return FactBook({"kernel.release": Fact(value=release), **more})


def due(place: str = "bore", arm: str | None = None, **fields: Any) -> Due:
    given: dict[str, Any] = {
        "trial": "kernels-ab12",
        "block": 3,
        "arm": arm or place,
        "visit": 1,
        "visits": 3,
        "place": place,
        "instruction": "boot the BORE kernel",
        "expect": BORE if place == "bore" else STOCK,
        "confirm": False,
        "new_boot": False,
    }
    return Due(**{**given, **fields})


def test_turns_follow_the_orders_that_the_seed_draws() -> None:
    fixed = protocol(("bore", "swap"), cap=7, seed=7)
    log: list[Any] = [fixed]
    made: list[tuple[int, str]] = []
    while len(made) < 6:
        turn = due_of(stored(), log)
        assert turn is not None
        made.append((turn.block, turn.arm))
        assert turn.place == ("bore" if turn.arm == "bore" else "control")
        if turn.visit == 1:
            log.append(BlockDrawn(block=turn.block, order=block_order(7, turn.block, ["control", "bore", "swap"])))
        value = 1.0 + 0.001 * len(made)
        log.append(RunEnded(run=len(made), block=turn.block, arm=turn.arm, measurements={"tool.time": value}))
    wanted = [(block, arm) for block in (1, 2) for arm in block_order(7, block, ["control", "bore", "swap"])]
    assert made == wanted
    assert due_of(stored(), [*log, TrialEnd(reason="stopped")]) is None


def test_a_visit_that_lacks_a_run_is_still_due() -> None:
    order = block_order(7, 1, ["control", "bore"])
    half = RunEnded(run=1, block=1, arm=order[0], measurements={"tool.time": 1.0})
    log: list[Event] = [protocol(("bore",), seed=7, runs_per_visit=2), BlockDrawn(block=1, order=order), half]
    turn = due_of(stored(), log)
    assert turn is not None
    assert (turn.block, turn.arm, turn.visit) == (1, order[0], 1)


def test_an_arm_is_recognised_by_its_facts() -> None:
    found = recognise(stored(), due(), facts("6.18-bore"), KINDS, None)
    assert found == ArmFound(block=3, arm="bore", by="facts", facts={"kernel.release": "6.18-bore"})
    assert recognise(stored(), due("control", "swap"), facts(), KINDS, None).by == "facts"


def test_another_arm_is_refused_with_what_to_do_whatever_a_person_says() -> None:
    for done in (None, "bore"):
        with pytest.raises(Refused) as error:
            recognise(stored(), due(), facts(), KINDS, done)
        assert error.value.message == (
            "bore is due in block 3, but the machine is not set up as bore (but as control): "
            "kernel.release is 6.18, not 6.18-bore"
        )
        assert error.value.hint == "boot the BORE kernel; then  ktrial trial next kernels-ab12"
        assert error.value.exit_status == 4


def test_without_facts_a_person_says_it_and_that_is_kept() -> None:
    plain, turn = stored(signs=False), due(expect={}, confirm=True)
    with pytest.raises(Refused, match="does not show whether the arm is in force: it could also be control") as error:
        recognise(plain, turn, facts(), KINDS, None)
    assert error.value.hint is not None
    assert error.value.hint.endswith("ktrial trial next kernels-ab12 --done bore")
    assert recognise(plain, turn, facts(), KINDS, "bore") == ArmFound(block=3, arm="bore", by="person")
    with pytest.raises(Refused, match="bore is due in block 3, not control"):
        recognise(plain, turn, facts(), KINDS, "control")
    with pytest.raises(UnknownName):
        recognise(plain, turn, facts(), KINDS, "boar")


def test_facts_that_cannot_be_told_leave_it_to_a_person() -> None:
    untold = FactBook({"kernel.release": Fact(unknown="permission denied")})
    with pytest.raises(Refused, match="permission denied"):
        recognise(stored(), due(), untold, KINDS, None)
    assert recognise(stored(), due(), untold, KINDS, "bore").by == "person"


def test_facts_that_fit_two_arms_tell_none() -> None:
    both = stored(cable=ArmFile(manual="plug the cable in"))
    with pytest.raises(Refused, match="it could also be cable"):
        recognise(both, due(), facts("6.18-bore"), KINDS, None)


def test_boots_alone_need_no_sign() -> None:
    file = TrialFile(name="t", suite="quick", arms={"control": ArmFile(), "swap": ArmFile(set={"vm.swappiness": 1})})
    kept = StoredTrial(
        trial="t-1",
        session="s",
        protocol_sha256="0" * 64,
        started_unix_ms=0,
        file=file,
        arms={"control": ArmSettings(), "swap": ArmSettings()},
        settle_s=0.0,
        machine="m",
    )
    assert recognise(kept, due("control", "swap", expect={}), facts(), KINDS, None).by == "facts"


def test_the_control_is_what_is_found_unless_that_is_another_arm() -> None:
    kept = stored()
    found = with_signs_of_control(kept.file, {**kept.arms, "control": ArmSettings()}, facts(), KINDS)
    assert found["control"].expect == STOCK
    assert found["bore"] == kept.arms["bore"]
    with pytest.raises(Refused, match="the machine is set up as bore"):
        with_signs_of_control(kept.file, kept.arms, facts("6.18-bore"), KINDS)


def test_settings_of_a_manual_control_are_looked_up_in_it() -> None:
    control = ArmFile(manual="boot the stock kernel", expect=STOCK)
    kept = stored(control=control)
    assert with_signs_of_control(kept.file, kept.arms, facts(), KINDS) == kept.arms
    with pytest.raises(Refused, match=r"not set up as control \(kernel.release"):
        with_signs_of_control(kept.file, kept.arms, facts("6.18-bore"), KINDS)


def test_an_arm_keeps_its_kernel() -> None:
    ran = [run_record(1, "swap", 1, {"time_s": 1.0})]  # on 6.18.0
    refuse_other_kernel(stored(), due("bore"), ran, facts("6.19"))
    refuse_other_kernel(stored(), due("control"), ran, facts("6.18.0"))
    with pytest.raises(Refused, match=r"control ran on kernel 6\.18\.0 in block 1, but the running kernel is 6\.19"):
        refuse_other_kernel(stored(), due("control"), ran, facts("6.19"))


def test_only_what_this_machine_can_be_is_looked_up() -> None:
    kept = stored()
    assert set(file_of_visit(kept.file, due("control", "swap")).arms) == {"control", "swap"}
    there = file_of_visit(kept.file, due("bore")).arms
    assert there == {"control": ArmFile(), "bore": kept.file.arms["bore"]}


def test_an_arm_that_came_to_something_else_is_named() -> None:
    kept = stored()
    now = {"control": ArmSettings(), "swap": ArmSettings(changes={"vm.swappiness": "1"})}
    assert changed_arm(kept, due("control", "swap"), now) is None
    now["swap"] = ArmSettings(same=("vm.swappiness",))
    assert changed_arm(kept, due("control", "swap"), now) == "swap"
    assert changed_arm(kept, due("bore"), now) is None


def test_a_reason_that_is_worded_otherwise_changes_no_arm() -> None:
    kept = stored()
    changes = {"vm.swappiness": "1"}
    before = ArmSettings(changes=changes, refused={"vm.x": "no such file"})
    kept = msgspec.structs.replace(kept, arms={**kept.arms, "swap": before})
    now = ArmSettings(changes=changes, refused={"vm.x": "this kernel lacks it"})
    assert changed_arm(kept, due("control", "swap"), {"swap": now}) is None
    assert changed_arm(kept, due("control", "swap"), {"swap": ArmSettings(changes=changes)}) == "swap"


def turned(replicate: str, order_of_block: int = 1, **changes: Any) -> tuple[Trial, Due]:
    """A trial that makes the turn of its first visit."""
    trial = Trial(alike, arms=tuple(map(_arm, ("control", "case"))), cap=7, replicate=replicate, **changes)
    arms = {"control": ArmFile(), "case": ArmFile(set={"vm.swappiness": 10})}
    kept = stored(replicate, case=arms["case"])
    first = block_order(7, order_of_block, ["control", "case"])[0]
    turn = due("control", first, block=order_of_block, new_boot=replicate == "boot")
    trial.turn = VisitTurn(kept, turn, ArmFound(block=order_of_block, arm=first, by="facts"))
    return trial, turn


def _arm(name: str) -> TrialArm:
    return TrialArm(name=name)


def test_a_boot_is_one_visit_with_all_its_runs_after_its_own_warm_up() -> None:
    trial, turn = turned("boot", runs_per_visit=3)
    trial.run()
    runs = [event for event in trial.log if isinstance(event, RunEnded)]
    assert {run.arm for run in runs} == {turn.arm}
    assert [run.block for run in runs] == [None, None, 1, 1, 1]
    assert sum(isinstance(event, ArmFound) for event in trial.log) == 1
    assert not any(isinstance(event, TrialEnd) for event in trial.log)
    trial.run()
    assert sum(isinstance(event, RunEnded) and event.block is not None for event in trial.log) == 3
    assert len(orders_in(trial.log)) == 1


def test_where_boots_are_no_unit_a_turn_goes_on_as_far_as_nobody_is_needed() -> None:
    trial, _ = turned("run")
    trial.run()
    assert isinstance(trial.log[-1], TrialEnd)
    visits = [(event.block, event.arm) for event in trial.log if isinstance(event, RunEnded) and event.block]
    assert [(event.block, event.arm) for event in trial.log if isinstance(event, ArmFound)] == visits


def test_a_turn_that_was_killed_anywhere_is_made_to_its_end_by_the_next() -> None:
    whole, _ = turned("boot", runs_per_visit=2)
    whole.run()
    for last in range(1, whole.steps, 5):
        trial, _ = turned("boot", runs_per_visit=2)
        trial.run(last)
        trial.run()
        runs = [(event.block, event.arm) for event in trial.happened if isinstance(event, RunEnded)]
        assert runs == [(event.block, event.arm) for event in whole.happened if isinstance(event, RunEnded)], last


def test_a_turn_that_decides_the_trial_in_the_middle_of_a_block_ends_it() -> None:
    """Six runs of the arm fail and none of the control: that decides, though the block lacks the other arm."""
    trial, turn = turned("boot", runs_per_visit=6)
    trial.values = lambda block, arm: alike(block, arm) if block is None else b"nothing"
    judgement = trial.run()
    assert judgement is not None
    assert [(one.verdict, one.why) for one in judgement.judged] == [
        ("worse" if turn.arm == "case" else "better", "failures")
    ]
    assert isinstance(trial.log[-1], TrialEnd)
    assert closing(trial.log) == []


def test_an_end_that_was_not_written_any_more_is_made_good() -> None:
    log = pair_log(protocol(cap=7), [0.2 + 0.01 * block for block in range(7)])
    look, end = closing(log)
    assert isinstance(look, Looked)
    assert (look.blocks, look.verdicts) == (7, {"case:control": "better"})
    assert end == TrialEnd(reason="every comparison has its verdict")
    assert audit([*log, look, end]) == ()
    assert closing([*log, look]) == [end]
    assert closing([*log, look, end]) == []
    assert closing(log[:-1]) == []  # a run is missing yet


def test_how_many_runs_a_boot_is_worth() -> None:
    one = (Task(label="tool", benchmark=FakeBenchmark(name="tool"), parameters={"loops": 1}),)
    file = TrialFile(name="t", arms={}, design=DesignFile(replicate="boot"))
    assert runs_per_visit(TrialFile(name="t", arms={}), one, FactBook({})) == 1
    asked = DesignFile(replicate="boot", runs_per_visit=3)
    assert runs_per_visit(TrialFile(name="t", arms={}, design=asked), one, FactBook({})) == 3
    assert runs_per_visit(file, one, FactBook({})) == 2  # nobody says how long it takes

    def took(expected_s: float, *, once_per_boot: bool = False) -> int:
        tool = FakeBenchmark(name="tool", expected_s=expected_s, once_per_boot=once_per_boot)
        return runs_per_visit(file, (Task(label="tool", benchmark=tool, parameters={"loops": 1}),), FactBook({}))

    # The square root of 120 s over the time of a run, from 1 to 4.
    assert [took(seconds) for seconds in (30, 13, 1, 500)] == [2, 3, 4, 1]
    assert took(30, once_per_boot=True) == 1


def test_visits_that_were_made() -> None:
    before: list[Event] = [protocol()]
    after: list[Event] = [
        *before,
        RunEnded(run=1, block=None, arm="case"),
        *(RunEnded(run=run, block=1, arm="case") for run in (2, 3)),
        RunEnded(run=4, block=1, arm="control"),
    ]
    assert visits_made(before, after) == [(1, "case", 2), (1, "control", 1)]

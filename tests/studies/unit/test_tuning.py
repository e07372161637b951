# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pytest

from ktrial.judge.judge import judge
from ktrial.judge.model.log import BlockDrawn, Event, RunEnded, TrialEnd, block_order
from ktrial.judge.sequential import row_of
from ktrial.studies.blame.model import BlamePart
from ktrial.studies.goals import Candidate, Measure
from ktrial.studies.tune.model import TuneQuestion, TuneReceipt
from ktrial.studies.tune.select import MOST_ARMS, follow, groups_of
from ktrial.studies.tune.text import receipt_text, tune_text
from ktrial.trial.protocol.file import DesignFile, TrialFile
from ktrial.trial.protocol.protocol import protocol_of
from tests.support.blame import TASKS
from tests.support.trials import value_of

TEMPLATE = TrialFile(name="calm", guards={"other": "5%"}, arms={}, design=DesignFile(settle="0s"))


def candidate(knob: str, value: str, suite: str = "tool") -> Candidate:
    return Candidate(
        knob=knob,
        settings={knob: value},
        now={knob: "0"},
        measure=Measure(knobs=("*",), suite=suite, primary="time"),
        goal="calm",
        sources=("profile one",),
        why=(),
        price="Something.",
        risk="safe",
        evidence=(),
    )


def question(*candidates: Candidate) -> TuneQuestion:
    return TuneQuestion(name="tune-calm-1", groups=groups_of(candidates, TEMPLATE), seed=5)


Effects = Mapping[tuple[str, str], tuple[float, float]]


def carried_out(file: TrialFile, effects: Effects, clash: float, rng: np.random.Generator) -> BlamePart:
    """One trial; effects on the scores of both outcomes add up, and `clash` is added where several are in force."""
    assert file.design.seed is not None
    protocol = protocol_of(file, TASKS, {}, file.design.seed, None, 1)
    log: list[Event] = [protocol]
    run = 0
    while (step := judge(log).next).action != "stop":
        assert step.block is not None
        order = block_order(protocol.seed, step.block, step.arms)
        log.append(BlockDrawn(block=step.block, order=order))
        for arm in order:
            run += 1
            on = [effects.get((knob, str(value)), (0.0, 0.0)) for knob, value in file.arms[arm].set.items()]
            more = clash if len(on) > 1 else 0.0
            scores = {"tool.time": sum(one for one, _ in on) + more, "tool.other": sum(two for _, two in on)}
            measured = {
                name: value_of(score + rng.normal(0, 0.01), protocol.outcomes[name]) for name, score in scores.items()
            }
            log.append(RunEnded(run=run, block=step.block, arm=arm, measurements=measured))
    log.append(TrialEnd(reason=step.reason))
    directions = {name: rule.direction for name, rule in protocol.outcomes.items()}
    return BlamePart(trial=file.name, file=file, judgement=judge(log), runs=run, directions=directions)


def tuned(asked: TuneQuestion, effects: Effects, clash: float = 0.0) -> tuple[TuneReceipt, list[BlamePart]]:
    rng = np.random.default_rng(3)
    parts: list[BlamePart] = []
    while isinstance(wanted := follow(asked, parts), TrialFile):
        parts.append(carried_out(wanted, effects, clash, rng))
    return wanted, parts


def test_only_what_is_better_and_breaks_no_guard_is_kept() -> None:
    asked = question(candidate("good", "1"), candidate("bad", "1"), candidate("same", "1"), candidate("greedy", "1"))
    effects = {("good", "1"): (0.1, 0.0), ("bad", "1"): (-0.1, 0.0), ("greedy", "1"): (0.1, -0.3)}
    receipt, _ = tuned(asked, effects)
    told = {next(iter(one.settings)): (one.kept, one.reason) for one in receipt.tried}
    assert told["good"] == (True, "better, and breaks no guard")
    assert told["bad"] == (False, "worse")
    assert told["same"] in [(False, "equivalent"), (False, "inconclusive")]
    assert told["greedy"] == (False, "better, but breaks the guard tool.other")
    assert receipt.kept == {"good": "1"}


def test_nothing_is_kept_where_nothing_is_decided() -> None:
    receipt, parts = tuned(question(candidate("good", "1")), {("good", "1"): (0.002, 0.0)})
    assert receipt.kept == {}
    assert receipt.tried[0].verdict in {"equivalent", "inconclusive"}
    assert "Nothing is kept" in receipt_text(receipt, width=80)
    assert len(parts) == 1


def test_of_two_values_of_a_knob_the_better_one_is_kept() -> None:
    asked = question(candidate("knob", "1"), candidate("knob", "2"))
    receipt, parts = tuned(asked, {("knob", "1"): (0.1, 0.0), ("knob", "2"): (0.3, 0.0)})
    assert receipt.kept == {"knob": "2"}
    assert receipt.tried[0].reason == "better, but another value of the knob is better still"
    assert len(parts) == 1


def test_several_are_kept_only_where_they_are_better_together() -> None:
    asked = question(candidate("one", "1"), candidate("two", "1"))
    effects = {("one", "1"): (0.1, 0.0), ("two", "1"): (0.2, 0.0)}
    receipt, parts = tuned(asked, effects)
    assert receipt.kept == {"one": "1", "two": "1"}
    assert [part.trial for part in parts] == ["tune-calm-1.1", "tune-calm-1.1.together"]
    assert "better together too" in receipt.tried[0].reason
    receipt, _ = tuned(asked, effects, clash=-0.5)
    assert receipt.kept == {"two": "1"}
    assert "all of them together are worse" in receipt.tried[0].reason


def test_candidates_are_grouped_by_what_measures_them_and_no_trial_is_too_large() -> None:
    many = [candidate(f"vm.knob_{place}", "1") for place in range(MOST_ARMS + 1)]
    groups = groups_of([*many, candidate("queue:x@sda", "none", "disk")], TEMPLATE)
    assert [(one.trial.suite, len(one.arms)) for one in groups] == [("tool", MOST_ARMS), ("tool", 1), ("disk", 1)]
    names = [arm.name for group in groups for arm in group.arms]
    assert all(len(name) <= 20 for name in names)
    assert names[-1] == "1-x-sda-none"
    assert all(len({arm.name for arm in group.arms}) == len(group.arms) for group in groups)


def test_all_trials_of_a_tuning_share_the_error_rate_of_one() -> None:
    asked = question(*(candidate(f"vm.knob_{place}", "1") for place in range(MOST_ARMS + 4)))
    _, parts = tuned(asked, {})
    rates = [part.file.design.alpha for part in parts]
    assert rates == pytest.approx([0.05 * MOST_ARMS / 12, 0.05 * 4 / 12])
    assert [row_of(rate, arms) for rate, arms in zip(rates, (MOST_ARMS, 4), strict=True)] == [12, 12]
    _, parts = tuned(question(candidate("one", "1"), candidate("two", "1")), {})
    assert [part.file.design.alpha for part in parts] == [0.05]


def test_a_tuning_goes_on_from_its_trials_alone() -> None:
    asked = question(candidate("one", "1"), candidate("two", "1"))
    effects = {("one", "1"): (0.1, 0.0), ("two", "1"): (0.2, 0.0)}
    receipt, parts = tuned(asked, effects)
    assert follow(asked, parts) == receipt
    assert follow(asked, parts[:1]) == parts[1].file


def test_the_receipt_tells_how_to_undo_it() -> None:
    receipt, _ = tuned(question(candidate("good", "1"), candidate("bad", "1")), {("good", "1"): (0.1, 0.0)})
    text = receipt_text(receipt, width=100)
    assert "ktrial apply good=1" in text
    applied = msgspec.structs.replace(receipt, transaction=7)
    text = receipt_text(applied, width=100)
    assert "undo: ktrial revert --to 6" in text
    # A score that is better by 0.1 is exp(-0.1), 9.5 % less of the time.
    assert "good=1   -9" in text
    assert msgspec.json.decode(msgspec.json.encode(applied), type=TuneReceipt) == applied


@pytest.mark.parametrize("left_out", [{}, {"idle-package": "no RAPL"}])
def test_what_is_to_be_tried_is_said(left_out: dict[str, str]) -> None:
    text = tune_text(question(candidate("good", "1")), left_out, width=80)
    assert "1 candidate in 1 trial" in text
    assert "by time of tool: good=1" in text
    assert ("skipped: idle-package: no RAPL" in text) == bool(left_out)

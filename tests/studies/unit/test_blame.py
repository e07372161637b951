# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from ktrial.cli.shared.several_trials import belongs, is_open
from ktrial.judge.model.judgement import OutcomeJudgement
from ktrial.kit.errors import BadInput, Contradiction, Refused
from ktrial.studies.blame.blame import fate_of, follow
from ktrial.studies.blame.cost import cost_of, most_runs
from ktrial.studies.blame.factors import check_combinations, combinations_of, factors_of, left_out_of
from ktrial.studies.blame.model import Blame, Factor
from ktrial.trial.guests.recipe import KernelChange, KernelRecipe
from ktrial.trial.protocol.file import ArmFile, DesignFile, GuestFile, TrialFile
from ktrial.trial.protocol.read import check_trial_file
from ktrial.trial.record import ArmSettings
from ktrial.tuning.plans.model import Change, Plan, ZramStep
from tests.support.blame import blamed, question
from tests.support.knobs import KNOBS

#: 1.2 standard deviations of a block's difference, where a run's is 3 %: the effect of the table in the statistics.
EFFECT = 0.051
Effect = Callable[[frozenset[str]], float]


def nothing(on: frozenset[str]) -> float:
    return 0.0


def harm(*culprits: str) -> Effect:
    return lambda on: -EFFECT * len(on & set(culprits))


def together(*culprits: str) -> Effect:
    return lambda on: -EFFECT * (set(culprits) <= on)


def told(found: Blame) -> set[tuple[frozenset[str], str]]:
    return {(frozenset(one.factors), one.kind) for one in found.culprits}


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize(
    "planted, expected, most",
    [
        (harm("s5"), {(frozenset({"s5"}), "alone")}, 160),
        (harm("s5", "s11"), {(frozenset({"s5"}), "alone"), (frozenset({"s11"}), "alone")}, 220),
        (together("s5", "s11"), {(frozenset({"s5", "s11"}), "together")}, 360),
    ],
)
def test_the_culprits_among_16_are_named_exactly(
    planted: Effect, expected: set[tuple[frozenset[str], str]], most: int, seed: int
) -> None:
    found, _ = blamed(question(16, known="worse"), {"time": planted, "other": nothing}, seed)
    assert told(found) == expected
    assert found.runs <= most
    assert all(one.verdict == "worse" for one in found.culprits)


def test_who_was_named_by_chance_beside_a_pair_is_not_blamed_with_it() -> None:
    asked = question(16, seed=18_000, known="worse")
    effects = {"time": lambda on: -0.18 * ({"s5", "s11"} <= on), "other": nothing}
    found, parts = blamed(asked, effects, 18, 0.01)
    assert [part.file.name for part in parts][-1] == "test.needed-1-3"
    assert told(found) == {(frozenset({"s5", "s11"}), "together")}
    (innocent,) = found.suspects
    assert innocent in {one.setting for one in found.screenings[0][0].named}
    assert follow(asked, parts) == found
    assert follow(asked, parts[:-1]) == parts[-1].file


def test_no_blame_takes_more_runs_than_it_says_at_the_start() -> None:
    asked = question(16, seed=18_000, known="worse")
    effects = {"time": lambda on: -0.18 * ({"s5", "s11"} <= on), "other": nothing}
    found, _ = blamed(asked, effects, 18, 0.01)
    assert sum(one.most for one in cost_of(asked)) < most_runs(asked)
    assert found.runs <= most_runs(asked)
    # Three rounds of 144 to search, 75 to confirm, 150 alone, and 375 to find which of five a group needs.
    assert most_runs(asked) == 3 * (144 + 75 + 150 + 375)
    assert most_runs(question(16)) == most_runs(asked) + 50
    assert most_runs(question(16, known="either")) == 144 + 150


def test_what_the_set_does_is_shown_first_where_it_is_not_known() -> None:
    found, parts = blamed(question(8), {"time": lambda on: 0.2 * ("s3" in on), "other": nothing}, 3)
    assert parts[0].file.name == "test.shown"
    assert (found.known, told(found)) == ("better", {(frozenset({"s3"}), "alone")})
    (only,) = [one for one in found.recoveries if one.outcome == "tool.time"]
    assert only.fate == "lost"


@pytest.mark.parametrize("sd, said", [(0.002, "equivalent"), (0.5, "undecided")])
def test_a_set_that_does_nothing_has_nobody_to_blame(sd: float, said: str) -> None:
    found, parts = blamed(question(8), {"time": nothing, "other": nothing}, 3, sd)
    assert not found.culprits
    assert len(parts) == 1
    assert said in found.reason


def test_no_one_is_named_where_all_do_a_little() -> None:
    found, _ = blamed(question(16, known="worse"), {"time": lambda on: -0.004 * len(on), "other": nothing}, 1)
    assert not found.culprits
    assert "no setting could be identified" in found.reason


def test_either_side_is_looked_at_where_effects_are_opposite() -> None:
    effects = {"time": lambda on: 0.1 * ("s2" in on) - 0.1 * ("s7" in on), "other": nothing}
    found, _ = blamed(question(8, known="either"), effects, 1)
    assert {(*one.factors, one.verdict) for one in found.culprits} == {("s2", "better"), ("s7", "worse")}


def test_one_screening_tells_of_several_outcomes() -> None:
    effects = {"time": harm("s5"), "other": lambda on: 0.1 * ("s9" in on)}
    found, _ = blamed(question(16, known="worse"), effects, 2)
    named = {screened.outcome: [one.setting for one in screened.named] for screened in found.screenings[0]}
    assert named == {"tool.time": ["s5"], "tool.other": ["s9"]}
    fates = {one.outcome: one.fate for one in found.recoveries}
    assert fates == {"tool.time": "recovered", "tool.other": "retained"}


def test_a_blame_goes_on_from_its_trials_alone() -> None:
    asked = question(8, known="worse")
    effects = {"time": lambda on: -0.2 * ("s3" in on), "other": nothing}
    found, parts = blamed(asked, effects, 1)
    assert follow(asked, parts) == found
    for done in range(len(parts)):
        assert follow(asked, parts[:done]) == parts[done].file
    assert belongs(partial(follow, asked), parts)
    assert not is_open(partial(follow, asked), parts)
    assert is_open(partial(follow, asked), parts[:-1])
    assert not belongs(partial(follow, msgspec.structs.replace(asked, factors=asked.factors[:-1])), parts)
    assert not belongs(partial(follow, msgspec.structs.replace(asked, cap=20)), parts)


def judged(verdict: str | None) -> OutcomeJudgement:
    fields = {"outcome": "o", "role": "primary", "arm": "a", "against": "b", "placebo": False, "blocks": 9}
    return msgspec.convert({**fields, "verdict": verdict, "why": "boundary", "effect": None}, OutcomeJudgement)


@pytest.mark.parametrize(
    "whole, rest, step, fate",
    [
        ("worse", "equivalent", "better", "recovered"),
        ("worse", "inconclusive", "better", "recovered"),
        ("worse", "worse", "better", "recovered in part"),
        ("worse", "worse", "equivalent", "not recovered"),
        ("worse", "worse", "inconclusive", "unclear"),
        ("better", "better", "equivalent", "retained"),
        ("better", "equivalent", "worse", "lost"),
        ("better", "better", None, "retained"),
        ("better", "inconclusive", None, "unclear"),
        ("equivalent", "equivalent", "equivalent", "unchanged"),
        ("inconclusive", "equivalent", "equivalent", "unclear"),
    ],
)
def test_what_came_of_an_outcome(whole: str, rest: str, step: str | None, fate: str) -> None:
    assert fate_of(judged(whole), judged(rest), judged(step)) == fate


def change(knob: str, value: str = "1", label: str = "") -> Change:
    address = f"{knob}@{label}" if label else knob
    return Change(knob, address, "/p", "integer", value, "0", b"0\n", (), None, None, "setting", "safe")


def plan(*changes: Change, zram: ZramStep | None = None) -> Plan:
    return Plan("t", changes, (change("vm.swappiness", "60"),), (), zram)


def test_knobs_that_change_each_other_are_one_factor() -> None:
    changes = (
        change("queue:nr_requests", "64", "sda"),
        change("vm.dirty_ratio"),
        change("queue:scheduler", "none", "sda"),
    )
    found = factors_of(plan(*changes), KNOBS, {"A": "1"})
    assert [one.name for one in found] == ["vm.dirty_ratio", "queue:nr_requests + queue:scheduler", "A"]
    assert found[1].set == {"queue:nr_requests@sda": "64", "queue:scheduler@sda": "none"}
    assert left_out_of(plan(*changes)) == {"vm.swappiness": "in force already"}


def test_all_instances_of_a_knob_are_one_factor() -> None:
    changes = (
        change("queue:scheduler", "none", "sda"),
        change("vm.dirty_ratio"),
        change("queue:scheduler", "none", "sdb"),
    )
    assert [len(one.set) for one in factors_of(plan(*changes), KNOBS, {})] == [1, 2]


def test_words_of_a_command_line_are_factors() -> None:
    found = factors_of(plan(change("vm.dirty_ratio")), KNOBS, {}, ("nohz=off highres=off", "threadirqs"))
    assert [(one.name, one.boot) for one in found[1:]] == [
        ("boot:nohz=off highres=off", ("nohz=off", "highres=off")),
        ("boot:threadirqs", ("threadirqs",)),
    ]
    asked = msgspec.structs.replace(question(2), factors=found)
    arm = asked.arm(("boot:threadirqs", "vm.dirty_ratio"))
    assert (arm.boot, arm.set, arm.placebo) == (("threadirqs",), {"vm.dirty_ratio": "1"}, False)
    assert asked.arm(()).placebo


def test_symbols_are_factors_and_each_set_of_them_is_a_kernel() -> None:
    found = factors_of(plan(), KNOBS, {}, (), ("HZ_100=y HZ_250=n", "CONFIG_PREEMPT=y"))
    assert [(one.name, one.symbols) for one in found] == [
        ("kconfig:HZ_100=y HZ_250=n", {"HZ_100": "y", "HZ_250": "n"}),
        ("kconfig:CONFIG_PREEMPT=y", {"PREEMPT": "y"}),
    ]
    asked = msgspec.structs.replace(question(2), factors=found)
    both = KernelChange(set={"HZ_100": "y", "HZ_250": "n", "PREEMPT": "y"})
    assert asked.arm(tuple(one.name for one in found)).kernel == both
    assert asked.arm(()) == ArmFile(placebo=True)
    arms = combinations_of(("HZ_100=y HZ_250=n", "PREEMPT=y"), question(2).trial).arms
    assert {name: arm.kernel for name, arm in arms.items()} == {
        "control": None,
        "HZ_100+HZ_250": KernelChange(set={"HZ_100": "y", "HZ_250": "n"}),
        "PREEMPT": KernelChange(set={"PREEMPT": "y"}),
        "HZ_100+HZ_250+PREEMPT": both,
    }
    long = combinations_of([f"{letter * 20}=y" for letter in "ABCD"], question(2).trial)
    assert len(long.arms) == 16
    guest = GuestFile(kernel=KernelRecipe(tree="l"))
    check_trial_file(msgspec.structs.replace(long, guest=guest, design=DesignFile()))


def test_more_kernels_than_anybody_builds_are_refused() -> None:
    with pytest.raises(BadInput, match=r"5 --set options are too many .* up to 32 kernels") as caught:
        factors_of(plan(), KNOBS, {}, (), [f"{letter}=y" for letter in "ABCDE"])
    assert "tiers of `ktrial ladder --tree`" in (caught.value.hint or "")
    with pytest.raises(Contradiction, match="--set names A twice"):
        factors_of(plan(), KNOBS, {}, (), ("A=y", "B=y A=n"))


def test_one_word_with_two_values_cannot_be_switched_freely() -> None:
    with pytest.raises(Contradiction, match="--boot names preempt twice"):
        factors_of(plan(), KNOBS, {}, ("preempt=full", "nohz=off preempt=none"))


def test_what_cannot_be_told_apart_is_refused_before_the_start() -> None:
    with pytest.raises(BadInput, match=r"only vm.dirty_ratio changes anything here"):
        factors_of(plan(change("vm.dirty_ratio")), KNOBS, {})


@pytest.mark.parametrize(
    "device, algorithm, expected",
    [
        ("zram0", "lz4", {"zram:comp_algorithm@zram0": "lz4", "zram:disksize@zram0": 1 << 20}),
        (None, None, {"zram:disksize": 1 << 20}),
    ],
)
def test_a_zram_device_is_one_factor(device: str | None, algorithm: str | None, expected: dict[str, object]) -> None:
    step = ZramStep(device, 1 << 20, algorithm, 100, "profile x")
    found = factors_of(plan(change("vm.dirty_ratio"), zram=step), KNOBS, {})
    assert [one.set for one in found] == [{"vm.dirty_ratio": "1"}, expected]
    assert found[1].name == " + ".join(name.partition("@")[0] for name in expected)
    asked = msgspec.structs.replace(question(2), factors=found)
    file: TrialFile = msgspec.structs.replace(asked.trial, arms={"x": asked.arm((found[1].name,))})
    check_combinations(asked, file, {"x": ArmSettings(changes={"zram": "1048576 B, lz4"})})
    with pytest.raises(Refused, match="nothing would change"):
        check_combinations(asked, file, {"x": ArmSettings()})


def test_settings_that_need_each_other_are_refused_before_the_start() -> None:
    factors = (Factor(name="a", set={"a": "1"}), Factor(name="b", set={"b": "2"}))
    asked = msgspec.structs.replace(question(2), factors=factors)
    file: TrialFile = msgspec.structs.replace(asked.trial, arms={"x": asked.arm(("b",)), "all": asked.arm(("a", "b"))})
    whole = ArmSettings(changes={"a": "1", "b": "2"})
    check_combinations(asked, file, {"x": ArmSettings(changes={"b": "2"}), "all": whole})
    with pytest.raises(Refused, match="cannot switch b separately: b = 2 without a fails, because the value would"):
        check_combinations(asked, file, {"x": ArmSettings(changes={"b": "1"}), "all": whole})
    with pytest.raises(Refused, match="no instance here"):
        check_combinations(asked, file, {"x": ArmSettings(refused={"b": "no instance here"}), "all": whole})

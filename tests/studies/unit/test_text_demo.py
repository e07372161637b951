# SPDX-License-Identifier: Apache-2.0
"""The demo in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import pytest

from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.studies.demo.model import COPIUM, HELP, HURT, PLACEBO, Demo, DemoArmFound, DemoFound, SinglePairs
from ktrial.studies.demo.text import as_before, demo_plan, demo_text, story, without_root
from ktrial.trial.protocol.file import CONTROL, ArmFile, TrialFile

DEMO = Demo(
    file=TrialFile(
        name="demo",
        suite="load",
        arms={
            CONTROL: ArmFile(set={"thp:enabled": "madvise"}),
            PLACEBO: ArmFile(placebo=True),
            COPIUM: ArmFile(set={"thp:enabled": "madvise", "vm.swappiness": "10"}),
            HELP: ArmFile(set={"thp:enabled": "always"}),
            HURT: ArmFile(set={"thp:enabled": "never"}),
        },
    ),
    what="how fast it goes",
    why={PLACEBO: "nothing is changed", COPIUM: "no swap", HELP: "more huge pages", HURT: "no huge pages"},
    paths=("/a",),
    found={},
    passed=(),
)


def found(verdicts: Mapping[str, Verdict | None] = MappingProxyType({}), *, apart: int = 12) -> DemoFound:
    told: dict[str, Verdict | None] = {
        PLACEBO: "equivalent",
        COPIUM: "equivalent",
        HELP: "better",
        HURT: "worse",
        **verdicts,
    }
    logs = {PLACEBO: 0.001, COPIUM: -0.001, HELP: math.log(3), HURT: math.log(0.6)}
    return DemoFound(
        arms=tuple(
            DemoArmFound(
                arm=arm,
                verdict=verdict,
                effect=Effect(estimate=logs[arm], low=logs[arm] - 0.01, high=logs[arm] + 0.01, method="m"),
                blocks=12,
                as_expected=True,
            )
            for arm, verdict in told.items()
        ),
        single=SinglePairs(pairs=48, apart=apart, largest=math.log(1.2)),
        margin=0.05,
        blocks=12,
        ended=True,
    )


def test_the_story_of_a_demo_that_went_as_it_ought_to() -> None:
    assert story(DEMO, found()) == (
        "We measured how fast it goes, in 12 rounds of random order. thp:enabled=always helps (+200 %): more huge "
        "pages. thp:enabled=never hurts (-40 %): no huge pages. vm.swappiness=10 cannot matter (no swap), and the "
        "placebo changes nothing: the trial shows that any difference is below 5 %. Yet of the 48 single before/after "
        "pairs of these two with the control, 12 (25 %) differ by more than 5 %, the worst by +20 %: anyone who runs a "
        "benchmark once before and once after a change would believe such a number."
    )


@pytest.mark.parametrize(
    "verdicts,said",
    [
        ({COPIUM: "better"}, "vm.swappiness=10 cannot matter (no swap): yet the verdict is better, a false claim"),
        ({PLACEBO: "worse"}, "The placebo changes nothing: yet the verdict is worse, a false claim"),
        ({PLACEBO: "inconclusive"}, "The placebo changes nothing: the trial claims no difference, but the noise"),
        ({PLACEBO: None, COPIUM: None}, "the placebo changes nothing: the trial claims no difference"),
        ({HELP: "inconclusive"}, "should be better (more huge pages), but here it is inconclusive"),
        ({HURT: None}, "should be worse (no huge pages), but here it is undecided"),
    ],
)
def test_what_went_otherwise_is_said(verdicts: dict[str, Verdict | None], said: str) -> None:
    assert said in story(DEMO, found(verdicts))


def test_a_quiet_machine_misleads_nobody() -> None:
    said = story(DEMO, found(apart=0))
    assert "On this quiet machine none of the 48 single before/after pairs" in said
    assert "Yet" not in said


def test_what_cannot_be_compared_tells_no_story() -> None:
    refused = msgspec.structs.replace(found(), refused="2 of 9 blocks are void: somebody wrote vm.page-cluster")
    said = story(DEMO, refused)
    assert "cannot be compared: 2 of 9 blocks are void: somebody wrote vm.page-cluster." in said
    assert "helps" not in said
    assert "pairs" not in said


def test_no_pairs_no_share() -> None:
    nothing = msgspec.structs.replace(found(), single=SinglePairs(pairs=0, apart=0, largest=0.0))
    assert "pairs" not in story(DEMO, nothing)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_table_names_what_each_arm_changes(width: int) -> None:
    text = demo_text(DEMO, found(), width=width)
    rows = {line.split()[0]: line for line in text.splitlines() if line}
    assert "nothing" in rows[PLACEBO]
    assert "vm.swappiness=10" in rows[COPIUM]
    assert "madvise" not in rows[COPIUM], "the control has it too"
    assert rows[HELP].split()[-1] == "better"
    assert max(map(len, text.splitlines())) <= width


def test_what_stayed_is_cried_out() -> None:
    assert "Everything has been restored:" in as_before({"/a": "1", "/b": "2"}, {"/a": "1", "/b": "2"}, width=80)
    text = as_before({"/a": "1", "/b": "2"}, {"/a": "1", "/b": "3"}, width=80)
    assert text.startswith("NOT restored: /b")
    assert "cat /a" in text
    assert "No system setting was changed" in as_before({}, {}, width=80)


def test_the_plan_says_what_the_machine_had() -> None:
    other = msgspec.structs.replace(DEMO, found={"thp:enabled": "always"})
    text = demo_plan(other, width=100)
    assert "thp:enabled is always here; the control of the demo has madvise." in text
    assert "vm.swappiness=10: no swap" in text
    assert "here; for" not in demo_plan(DEMO, width=100)


def test_what_root_would_add_is_said_where_it_is_missed() -> None:
    lacking = msgspec.structs.replace(DEMO, paths=(), passed=("thp:enabled: needs root",))
    assert "sudo ./ktrial demo" in without_root(lacking, asked=True, width=80)
    assert "sudo" not in without_root(lacking, asked=False, width=80)
    assert without_root(DEMO, asked=True, width=80) == ""

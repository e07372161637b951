# SPDX-License-Identifier: Apache-2.0
"""One visit, one build: what is refused, what a log is convicted of, and what a verdict holds for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ktrial.judge.model.log import ArmBuilt, ArmFound, BlockDrawn, BlockVoided, Event, RunEnded
from ktrial.kit.errors import Refused
from ktrial.machine.facts import Fact, FactBook
from ktrial.trial.arms.manual import Due
from ktrial.trial.outcome.scope import scope_of
from ktrial.trial.run.boots import cut_off
from ktrial.trial.run.trial_builds import builds_misused, builds_that_count, refuse_used_build, same_builds
from tests.support.trials import protocol

Visit = tuple[int, str]


def log(builds: Mapping[Visit, str], *, by_hand: bool = False, runs: int = 1) -> list[Event]:
    """A run in each visit; an empty build is one of which the log says nothing."""
    found: list[Event] = [protocol(cap=7, replicate="build", runs_per_visit=runs)]
    for number, ((block, arm), build) in enumerate(builds.items(), start=1):
        if not any(isinstance(event, BlockDrawn) and event.block == block for event in found):
            found.append(BlockDrawn(block=block, order=("case", "control")))
        if build and by_hand:
            found.append(ArmFound(block=block, arm=arm, by="facts", facts={"kernel.build_id": build}))
        elif build:
            found.append(ArmBuilt(block=block, arm=arm, artefact="/p", sha256=build))
        found.append(RunEnded(run=number, block=block, arm=arm, measurements={"tool.time": 1.0}))
    return found


def visits(builds: str) -> dict[Visit, str]:
    """A letter for the build of each visit, block after block; `-` is one that is not known."""
    places = [(1 + at // 2, ("case", "control")[at % 2]) for at in range(len(builds))]
    return {place: build.strip("-") for place, build in zip(places, builds, strict=True)}


@pytest.mark.parametrize(
    "builds, scope, findings",
    [
        ("abcdef", "across 6 builds, on this boot of this machine", []),
        ("ababab", "on this build of each arm, on this boot of this machine", ["build-repeated"]),
        ("abcdab", "on these 4 builds, on this boot of this machine", ["build-repeated"]),
        ("aabbcc", "across 3 builds, on this boot of this machine", ["build-shared"]),
    ],
)
def test_only_builds_of_their_own_are_reached_beyond(builds: str, scope: str, findings: list[str]) -> None:
    made = log(visits(builds))
    counted = builds_that_count(made)
    assert scope_of(protocol(replicate="build"), (), counted) == scope
    assert [one.kind for one in same_builds(counted)] == findings


def test_a_repeated_build_is_told_by_arm() -> None:
    (finding,) = same_builds(visits("abacab"))
    assert finding.sentence.startswith(
        "some builds gave the same bytes, which replicates nothing: case (1 in 3 visits), control (2 in 3"
    )


def test_a_block_that_does_not_count_has_no_builds() -> None:
    made = [*log(visits("abab")), BlockVoided(block=1, arm="case", cause="knob", reason="r")]
    assert builds_that_count(made) == {(2, "case"): "a", (2, "control"): "b"}


def test_runs_of_an_unknown_build_or_of_one_kernel_twice_convict_the_log() -> None:
    assert list(builds_misused(log(visits("abab")))) == []
    assert list(builds_misused(log(visits("a-cd")))) == [(2, "its build is unknown")]
    assert list(builds_misused(log(visits("abcb"), by_hand=True))) == [
        (4, "its build already had a visit of control in block 1")
    ]
    assert list(builds_misused([protocol(), *log(visits("a-"))[1:]])) == []


def test_a_kernel_that_had_its_visit_is_refused() -> None:
    made = log(visits("abc"), by_hand=True)
    book = FactBook({"kernel.build_id": Fact(value="b")})
    turn = Due(
        trial="t-1",
        block=2,
        arm="control",
        visit=2,
        visits=2,
        place="control",
        instruction="build it and boot it",
        expect={},
        confirm=False,
        new_boot=True,
        new_build=True,
    )
    with pytest.raises(Refused, match=r"this kernel build: it was already used for control in block 1") as error:
        refuse_used_build(turn, made, book)
    assert error.value.hint == "build the kernel again first: build it and boot it; then  ktrial trial next t-1"
    refuse_used_build(turn, made, FactBook({"kernel.build_id": Fact(value="d")}))
    with pytest.raises(Refused, match="reports neither its build id nor its version") as error:
        refuse_used_build(turn, made, FactBook({}))
    assert error.value.hint == 'start a new trial with  replicate = "boot"  in [design]'


def test_a_visit_that_was_cut_off_is_void_as_its_build_is_over() -> None:
    made = log(visits("ab"), runs=2)
    assert cut_off(made, (), None) == BlockVoided(
        block=1, arm="case", cause="build", reason="the visit was cut off after 1 of 2 runs, and its build is over"
    )
    assert cut_off(log(visits("ab")), (), None) is None

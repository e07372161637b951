# SPDX-License-Identifier: Apache-2.0
"""Visits that are builds: what a protocol must say, what a build varies by, and which build a visit measured."""

from __future__ import annotations

from typing import Any

import pytest

from ktrial.judge.model.log import ArmBuilt, ArmFound, decode, encode
from ktrial.kit.errors import BadInput
from ktrial.trial.arms.builds import build_number, builds_of, kernel_build, repeated
from ktrial.trial.protocol.file import ArmFile, BuildFile, DesignFile, TrialFile, trial_text
from ktrial.trial.protocol.read import check_trial_file, parse_trial_file
from tests.support.trials import protocol

BUILD = BuildFile(run=("./build.sh", "-O2"), artefact="prog")
OTHER = BuildFile(run=("./build.sh", "-O3"), artefact="prog")
PLACEBO = ArmFile(placebo=True)


def trial(replicate: Any, **arms: ArmFile) -> TrialFile:
    return TrialFile(name="t", command=("./prog",), arms=arms, design=DesignFile(replicate=replicate))


def test_every_arm_says_how_it_is_built_and_a_placebo_is_built_like_the_control() -> None:
    file = trial("build", control=ArmFile(build=BUILD), o3=ArmFile(build=OTHER), placebo=PLACEBO)
    check_trial_file(file)
    assert parse_trial_file(trial_text(file).encode(), "t.toml") == file
    check_trial_file(trial("build", control=ArmFile(), bore=ArmFile(manual="build and boot BORE")))


@pytest.mark.parametrize(
    "replicate, arms, told",
    [
        ("build", {"control": ArmFile(), "o3": ArmFile(build=OTHER)}, "but arm control has none"),
        (
            "run",
            {"control": ArmFile(build=BUILD), "o3": ArmFile(build=OTHER)},
            "`build` needs a trial that builds for every visit",
        ),
        (
            "build",
            {"control": ArmFile(build=BUILD), "bore": ArmFile(manual="boot it")},
            "control is built by a command, but other arms are kernels that you boot by hand",
        ),
        (
            "build",
            {"control": ArmFile(build=BuildFile(run=(), artefact="prog")), "placebo": PLACEBO},
            r"`build` needs a command \(`run`\) and its file \(`artefact`\)",
        ),
        (
            "build",
            {"control": ArmFile(build=BuildFile(run=("make",), artefact="")), "placebo": PLACEBO},
            r"`build` needs a command \(`run`\) and its file \(`artefact`\)",
        ),
        ("build", {"control": ArmFile(), "o3": ArmFile(build=OTHER, manual="boot it")}, "is set up by hand, but"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(replicate: str, arms: dict[str, ArmFile], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        check_trial_file(trial(replicate, **arms))


def test_the_number_of_a_build_is_drawn_by_seed_block_and_arm_alone() -> None:
    numbers = [build_number(7, block, arm) for block in (None, 1, 2) for arm in ("control", "case")]
    assert len(set(numbers)) == 6
    assert numbers == [build_number(7, block, arm) for block in (None, 1, 2) for arm in ("control", "case")]
    assert all(0 <= number < 2**32 for number in numbers)


def test_a_log_tells_which_build_a_visit_measured() -> None:
    facts = {"kernel.release": "6.18", "kernel.build_id": "ab", "kernel.version": "#2"}
    log = decode(
        encode(
            [
                protocol(replicate="build"),
                ArmBuilt(block=1, arm="case", artefact="/p", sha256="1"),
                ArmFound(block=1, arm="control", by="facts", facts=facts),
                ArmFound(block=2, arm="control", by="facts", facts={"kernel.release": "6.18"}),
            ]
        ),
        "log",
    )
    builds = builds_of(log)
    assert builds == {(1, "case"): "1", (1, "control"): "ab #2"}
    assert kernel_build({}) is None
    assert repeated(builds) == {}
    assert repeated({**builds, (2, "case"): "1", (3, "case"): "2"}) == {"case": (2, 3)}

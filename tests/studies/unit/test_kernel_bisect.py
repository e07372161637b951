# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping

import msgspec
import numpy as np
import pytest

from ktrial.bench.guest_tools import GuestRun, ProgramEnded, Shape
from ktrial.judge.model.bisect_answer import BisectAnswer
from ktrial.kit.commits import Untellable
from ktrial.kit.errors import Refused
from ktrial.studies.bisect.bisect import BisectRequest, bisect
from ktrial.studies.bisect.measure import BisectMeasure, perturbation
from ktrial.studies.bisect.text import bisected_json, bisected_text
from tests.kit.unit.test_bisection import line

COMMITS = [msgspec.structs.replace(commit, subject=f"change {commit.id}") for commit in line(40)]
BAD = COMMITS[-1].id


class Kernels:
    """Kernels whose outcome is 100 times what the changes up to a commit make of it, with noise."""

    def __init__(self, changes: Mapping[int, float], noise: float = 0.01, seed: int = 1, broken: str = "") -> None:
        self._changes = changes
        self._noise = noise
        self._seed = seed
        self._broken = broken.split()

    def __call__(self, commit: str, run: int) -> float:
        if commit in self._broken:
            raise Untellable(f"{commit} does not build")
        number = int(commit[1:])
        generator = np.random.default_rng((self._seed, number + 1, run))
        level = sum(change for at, change in self._changes.items() if number >= at)
        return 100 * math.exp(level + self._noise * generator.standard_normal())


def search(kernels: Kernels, most_runs: int = 30) -> BisectAnswer:
    return bisect(BisectRequest("c-1", BAD, COMMITS, "x.ms", most_runs, 3), kernels, lambda text: None, time.monotonic)


@pytest.mark.parametrize("change", [0.3, -0.3])
def test_the_commit_is_named_with_its_own_effect(change: float) -> None:
    found = search(Kernels({23: change}))
    assert (found.why, [commit.id for commit in found.suspects]) == ("found", ["c23"])
    assert found.effect is not None
    assert found.effect.estimate == pytest.approx(-change, abs=0.05)
    assert found.verdict == ("worse" if change > 0 else "better")
    assert 0.95 <= found.confidence < 1
    text = bisected_text(found, width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "c23 change c23 is the first bad commit: x.ms is " in " ".join(text.split())
    told = json.loads(msgspec.json.encode(bisected_json(found)))
    assert (told["schema"], told["suspects"][0]["id"]) == ("ktrial.kernel-bisect/1", "c23")


def test_noise_means_more_boots_and_no_guess() -> None:
    quiet, noisy = search(Kernels({23: 0.3})), search(Kernels({23: 0.3}, noise=0.15))
    assert noisy.boots > quiet.boots
    assert "c23" in {commit.id for commit in noisy.suspects}


def test_good_and_bad_that_do_not_differ_are_refused() -> None:
    with pytest.raises(Refused, match=r"do not differ in x\.ms"):
        search(Kernels({}, noise=0.001))
    with pytest.raises(Refused, match=r"good and bad show no difference in x\.ms after \d+ boots of each"):
        search(Kernels({23: 0.05}, noise=0.5))
    with pytest.raises(Refused, match="zero, negative or not finite"):
        bisect(
            BisectRequest("c-1", BAD, COMMITS, "x", 30, 3), lambda commit, run: 0.0, lambda text: None, time.monotonic
        )


def test_it_says_how_long_it_takes() -> None:
    told: list[str] = []
    clock = iter(range(0, 6000, 60))
    bisect(BisectRequest("c-1", BAD, COMMITS, "x.ms", 30, 3), Kernels({23: 0.3}), told.append, lambda: next(clock))
    assert "with 7 to 30 boots of each; good and bad show how long one test takes" in told[0]
    assert told[1].endswith("commits to test, about 3 min 30 s"), told[1]


def test_a_difference_in_several_steps_is_said() -> None:
    found = search(Kernels({9: 0.2, 30: 0.2}))
    assert found.why == "several steps"
    assert "No single commit makes the difference" in bisected_text(found, width=80)


def test_what_does_not_build_is_left_out_and_may_leave_a_range() -> None:
    beside = search(Kernels({23: 0.3}, broken="c19"))
    assert (beside.why, beside.suspects[0].id) == ("found", "c23")
    assert [step.why for step in beside.steps if step.why] == ["c19 does not build"]
    around = search(Kernels({23: 0.3}, broken="c22 c23 c24"))
    assert (around.why, [commit.id for commit in around.suspects]) == ("untold", ["c22", "c23", "c24", "c25"])
    found = "The first bad commit is one of these 4; ktrial could not test those between:"
    assert found in bisected_text(around, width=80)


def test_the_same_numbers_give_the_same_answer() -> None:
    assert search(Kernels({5: 0.2})) == search(Kernels({5: 0.2}))


GUEST = GuestRun(
    shape=Shape(mode="exact", memory_bytes=1, cpus=1),
    emulator="QEMU",
    begun=None,
    ended=ProgramEnded(status=0),
    stdout=b"hello\n12.5\n",
    stderr=b"",
    console=b"",
    wall_s=1.0,
)


def measured(**more: object) -> tuple[float, list[tuple[str, bool]]]:
    seen: list[tuple[str, bool]] = []

    def boot(image: bytes, word: str, twice: bool) -> GuestRun:
        seen.append((word, twice))
        return msgspec.structs.replace(GUEST, **more)

    measure = BisectMeasure("p99_ns", str.encode, boot, seed=1)
    return measure("abc", 1) + 0 * measure("abc", 2), seen


def test_each_boot_differs_in_a_word_and_the_first_is_made_twice() -> None:
    value, seen = measured()
    assert value == 12.5
    assert [twice for _, twice in seen] == [True, False]
    assert len({word for word, _ in seen}) == 2
    assert len({len(perturbation(1, "abc", run)) for run in range(50)}) == 1


@pytest.mark.parametrize(
    "more, why",
    [
        ({"failure": "the kernel panicked"}, "abc: the kernel panicked"),
        ({"ended": ProgramEnded(status=3), "stderr": b"oops\n"}, r"the program exited with status 3 \(oops\)"),
        ({"stdout": b"nothing"}, "a number or an agent's reply"),
    ],
)
def test_a_boot_that_gives_no_number_cannot_be_told(more: dict[str, object], why: str) -> None:
    with pytest.raises(Untellable, match=why):
        measured(**more)

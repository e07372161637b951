# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.judge.stats.coincidence import Activity, coincidences, merged, overlaps

ONE = [(0.0, 1000.0)]


def activity(*at: float, took_s: float = 1.0) -> Activity:
    begins = np.array(sorted(at))
    return merged(begins, begins + took_s)


def scattered(seed: int, count: int = 25) -> list[float]:
    return sorted(np.random.default_rng(seed).uniform(0, 990, size=count).tolist())


def test_merged_intervals_rise_and_do_not_touch() -> None:
    found = merged(np.array([5.0, 0.0, 1.0]), np.array([6.0, 4.0, 2.0]))
    assert found.begins_s.tolist() == [0, 5]
    assert found.ends_s.tolist() == [4, 6]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 9)), max_size=12),
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 9)), min_size=1, max_size=6),
)
def test_overlaps_are_those_of_a_slow_look(busy: list[tuple[float, float]], asked: list[tuple[float, float]]) -> None:
    begins, ends = np.array([at for at, _ in asked]), np.array([at + took for at, took in asked])
    one = merged(np.array([at for at, _ in busy]), np.array([at + took for at, took in busy]))
    slow = [any(at <= end and at + took >= begin for at, took in busy) for begin, end in zip(begins, ends, strict=True)]
    assert overlaps(one, begins, ends).tolist() == slow


def test_a_cause_is_named_and_what_only_goes_with_it_is_not() -> None:
    stutters = np.array(scattered(1))
    causes = {
        "cause": activity(*stutters),
        "companion": activity(*stutters[:15], *scattered(2, 60)),
        "other": activity(*scattered(3, 60)),
        "never": activity(),
    }
    found = {one.cause: one for one in coincidences(causes, stutters, stutters + 0.2, ONE)}
    assert found.keys() == {"cause", "companion", "other"}
    assert found["cause"].named
    assert len(found["cause"].overlapping) == len(stutters)
    assert found["cause"].expected < 3
    assert not found["companion"].named
    assert found["companion"].with_cause == "cause"
    assert found["other"].with_cause is None
    assert not found["other"].named


def test_two_causes_of_different_stutters_are_both_named() -> None:
    stutters = np.array(scattered(4, 30))
    causes = {"a": activity(*stutters[:18]), "b": activity(*stutters[18:]), "c": activity(*scattered(5))}
    found = [one.cause for one in coincidences(causes, stutters, stutters + 0.1, ONE) if one.named]
    assert found == ["a", "b"]


def test_what_follows_from_a_stutter_does_not_stand_in_for_its_cause() -> None:
    stutters = np.array(scattered(6, 30))
    causes = {"cause": activity(*stutters[:25]), "effect": activity(*stutters)}
    named = [one.cause for one in coincidences(causes, stutters, stutters + 0.1, ONE, last={"effect"}) if one.named]
    assert named[0] == "cause"


def test_a_cause_that_is_always_at_work_tells_nothing() -> None:
    stutters = np.array(scattered(7))
    found = coincidences({"always": Activity(np.array([0.0]), np.array([1000.0]))}, stutters, stutters + 0.1, ONE)
    assert found[0].p == 1.0
    assert not found[0].named


def test_chance_is_that_within_the_phase() -> None:
    """Stutters and activity that both only fill the first phase coincide there by chance."""
    generator = np.random.default_rng(8)
    stutters = np.sort(generator.uniform(0, 100, size=40))
    busy = activity(*np.sort(generator.uniform(0, 100, size=40)))
    whole = coincidences({"busy": busy}, stutters, stutters + 0.1, ONE)[0]
    by_phase = coincidences({"busy": busy}, stutters, stutters + 0.1, [(0.0, 100.0), (100.0, 1000.0)])[0]
    assert whole.p < 0.01
    assert by_phase.p > 0.05


@pytest.mark.parametrize("seed", range(3))
def test_unrelated_causes_are_not_named(seed: int) -> None:
    stutters = np.array(scattered(100 + seed))
    causes = {str(one): activity(*scattered(1000 + 20 * seed + one, 30)) for one in range(8)}
    assert not any(one.named for one in coincidences(causes, stutters, stutters + 0.1, ONE))


def test_a_stutter_that_began_before_the_recording_overlaps_by_chance_as_often_as_others() -> None:
    stutters = np.array([-0.5, *scattered(7)])
    busy = merged(np.arange(0.0, 1000.0, 2.0), np.arange(1.9, 1001.0, 2.0))
    (found,) = coincidences({"busy": busy}, stutters, stutters + 1.0, ONE)
    assert (len(found.overlapping), found.expected, found.named) == (len(stutters), len(stutters), False)


def test_what_a_cause_brings_about_does_not_hide_it() -> None:
    stutters = np.array(scattered(9))
    causes = {"delay": activity(*stutters, took_s=0.05), "quota": activity(*(stutters - 0.5), took_s=1.5)}
    told = [coincidences(causes, stutters, stutters + 0.1, ONE, makes=makes) for makes in (None, {"quota": ("delay",)})]
    assert [[one.cause for one in found if one.named] for found in told] == [["delay"], ["quota"]]
    elsewhere = {**causes, "quota": activity(*stutters[:8], took_s=1.5)}
    found = coincidences(elsewhere, stutters, stutters + 0.1, ONE, makes={"quota": ("delay",)})
    assert [one.cause for one in found if one.named] == ["delay"]

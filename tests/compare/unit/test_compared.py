# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import pytest

from ktrial.compare.arms import Arm, places, source_of
from ktrial.compare.scope import scope_of
from ktrial.compare.series import (
    arm_values,
    coverage_findings,
    find_series,
    margin_of,
    question_of,
    series_of,
)
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.kit.moment import LOCAL, WALL
from tests.support.arms import a_run, an_arm, measured


def arm(name: str, *runs: Any) -> Arm:
    return Arm(name=name, sources=("s",), runs=runs)


def test_an_order_needs_one_clock_for_all() -> None:
    one = arm("a", a_run("a/1", clocks={WALL: 30, "boot x": 2}), a_run("a/2", clocks={WALL: 10, "boot x": 3}))
    other = arm("b", a_run("b/1", clocks={WALL: 20, "boot x": 1}))
    assert places([one, other]) == {"b/1": 1, "a/1": 2, "a/2": 3}
    later = arm("c", a_run("c/1", clocks={WALL: 15, "boot y": 1}))
    assert places([one, later]) == {"a/2": 1, "c/1": 2, "a/1": 3}
    assert places([one, arm("f", a_run("f#1", clocks={"file": 1}))]) == {}
    assert places([]) == {}


def test_a_time_counts_before_the_order_of_a_file_which_tells_apart_what_has_one_time() -> None:
    sorted_by_arm = {
        name: arm(name, *(a_run(f"f#{n}", clocks={"file x": n, LOCAL: moment}) for n, moment in runs))
        for name, runs in (("a", [(1, 10), (2, 30), (3, 30)]), ("b", [(4, 20), (5, 30)]))
    }
    order = places([sorted_by_arm["a"], sorted_by_arm["b"]])
    assert sorted(order, key=lambda run: order[run]) == ["f#1", "f#4", "f#2", "f#3", "f#5"]
    one, other = (arm(name, a_run(f"{name}#1", clocks={f"file {name}": 1, WALL: 5})) for name in "ab")
    assert places([one, other]) == {}, "of two files with one time nothing tells which was first"


def test_a_file_that_lies_sorted_by_a_result_is_in_no_order() -> None:
    def places_of(values: list[float], clock: str = "file x", block: str | None = None) -> dict[str, int]:
        runs = [a_run(f"f#{n}", measured(value), clocks={clock: n}, block=block) for n, value in enumerate(values, 1)]
        return places([arm("a", *runs[:6]), arm("b", *runs[6:])])

    rising = [float(n) for n in (1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 4, 5)]
    assert places_of(rising) == {}
    assert places_of(rising[::-1]) == {}
    assert len(places_of(rising, WALL)) == 12, "a time of day is an order"
    assert len(places_of(rising, block="r")) == 12, "and so are rows that a column says belong together"
    assert len(places_of([*rising[:6], *rising[:5:-1]])) == 12, "one arm rises and one falls"
    assert len(places_of([1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0])) == 12, "few values may do so"


@pytest.mark.parametrize(
    "boots, scope",
    [
        ((["x"], ["x"]), "on this boot"),
        ((["x"], ["y"]), "on this boot pair"),
        ((["x"], ["y"], ["z"]), "on these 3 boots, one for each arm"),
        ((["x", "y", "z"], ["u", "v", "w"]), "across 6 boots"),
        ((["x"], [None]), "boots and machines not known"),
    ],
)
def test_scope_comes_from_what_was_re_randomised(boots: tuple[list[str | None], ...], scope: str) -> None:
    arms = [
        arm(f"a{place}", *(a_run(f"a{place}/{boot}", measured(1.0), boot=boot) for boot in some))
        for place, some in enumerate(boots)
    ]
    assert scope_of(arms) == scope


@pytest.mark.parametrize(
    "sessions, scope",
    [
        (("s1", "s2"), "on this boot"),
        (("s1", "s2", "s3"), "on this boot, across 3 sessions"),
        (("s1", "s2", None), "on this boot"),
    ],
)
def test_sessions_are_told_where_arms_have_several(sessions: tuple[str | None, ...], scope: str) -> None:
    runs = [a_run(f"r{at}", measured(1.0), boot="x", session=session) for at, session in enumerate(sessions)]
    assert scope_of([arm("a", runs[0]), arm("b", *runs[1:])]) == scope


def test_machines_are_told_where_they_are_known() -> None:
    one, other = (
        arm(name, *(a_run(f"{name}/{host}", measured(1.0), machine=host) for host in ("h1", "h2", "h3")))
        for name in ("a", "b")
    )
    assert scope_of([one, other]) == "across 3 machines, boots not known"
    alone = [arm(name, a_run(f"{name}/1", measured(1.0), machine=name)) for name in ("h1", "h2")]
    assert scope_of(alone) == "on 2 machines, one for each arm, boots not known"


HARDWARE = {"cpu": "Zen 4", "board": "X670E", "memory": "32 GiB"}


@pytest.mark.parametrize(
    "hosts, hardware, scope",
    [
        (("h1", "h2"), ({}, {}), "on 2 host names, one for each arm"),
        (("h1", "h2"), ({"cpu": "Zen 4"}, {"cpu": "Zen 4"}), "on 2 host names, one for each arm"),
        (
            ("h1", "h2"),
            (HARDWARE, HARDWARE),
            "on 2 host names, one for each arm of probably one machine (the same CPU, board and memory)",
        ),
        (("h1", "h2"), (HARDWARE, HARDWARE | {"memory": "64 GiB"}), "on 2 machines, one for each arm"),
        (("h1", "h1"), (HARDWARE, HARDWARE), "on one host name"),
        (("h1", "h1"), (HARDWARE, HARDWARE | {"board": "B650"}), "on one host name of different hardware"),
    ],
)
def test_a_host_name_is_no_machine(hosts: tuple[str, str], hardware: tuple[Any, Any], scope: str) -> None:
    arms = [
        arm(name, a_run(f"{name}/1", measured(1.0), machine=host, by_host_name=True, known=known))
        for name, host, known in zip("ab", hosts, hardware, strict=True)
    ]
    assert scope_of(arms) == f"{scope}, boots not known"


def test_a_source_counts_what_it_holds() -> None:
    source = source_of(
        arm(
            "a",
            a_run("1", measured(1.0), boot="x"),
            a_run("2", failure="no", boot="x"),
            a_run("3", void=True, boot="y"),
        )
    )
    assert (source.runs, source.failed, source.void, source.boots, source.machines) == (1, 1, 1, 2, None)


def test_figures_of_an_arm() -> None:
    """Mean, deviation and the rest of 2, 4, 4, 4, 5, 5, 7, 9 are the textbook's; its sample deviation is 2.138."""
    series = series_of([an_arm("a", [2, 4, 4, 4, 5, 5, 7, 9])])["wakeup.p50"]
    (found,) = arm_values(series, {"a/1": 5})
    assert (found.n, found.mean, found.median, found.minimum, found.maximum) == (8, 5, 4.5, 2, 9)
    assert found.sd == pytest.approx(math.sqrt(32 / 7))
    assert found.cv == pytest.approx(math.sqrt(32 / 7) / 5)
    assert [point.place for point in found.points] == [5, *[None] * 7]
    (single,) = arm_values(series_of([an_arm("a", [3.0])])["wakeup.p50"], {})
    assert (single.sd, single.cv) == (None, None)


def test_runs_that_do_not_count_are_not_in_it() -> None:
    one = arm("a", a_run("a/1", measured(1.0)), a_run("a/2", measured(9.0), void=True), a_run("a/3", failure="x"))
    assert [value for _, value in series_of([one])["wakeup.p50"].runs["a"]] == [1.0]


def test_no_number_is_refused() -> None:
    with pytest.raises(BadInput, match="a/1: p50 is nan"):
        series_of([an_arm("a", [math.nan])])


def test_mixed_units_are_told() -> None:
    arms = [an_arm("a", [1.0]), arm("b", a_run("b/1", measured(1.0, unit="score")))]
    series = series_of(arms)["wakeup.p50"]
    assert series.mixed == "units are mixed: s in a, score in b"
    assert arm_values(series, {}) == ()
    assert [one.kind for one in coverage_findings([series], arms)] == ["mixed-units"]
    turned = series_of([an_arm("a", [1.0]), arm("b", a_run("b/1", measured(1.0, direction="higher")))])
    assert turned["wakeup.p50"].mixed == "directions are mixed: lower in a, higher in b"
    untold = series_of([an_arm("a", [1.0]), arm("b", a_run("b/1", measured(1.0, direction=None)))])
    assert (untold["wakeup.p50"].mixed, untold["wakeup.p50"].direction) == (None, "lower")


def test_an_outcome_in_one_arm_only_is_told() -> None:
    arms = [an_arm("a", [1.0]), arm("b", a_run("b/1", measured(1.0, "p99")))]
    told = [one.sentence for one in coverage_findings(series_of(arms).values(), arms)]
    assert told == ["wakeup.p50 was measured in a and not in b", "wakeup.p99 was measured in b and not in a"]


def test_outcomes_are_found_by_either_name() -> None:
    both = arm(
        "a", a_run("1", measured(1.0)), a_run("2", measured(1.0), benchmark="pipe"), a_run("3", measured(1, "x"))
    )
    series = series_of([both]).values()
    assert find_series("pipe.p50", series).benchmark == "pipe"
    assert find_series("x", series).name == "wakeup.x"
    with pytest.raises(BadInput, match="'p50' matches several outcomes") as several:
        find_series("p50", series)
    assert several.value.hint == "write one of: wakeup.p50, pipe.p50"
    for unknown in ("p77", "", "50"):
        with pytest.raises(UnknownName, match=f"'{unknown}'"):
            find_series(unknown, series)


def test_the_last_words_of_an_outcome_name_it_where_no_other_ends_so() -> None:
    names = ("wakeup_p50", "wakeup-p99", "late_p99", "p999")
    series = series_of([arm("a", *(a_run(name, measured(1.0, name)) for name in names))]).values()
    assert find_series("p50", series).name == "wakeup.wakeup_p50"
    assert find_series("p999", series).name == "wakeup.p999"
    assert find_series("late_p99", series).name == "wakeup.late_p99"
    with pytest.raises(BadInput, match="'p99' matches several outcomes") as several:
        find_series("p99", series)
    assert several.value.hint == "write one of: wakeup.wakeup-p99, wakeup.late_p99"


@pytest.mark.parametrize(
    "outcome, margin",
    [("time", 0.02), ("p50", 0.02), ("p95", 0.05), ("latency-99th", 0.1), ("p999", 0.1), ("n95p", 0.02)],
)
def test_tails_have_a_wider_margin(outcome: str, margin: float) -> None:
    series = series_of([arm("a", a_run("1", measured(1.0, outcome)))])[f"wakeup.{outcome}"]
    assert margin_of(series, None) == margin
    assert margin_of(series, 0.3) == 0.3


def test_a_question_carries_what_is_known_of_each_run() -> None:
    run = a_run("a/1", measured(2.0), boot="x", machine="h", block="7", readings={"temperature_c": 51.5})
    question = question_of(series_of([arm("a", run)])["wakeup.p50"], "a", "primary", 0.02, None, {"a/1": 3})
    (seen,) = question.arms["a"]
    assert (seen.value, seen.place, seen.block, seen.boot, seen.machine, seen.covariate) == (2, 3, "7", "x", "h", 51.5)

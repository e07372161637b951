# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math

import msgspec
import pytest

from ktrial.reports.blocks import Items, OwnChart
from ktrial.reports.charts.drawing import Style
from ktrial.reports.charts.svg import svg_bytes
from ktrial.studies.search.course import COUNTER_BLOCKS, SCREEN_ABOVE, SearchCourse, fewest_visits
from ktrial.studies.search.model import ProbeRequest
from ktrial.studies.search.page import supplement
from ktrial.studies.search.propose import KnownValue, propose
from ktrial.studies.search.space import Point, Space
from ktrial.studies.search.surrogate import SeenVisit, Surrogate
from ktrial.studies.search.text import progress_text, search_text, space_text
from tests.support.bench import FakeBenchmark, outcome
from tests.support.search import TASKS, MadeMachine, choice, drive, noise_of, number, question_of, run_search, space_of

SD = 0.01


def space() -> Space:
    return space_of(number("a", 0, 100, 10), choice("c", "x", "y", "z"), number("idle", 0, 100, 50))


def hill(point: Point) -> float:
    """An optimum at a = 70 with c = y; the third dimension does nothing."""
    a = float(point["a"])
    return 0.2 * math.exp(-(((a - 70) / 25) ** 2)) + 0.1 * (point["c"] == "y")


def machine(seed: int = 1, **more: object) -> MadeMachine:
    return MadeMachine({"time": hill}, noise_of(seed, SD), **more)  # type: ignore[arg-type]


def test_a_planted_optimum_is_found_confirmed_by_fresh_blocks_and_has_no_idle_setting() -> None:
    made = machine()
    found, _ = run_search(question_of(space(), 320), made)
    assert (found.ending, found.verdict) == ("confirmed", "better")
    assert found.winner["c"] == "y"
    assert 55 <= float(found.winner["a"]) <= 85
    assert "idle" not in found.winner
    assert found.confirmed_by is not None
    confirming = next(one for one in made.steps if one.file.name == found.confirmed_by)
    assert confirming.kind in {"confirm", "fewest"}
    assert not confirming.file.race
    assert confirming.file.design.cap is not None
    # The effect is that trial's own, and what the search estimated stands beside it.
    assert found.effect is not None
    assert found.effect.low is not None
    assert found.estimate is not None
    assert found.runs <= 320
    # The search keeps enough time to find out which settings the winner does not need.
    assert found.removals
    text = search_text(found, width=100)
    assert "ktrial apply a=" in text
    assert "not a result" in text
    # Page and terminal show the change of the value: less time.
    assert "had estimated -" in str(supplement(found).sections[0].blocks)


@pytest.mark.parametrize("visits", [64, 80, 150])
def test_a_search_for_fewer_events_keeps_time_for_the_blocks_that_a_counter_needs(visits: int) -> None:
    def stalls(point: Point) -> float:
        return 0.0 if point["c"] == "z" else 40.0

    counter = msgspec.structs.replace(outcome("time"), kind="count", unit="count", direction="lower")
    tool = FakeBenchmark(name="tool", outcomes=(counter,))
    made = MadeMachine({"time": stalls}, noise_of(1, SD), tasks=(msgspec.structs.replace(TASKS[0], benchmark=tool),))
    found, _ = run_search(question_of(space(), visits), made)
    (confirming,) = [one for one in made.steps if one.kind == "confirm"]
    assert confirming.file.design.cap == COUNTER_BLOCKS
    assert found.runs <= visits


def test_every_race_holds_the_control_and_the_incumbent() -> None:
    made = machine()
    run_search(question_of(space(), 100), made)
    races = [one for one in made.steps if one.kind == "race"]
    assert len(races) > 2
    assert all("control" in one.points for one in races)
    assert sum("incumbent" in one.points for one in races) >= len(races) - 2


def test_after_each_trial_the_search_says_what_is_spent_left_and_best() -> None:
    walk = SearchCourse(question_of(space(), 100))
    points: list[Point] = [{"a": 70, "c": "y", "idle": 50}, {"a": 0, "c": "x", "idle": 50}]
    drive(walk._race([walk.known.add(point) for point in points], 2), machine())
    now = walk.progress()
    assert (now.points, now.visits, now.spent_s, now.best) == (2, 6, 6.0, {"a": 70, "c": "y"})
    assert now.estimate is not None
    assert now.estimate[0] == pytest.approx(hill({"a": 70, "c": "y"}) - hill(space().control), abs=0.04)
    assert now.estimate[1] < now.estimate[0] < now.estimate[2]
    text = progress_text(now)
    assert text.startswith("2 points in 6 visits; 6 s spent, at most about 1 min 34 s left")
    assert "unconfirmed: a=70 c=y" in text


def test_where_nothing_matters_nothing_is_found_and_the_detectable_effect_is_said() -> None:
    endings = []
    for seed in range(3):
        flat = MadeMachine({"time": lambda _: 0.0}, noise_of(seed, SD))
        found, _ = run_search(question_of(space(), 100, seed), flat)
        endings.append(found.ending)
        assert found.winner == {}
        assert found.detectable is not None
        assert 0.001 < found.detectable < 0.1
        assert "9 of 10 searches" in search_text(found, width=100)
    assert endings == ["nothing found"] * 3


def test_the_same_replies_give_the_same_search() -> None:
    first, second = (run_search(question_of(space(), 60), machine())[0] for _ in range(2))
    assert first == second


def test_a_budget_too_small_to_confirm_anything_is_said_with_the_budget_needed() -> None:
    found, walk = run_search(question_of(space(), fewest_visits() - 1, visit_s=1.0), machine())
    assert (found.ending, found.needed_s, walk.parts) == ("budget too small", fewest_visits(), [])
    unknown, walk = run_search(question_of(space(), 20, visit_s=None), machine())
    assert (unknown.ending, len(walk.parts)) == ("budget too small", 1)
    assert unknown.needed_s == fewest_visits()
    assert f"use --budget {fewest_visits()}s or more" in search_text(unknown, width=100)


def test_a_region_that_crashes_is_learnt_and_told_and_never_wins() -> None:
    def crashing(point: Point) -> float | None:
        return None if float(point["a"]) > 60 else hill(point)

    made = MadeMachine({"time": crashing}, noise_of(1, SD))
    found, _ = run_search(question_of(space(), 110), made)
    assert [one.dimension for one in found.crashes] == ["a"]
    assert float(found.crashes[0].low or 0) > 60
    assert all(float(value) <= 60 for name, value in found.winner.items() if name == "a")
    assert {one.state for one in found.history} >= {"measured", "failed"}
    assert "crashes: a from" in search_text(found, width=100)


def test_several_regions_that_crash_are_each_learnt_and_told() -> None:
    def crashing(point: Point) -> float | None:
        a, idle = float(point["a"]), float(point["idle"])
        return None if a > 80 or idle < 20 or point["c"] == "z" else hill(point)

    made = MadeMachine({"time": crashing}, noise_of(1, SD))
    found, _ = run_search(question_of(space(), 200), made)
    regions = {one.dimension: one for one in found.crashes}
    assert set(regions) == {"a", "c", "idle"}
    assert 60 < float(regions["a"].low or 0) <= 100
    assert 0 <= float(regions["idle"].high or 0) < 20
    assert regions["c"].values == ("z",)
    text = search_text(found, width=100)
    assert text.count("crashes: ") == 3
    assert found.ending == "confirmed"
    assert found.winner["c"] == "y"
    last = [point for step in made.steps[-4:] for point in step.points.values()]
    assert all(crashing(point) is not None for point in last)


def test_a_search_in_which_every_point_fails_ends_early() -> None:
    control = space().control
    made = MadeMachine({"time": lambda point: 0.0 if point == control else None}, noise_of(1, SD))
    found, _ = run_search(question_of(space(), 400), made)
    assert (found.ending, found.winner) == ("nothing could be tried", {})
    assert {one.state for one in found.history} == {"failed"}
    assert found.reason == f"all {len(found.history)} points that were tried failed"
    assert len(found.history) == 20


def test_what_the_machine_refuses_is_told_and_never_measured() -> None:
    made = machine(refuse=lambda point: "not while c = z" if point["c"] == "z" else None)
    found, _ = run_search(question_of(space(), 100), made)
    assert "not while c = z" in found.refused
    measured = {point["c"] for step in made.steps for point in step.points.values()}
    assert "z" not in measured
    assert any(one.state == "refused" for one in found.history)


def test_a_clamped_value_counts_as_the_value_that_the_kernel_took() -> None:
    made = machine(clamp=lambda point: {"a": 64} if float(point["a"]) > 64 else {})
    found, _ = run_search(question_of(space(), 120), made)
    values = {float(point["a"]) for step in made.steps for point in step.points.values()}
    assert max(values) == 64
    assert any(one.reason == "the kernel took a = 64" for one in found.history)


def test_a_point_that_breaks_a_guard_cannot_win() -> None:
    question = question_of(space(), 150)
    trial = question.trial.__class__(
        name="test", suite="tool", primary="time", guards={"other": "5%"}, arms={}, design=question.trial.design
    )
    made = MadeMachine({"time": hill, "other": lambda point: -0.3 * (point["c"] == "y")}, noise_of(1, SD))
    found, _ = run_search(question_of(space(), 110, trial=trial), made)
    assert found.winner
    assert found.winner.get("c") != "y"
    assert any(one.state == "breaks a guard" for one in found.history)


@pytest.mark.parametrize("sd, is_left_out", [(0.01, True), (0.1, False)])
def test_a_point_is_left_out_for_a_guard_only_if_the_noise_lets_it_be_seen(sd: float, is_left_out: bool) -> None:
    question = question_of(space(), 100)
    trial = question.trial.__class__(
        name="test", suite="tool", primary="time", guards={"other": "10%"}, arms={}, design=question.trial.design
    )
    walk = SearchCourse(question_of(space(), 100, trial=trial))
    points: list[Point] = [{"a": 70, "c": "y", "idle": 50}, {"a": 0, "c": "x", "idle": 50}]
    made = MadeMachine({"time": hill, "other": lambda point: -0.4 * (point["c"] == "y")}, noise_of(1, sd))
    drive(walk._race([walk.known.add(point) for point in points], 1), made)
    assert (walk.known.entries[1].guard == "tool.other") is is_left_out
    assert walk.known.entries[2].guard is None


def test_many_dimensions_are_screened_first() -> None:
    many = space_of(*(choice(f"k{at}", "0", "1") for at in range(SCREEN_ABOVE + 4)))
    made = MadeMachine({"time": lambda point: 0.1 * (point["k3"] == "1")}, noise_of(1, SD))
    found, _ = run_search(question_of(many, 200), made)
    assert made.steps[0].kind == "screen"
    assert found.winner == {"k3": "1"}
    assert any("screening" in why for why in found.left_out.values())
    few, _ = run_search(question_of(many, 80), MadeMachine({"time": lambda _: 0.0}, noise_of(1, SD)))
    assert few.trials[0].endswith("-race")


def test_settings_whose_removal_is_equivalent_leave_the_winner_if_the_rest_is_confirmed() -> None:
    walk, made = SearchCourse(question_of(space(), 600)), machine()
    whole: Point = {"a": 70, "c": "y", "idle": 90}
    bare: Point = {"a": 70, "c": "y", "idle": 50}
    others: list[Point] = [{"a": 30, "c": "y", "idle": 20}, {"a": 60, "c": "x", "idle": 0}]
    numbers = [walk.known.add(point) for point in (whole, *others)]
    drive(walk._race(numbers, 3, 1.0), made)
    winner, confirmed = drive(walk._prune_winner(numbers[0], walk.parts[0]), made)
    assert walk.known.entries[winner].point == bare
    assert [one.kind for one in made.steps] == ["race", "remove", "fewest"]
    assert confirmed.trial.endswith("fewest")
    assert made.steps[1].file.control == "winner"
    verdicts = {one.dimension: (one.verdict, one.removed) for one in walk.removals}
    assert verdicts["idle"] == ("equivalent", True)
    assert verdicts["a"] == ("worse", False)
    short = SearchCourse(question_of(space(), 30))
    numbers = [short.known.add(point) for point in (whole, bare)]
    drive(short._race(numbers, 3, 1.0), made)
    assert drive(short._prune_winner(numbers[0], short.parts[0]), made) == (numbers[0], short.parts[0])


def test_illegal_proposals_are_told_as_failed_and_not_returned() -> None:
    found = space()
    known = [KnownValue({**found.control, "a": at}, 0.01 * at) for at in (20, 40, 60, 80)]
    some = propose(found, known, 4, 1, lambda point: "too large" if float(point["a"]) > 50 else None)
    assert some.points
    assert all(float(point["a"]) <= 50 for point in some.points)
    assert {why for _, why in some.refused} == {"too large"}


def test_a_space_that_is_used_up_ends_the_races() -> None:
    small = space_of(choice("c", "x", "y", "z"))
    made = MadeMachine({"time": hill_of_choice}, noise_of(1, SD))
    found, _ = run_search(question_of(small, 300), made)
    assert found.winner == {"c": "y"}
    assert sum(one.kind == "race" for one in made.steps) <= 3


def hill_of_choice(point: Point) -> float:
    return 0.1 * (point["c"] == "y")


def test_levels_of_blocks_do_not_count() -> None:
    points = [{"a": at, "c": "x", "idle": 50} for at in (10, 40, 70)]
    effects = (0.0, 0.05, 0.1)
    noise = itertools.cycle((0.001, -0.001, 0.002, -0.002))
    seen = [SeenVisit(block, at, 3.0 * block + effects[at] + next(noise)) for block in range(6) for at in range(3)]
    mean, covariance = Surrogate(space(), points, seen).effects(points[1:])
    assert mean.tolist() == pytest.approx(effects[1:], abs=0.01)
    assert (covariance.diagonal() < 0.02**2).all()


def test_the_page_shows_every_point_what_moves_the_outcome_and_what_failed() -> None:
    def crashing(point: Point) -> float | None:
        return None if point["c"] == "z" else hill(point)

    found, _ = run_search(question_of(space(), 70), MadeMachine({"time": crashing}, noise_of(1, SD)))
    (section,) = supplement(found).sections
    charts = [block.draw(Style(width=700)) for block in section.blocks if isinstance(block, OwnChart)]
    assert [one.name for one in charts] == ["history", "importance", "slices"]
    history = charts[0].table
    assert len(history.rows) == sum(one.estimate is not None for one in found.history)
    assert {row[0] for row in charts[1].table.rows} == {"a", "c", "idle"}
    for chart in charts:
        assert svg_bytes(chart).startswith(b"<svg")
    texts = [line for block in section.blocks if isinstance(block, Items) for line in block.lines]
    assert any(str(line).startswith("crashes: c = z") for line in texts)


def test_the_space_is_shown_with_its_rules_and_budget() -> None:
    text = space_text(question_of(space(), 100), width=100)
    assert "0 to 100" in text
    assert f"needs at least {fewest_visits()}" in text
    probe = next(SearchCourse(question_of(space(), 100)).run())
    assert isinstance(probe, ProbeRequest)

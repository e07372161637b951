# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import numpy as np
import pytest

from ktrial.kit.errors import BadInput, Contradiction
from ktrial.reports.blocks import OwnChart
from ktrial.reports.charts.drawing import Style
from ktrial.reports.charts.svg import svg_bytes
from ktrial.studies.search.course import SCREEN_ABOVE, fewest_visits
from ktrial.studies.search.front import combine_scores, front_places, places_apart, refuse_outcomes
from ktrial.studies.search.model import SearchAnswer, SearchQuestion
from ktrial.studies.search.page import supplement
from ktrial.studies.search.space import Point, Space
from ktrial.studies.search.text import search_text
from ktrial.trial.protocol.file import DesignFile, TrialFile
from tests.support.bench import FakeBenchmark, outcome
from tests.support.search import TASKS, MadeMachine, choice, noise_of, number, question_of, run_search, space_of

SD = 0.01


def space() -> Space:
    return space_of(number("a", 0, 100, 0), choice("c", "x", "y", "z"), number("idle", 0, 100, 50))


def asked(visits: int, seed: int = 1, where: Space | None = None, **changes: object) -> SearchQuestion:
    """A search that improves a time and a second outcome."""
    file = {"name": "test", "suite": "tool", "primary": "time", "secondary": ("other",), "arms": {}}
    trial = TrialFile(**{**file, "design": DesignFile(settle="0s"), **changes})  # type: ignore[arg-type]
    return question_of(where or space(), visits, seed, trial=trial, also=("other",))


def time(point: Point) -> float:
    """Best at a = 100; c = y helps a little."""
    return 0.3 * float(point["a"]) / 100 + 0.05 * (point["c"] == "y")


def other(point: Point) -> float:
    """Worst at a = 100, and better with c = z."""
    return 0.12 * (point["c"] == "z") - 0.3 * (float(point["a"]) / 100) ** 2


def search(visits: int = 160, seed: int = 1) -> tuple[SearchAnswer, MadeMachine]:
    made = MadeMachine({"time": time, "other": other}, noise_of(seed, SD))
    found, _ = run_search(asked(visits, seed), made)
    return found, made


def test_a_front_is_found_and_confirmed_by_one_trial_of_all_its_points() -> None:
    found, made = search()
    assert found.ending == "confirmed", found.reason
    assert list(found.directions) == ["tool.time", "tool.other"]
    confirmed = [one for one in found.front if one.state == "confirmed"]
    assert len(confirmed) >= 2
    # One end is fast at the price of the other outcome, the other end is not.
    values = sorted(float(one.changes.get("a", 0)) for one in confirmed)
    assert values[0] <= 50
    assert values[-1] >= 80
    fast = next(one for one in confirmed if one.changes.get("a", 0) == values[-1])
    assert fast.verdicts == {"tool.time": "better", "tool.other": "worse"}
    # The model drops settings that seem to do nothing, not always all of them.
    assert sum("idle" in one.changes for one in confirmed) <= 2
    last = made.steps[-1]
    assert [one.kind for one in made.steps].count("front") == 1
    assert (last.kind, last.file.name, last.file.front) == ("front", found.confirmed_by, ("other",))
    assert sorted(last.points) == sorted(["control", *(one.arm for one in found.front if one.arm)])
    # The primary outcome and the other one share the error of one trial, and both get their intervals.
    assert last.file.design.alpha == 0.025
    assert last.file.design.until_all_decided
    assert found.runs <= 160
    assert (found.winner, found.candidate, found.effect) == ({}, {}, None)


def test_no_point_of_the_front_beats_another_and_those_without_a_trial_are_unconfirmed() -> None:
    found, _ = search(120)
    rows = np.array([[one.estimates[name][0] for name in found.directions] for one in found.front])
    assert front_places(rows) == list(range(len(rows)))
    others = [one for one in found.front if one.arm is None]
    assert others
    assert {one.state for one in others} == {"unconfirmed"}
    assert all(one.verdicts == {} and one.reason for one in others)
    text = search_text(found, width=100)
    first = next(one for one in found.front if one.state == "confirmed")
    assert f"keep {first.name}: ktrial keep {found.confirmed_by}/{first.arm}" in text
    assert f"point {others[0].number}" in text
    assert "unconfirmed: " in text


def test_where_nothing_matters_no_point_is_confirmed() -> None:
    for seed in range(4):
        flat = MadeMachine({"time": lambda _: 0.0, "other": lambda _: 0.0}, noise_of(seed, SD))
        found, _ = run_search(asked(110, seed), flat)
        assert found.ending == "nothing found"
        assert {one.state for one in found.front} <= {"not confirmed", "unconfirmed"}
        assert found.detectable is not None
        assert 0.001 < found.detectable < 0.1


def test_a_point_that_breaks_a_guard_is_not_on_the_front() -> None:
    effects = {"time": time, "other": other, "limit": lambda point: -0.3 * (float(point["a"]) > 60)}
    tool = FakeBenchmark(
        name="tool", outcomes=(outcome(), *(outcome(name, headline=False) for name in list(effects)[1:]))
    )
    made = MadeMachine(effects, noise_of(1, SD), tasks=(msgspec.structs.replace(TASKS[0], benchmark=tool),))
    found, _ = run_search(asked(160, guards={"limit": "5%"}), made)
    assert found.ending == "confirmed"
    assert all(float(one.changes.get("a", 0)) <= 60 for one in found.front)
    assert any(one.state == "breaks a guard" for one in found.history)


def test_a_point_does_not_lose_a_setting_without_which_it_fails() -> None:
    def fails(point: Point) -> bool:
        return point["idle"] == 50 and float(point["a"]) > 0

    effects = {
        name: (lambda point, one=one: None if fails(point) else one(point))
        for name, one in (("time", time), ("other", other))
    }
    made = MadeMachine(effects, noise_of(1, SD))
    found, _ = run_search(asked(160), made)
    assert found.ending == "confirmed"
    assert not any(map(fails, made.steps[-1].points.values()))
    assert any(fails(point) for one in made.steps for point in one.points.values())


def test_a_counter_may_be_improved_beside_a_time_also_down_to_zero() -> None:
    def stalls(point: Point) -> float:
        return 0.0 if point["c"] == "z" else 40.0 * (1 + float(point["a"]) / 100)

    counter = msgspec.structs.replace(outcome("other", headline=False), kind="count", unit="count")
    tool = FakeBenchmark(name="tool", outcomes=(outcome("time"), counter))
    made = MadeMachine(
        {"time": time, "other": stalls}, noise_of(1, SD), tasks=(msgspec.structs.replace(TASKS[0], benchmark=tool),)
    )
    found, _ = run_search(asked(160), made)
    assert found.ending == "confirmed", found.reason
    (none,) = [one for one in found.front if one.changes.get("c") == "z"]
    assert none.verdicts == {"tool.time": "better", "tool.other": "better"}
    # Without any event left there is no ratio: the chart leaves the point out, the tables have it.
    effect = none.effects["tool.other"]
    assert effect is not None
    assert effect.scale == "difference"
    assert f"{none.arm}  tool.other  -" in search_text(found, width=100)
    (section,) = supplement(found).sections
    drawn = next(block.draw(Style(width=700)) for block in section.blocks if isinstance(block, OwnChart))
    assert none.arm in {row[0] for row in drawn.table.rows}
    assert none.arm not in {
        row["name"] for layer in drawn.spec["layer"] for row in layer["data"]["values"] if "name" in row
    }


def test_each_race_measures_points_of_the_front_again_and_drops_nobody() -> None:
    _, made = search(120)
    races = [one for one in made.steps if one.kind == "race"]
    assert all(one.file.race and one.file.race.keep == 1 for one in races)
    repeated = [sum(name == "incumbent" for name in one.points) for one in races[1:-2]]
    assert sum(repeated) == len(repeated) > 2


def test_many_dimensions_are_screened_by_both_outcomes() -> None:
    many = space_of(*(choice(f"k{at}", "0", "1") for at in range(SCREEN_ABOVE + 4)))
    effects = {
        "time": lambda point: 0.1 * (point["k3"] == "1"),
        "other": lambda point: 0.1 * (point["k9"] == "1"),
    }
    made = MadeMachine(effects, noise_of(1, SD))
    found, _ = run_search(asked(200, where=many), made)
    assert made.steps[0].kind == "screen"
    assert not {"k3", "k9"} & set(found.left_out)
    assert any({"k3", "k9"} == set(one.changes) for one in found.front if one.state == "confirmed")


def test_a_budget_that_confirms_less_than_two_points_is_refused_with_the_budget_needed() -> None:
    assert fewest_visits(2) > fewest_visits(1)
    found, walk = run_search(asked(fewest_visits(2) - 1), MadeMachine({"time": time, "other": other}, noise_of(1, SD)))
    assert (found.ending, found.needed_s, walk.parts) == ("budget too small", fewest_visits(2), [])
    found, _ = search(fewest_visits(2))
    assert found.ending == "confirmed"
    assert found.runs <= fewest_visits(2)


def test_outcomes_that_no_trial_could_judge_are_refused() -> None:
    with pytest.raises(Contradiction, match="twice"):
        refuse_outcomes(msgspec.structs.replace(asked(100), also=("other", "other")))
    with pytest.raises(BadInput, match="in 33 secondary outcomes and 0 guards at once"):
        refuse_outcomes(asked(100, secondary=tuple(f"o{at}" for at in range(33))))
    refuse_outcomes(asked(100, secondary=tuple(f"o{at}" for at in range(32))))


def test_the_same_replies_give_the_same_front() -> None:
    assert search(70)[0] == search(70)[0]


def test_points_that_are_beaten_are_left_out_and_equal_ones_stay() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.4, 0.5], [0.0, 1.0]])
    assert front_places(rows) == [0, 1, 2, 4]


def test_points_are_spread_from_the_best_of_each_outcome() -> None:
    rows = np.array([[0.1, 9.0], [1.0, 0.0], [0.9, 1.0], [0.0, 10.0], [0.5, 5.0]])
    assert places_apart(rows, 3) == [1, 3, 4]
    assert places_apart(rows, 1) == [1]
    assert sorted(places_apart(rows, 9)) == [0, 1, 2, 3, 4]


def test_outcomes_are_combined_by_their_weights_and_scales() -> None:
    rows, scale = np.array([[1.0, 0.0], [0.0, 100.0], [0.7, 70.0]]), np.array([1.0, 100.0])
    assert combine_scores(rows, np.array([0.9, 0.1]), scale).argmax() == 0
    assert combine_scores(rows, np.array([0.1, 0.9]), scale).argmax() == 1
    assert combine_scores(rows, np.array([0.5, 0.5]), scale).argmax() == 2


def test_the_page_draws_the_front_with_a_shape_for_each_state() -> None:
    found, _ = search(120)
    (section,) = supplement(found).sections
    charts = [block.draw(Style(width=700)) for block in section.blocks if isinstance(block, OwnChart)]
    assert [one.name for one in charts] == ["front-1", "history", "importance", "slices"]
    drawn = charts[0]
    assert {row[0] for row in drawn.table.rows} == {one.name for one in found.front}
    shapes = {layer["mark"].get("shape"): layer for layer in drawn.spec["layer"] if layer["mark"]["type"] == "point"}
    confirmed, open_points = shapes["circle"], shapes["diamond"]
    assert (confirmed["mark"]["filled"], open_points["mark"]["filled"]) == (True, False)
    names = {row["name"] for row in confirmed["data"]["values"]}
    assert names == {one.arm for one in found.front if one.state == "confirmed"}
    assert svg_bytes(drawn).startswith(b"<svg")

# SPDX-License-Identifier: Apache-2.0
"""A search whose best points all machines of a fleet measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from ktrial.fleet.log import FleetBegan, FleetEnded, FleetMachine, FleetStanding, MachineStep
from ktrial.fleet.search_part import fleet_trial, part_of_fleet
from ktrial.judge.model.log import Event
from ktrial.kit.errors import KtrialError
from ktrial.studies.search.everywhere import PROMOTED, PROMOTION_BLOCKS
from ktrial.studies.search.model import SearchPart, SearchStep
from ktrial.studies.search.space import Point, Space
from ktrial.studies.search.text import search_text
from tests.support.bench import FakeBenchmark, outcome
from tests.support.search import (
    TASKS,
    Effect,
    MadeMachine,
    choice,
    noise_of,
    number,
    question_of,
    run_search,
    space_of,
)

HOSTS = 4


def space() -> Space:
    return space_of(number("a", 0, 100, 10), choice("c", "x", "y"))


def everywhere(point: Point) -> float:
    return 0.1 if float(point["a"]) > 50 else 0.0


def only_here(point: Point) -> float:
    """On the machine of the races, c = y gains more than a; on the others it loses more."""
    return everywhere(point) + 0.2 * (point["c"] == "y")


def only_there(point: Point) -> float:
    return everywhere(point) - 0.2 * (point["c"] == "y")


class MadeFleet(MadeMachine):
    """A machine that races, and others of the same fleet; each takes all its runs by formula."""

    def __init__(self, others: Mapping[str, Effect], effects: Mapping[str, Effect], **more: Any) -> None:
        super().__init__(effects, noise_of(1, 0.01), **more)
        self._here, self._others = effects, others

    def run_trial(self, step: SearchStep) -> SearchPart:
        return self._on_fleet(step) if step.is_everywhere else super().run_trial(step)

    def _on_fleet(self, step: SearchStep) -> SearchPart:
        trial = fleet_trial(step.file)
        standing = FleetStanding([began(step)])
        logs: dict[int, Sequence[Event]] = {}
        for place in range(HOSTS):
            self.effects = self._others if place else self._here
            logs[place] = self.log_of(trial.for_machine(f"{trial.name}.{place}", 100 + place, None), step.points)
            standing.take(
                MachineStep(place=place, host=f"m{place}", state="ended", at_unix_ms=0, trial=f"{trial.name}.{place}")
            )
        self.effects = self._here
        standing.take(FleetEnded(reason="all waves are over"))
        return part_of_fleet(standing, logs, 60.0)


def began(step: SearchStep) -> FleetBegan:
    machines = tuple(FleetMachine(host=f"m{place}", wave=1, seed=place) for place in range(HOSTS))
    trial = fleet_trial(step.file)
    return FleetBegan(fleet=f"{trial.name}-abc", trial=trial, sha256="", seed=1, machines=machines)


def on_fleet(steps: Sequence[SearchStep]) -> Iterator[SearchStep]:
    return (one for one in steps if one.is_everywhere)


def test_what_wins_on_one_machine_only_is_not_the_winner() -> None:
    made = MadeFleet({"time": only_there}, {"time": only_here})
    found, walk = run_search(question_of(space(), 260, fleet=True), made)
    race, *confirming = on_fleet(made.steps)
    assert (race.kind, len(race.file.arms), race.file.design.cap) == ("race", 1 + PROMOTED, PROMOTION_BLOCKS)
    assert {one.kind for one in confirming} <= {"confirm", "fewest"}
    assert (found.ending, found.verdict) == ("confirmed", "better")
    assert "c" not in found.winner
    assert float(found.winner["a"]) > 50
    assert found.effect is not None
    assert found.effect.estimate == pytest.approx(0.1, abs=0.03)
    assert found.confirmed_by is not None
    assert found.machines[found.confirmed_by] == HOSTS
    text = search_text(found, width=100)
    assert f"on {HOSTS} machines" in text
    assert f"keep: ktrial fleet rollout {found.confirmed_by} -i INVENTORY" in text
    # Machines measure at the same time: their runs count, their time only once.
    assert found.runs > sum(part.visits for part in walk.parts if part.machines == 1)
    assert found.seconds == sum(part.seconds for part in walk.parts)


def test_a_winner_that_breaks_a_guard_on_the_fleet_is_not_confirmed() -> None:
    asked = question_of(space(), 260, fleet=True)
    trial = msgspec.structs.replace(asked.trial, guards={"other": "5%"})
    made = MadeFleet(
        {"time": everywhere, "other": lambda point: -3 * everywhere(point)},
        {"time": everywhere, "other": lambda _: 0.0},
    )
    found, _ = run_search(msgspec.structs.replace(asked, trial=trial), made)
    assert found.ending == "nothing found"
    assert found.winner == {}


def test_a_search_for_fewer_events_stays_on_one_machine() -> None:
    counter = msgspec.structs.replace(outcome("time"), kind="count", unit="count", direction="lower")
    tool = FakeBenchmark(name="tool", outcomes=(counter,))
    stalls: dict[str, Effect] = {"time": lambda point: 0.0 if point["c"] == "y" else 40.0}
    made = MadeFleet(stalls, stalls, tasks=(msgspec.structs.replace(TASKS[0], benchmark=tool),))
    found, _ = run_search(question_of(space(), 200, fleet=True), made)
    assert found.ending == "confirmed"
    assert found.machines == {}
    assert not list(on_fleet(made.steps))


def test_a_small_budget_leaves_out_the_race_on_all_machines() -> None:
    made = MadeFleet({"time": everywhere}, {"time": everywhere})
    run_search(question_of(space(), 60, fleet=True), made)
    assert [one.kind for one in on_fleet(made.steps)] == ["confirm"]


def test_a_fleet_without_a_result_is_an_error_that_says_why() -> None:
    made = MadeFleet({"time": everywhere}, {"time": everywhere})
    run_search(question_of(space(), 60, fleet=True), made)
    standing = FleetStanding([began(made.steps[-1]), FleetEnded(reason="no machine of wave 1 gave a result: away")])
    with pytest.raises(KtrialError, match=r"no machine finished .*: no machine of wave 1 gave a result: away") as told:
        part_of_fleet(standing, {}, 1.0)
    assert str(told.value.hint).startswith("run `ktrial fleet status ")

# SPDX-License-Identifier: Apache-2.0
"""A fleet's trial: its file, who is drawn, what stops it, and what it says."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.fleet.ansible import Ansible, TaskResult, parse_inventory
from ktrial.fleet.conduct import Coordinator, MachineLook
from ktrial.fleet.draw import draw
from ktrial.fleet.eta import machine_time, seconds_left, wave_seconds
from ktrial.fleet.file import FleetTable, parse_fleet_trial, wave_sizes
from ktrial.fleet.guards import worse_p
from ktrial.fleet.log import FleetEnded, FleetStanding, MachineState, MachineStep, decode, encode
from ktrial.fleet.machines import facts_of, sight_of
from ktrial.fleet.text import announcement, event_text, live_lines, question_text, result_text, status_text
from ktrial.fleet.verdict import fleet_result
from ktrial.kit.errors import BadInput, KtrialError
from tests.support.fleets import GUARD, began, fleet_trial, hosts, simulated

TRIAL = """
name = "backlog"
command = ["true"]
[arms.control]
[arms.big]
set = { "net.core.somaxconn" = 512 }
[fleet]
"""


def test_a_fleet_of_eight_says_how_its_machines_differ() -> None:
    """The arm helps six of eight machines."""
    first = began(fleet_trial(), hosts(8))
    standing, world = simulated(first, effect=lambda host: 0.0 if host in {"m7", "m8"} else 0.1)
    found = fleet_result(standing, {place: world.log(trial) for place, trial in standing.finished.items()})
    one = found.contrasts[0]
    assert (one.verdict, one.scope, one.helped, one.hurt) == ("better", "machines like these", 6, 0)
    assert one.differs
    assert one.pooled.predicted_low is not None
    assert one.pooled.predicted_low < 0
    text = result_text(found, width=80)
    assert text.startswith("On machines like these, big is better")
    assert "The machines differ: better on 6, worse on 0 of 8" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_row_for_each_wave_says_what_its_machines_do() -> None:
    standing, _ = simulated(began(fleet_trial(waves=(2, 3)), hosts(5)), away={"m1": 5000})
    lines = live_lines(standing, 0, width=80)
    assert lines[1].split() == ["wave", "done", "measuring", "waiting", "away", "failed"]
    assert sum(int(line.split()[1]) for line in lines[3:5]) == 4
    assert sum(int(line.split()[5]) for line in lines[3:5]) == 1
    assert lines[-1] == "4 of 5 done, 1 failed"


def test_how_long_it_takes_is_told_before_and_follows_what_machines_really_take() -> None:
    first = began(fleet_trial(waves=(2, "100%"), at_once=2, blocks=7), hosts(6))
    assert "unknown until the first machine has begun" in announcement(first, width=80, forks=8)
    # 7 blocks of 2 arms of 8 s each, after a warm-up of 16 s; the second wave measures two and two.
    first = msgspec.structs.replace(first, takes=machine_time(first, 5.0, 3.0), when_idle=True)
    assert wave_seconds(first, 8) == {1: 16 + 112, 2: 16 + 224}
    assert wave_seconds(first, 1) == {1: 32 + 112, 2: 64 + 224}
    shown = " ".join(announcement(first, width=200, forks=8).split())
    assert "time about 6 min 8 s; wave by wave 2 min 8 s, 4 min 0 s; ktrial also waits for machines in use" in shown
    assert question_text(first, 8, 600.0) == "Measure on 6 machines?"
    assert question_text(first, 8, 300.0) == "This may take 6 min 8 s on 6 machines. Continue?"
    standing = FleetStanding([first])
    assert seconds_left(standing, 0) == 3 * 112
    in_wave = standing.places_of(1)
    states: tuple[MachineState, ...] = ("running", "in-use")
    for place, state in zip(in_wave, states, strict=True):
        standing.take(MachineStep(place=place, host="m", state=state, at_unix_ms=0, next_look_unix_ms=16_000))
    assert seconds_left(standing, 6_000) == 3 * 112  # one that is in use may have all its blocks before it
    for place in in_wave:
        standing.take(MachineStep(place=place, host="m", state="ended", at_unix_ms=200_000, blocks=7))
    assert seconds_left(standing, 200_000) == 2 * 200
    standing.take(FleetEnded(reason="over"))
    assert seconds_left(standing, 200_000) is None


def test_without_an_estimate_the_first_plan_tells_the_time() -> None:
    standing = FleetStanding([began(fleet_trial(waves=(1, "100%")), hosts(3))])
    assert seconds_left(standing, 0) is None
    (place,) = standing.places_of(1)
    step = MachineStep(place=place, host="m", state="running", at_unix_ms=0, next_look_unix_ms=60_000)
    standing.take(step)
    assert seconds_left(standing, 20_000) == 40 + 60


def test_a_machine_in_use_is_looked_at_again_and_holds_no_place() -> None:
    first = began(fleet_trial(waves=("100%",), at_once=1), hosts(3))
    standing, world = simulated(msgspec.structs.replace(first, when_idle=True), used={"m2": 3})
    assert len(standing.finished) == 3
    assert world.most_measuring == 1
    used = [one for one in world.events if isinstance(one, MachineStep) and one.state == "in-use"]
    assert event_text(used[0]) == "m2 waits; in use: /dev/tty1"
    assert [(one.host, one.message) for one in used] == [("m2", "in use: /dev/tty1")] * 3
    assert [one.next_look_unix_ms - one.at_unix_ms for one in used if one.next_look_unix_ms] == [60_000] * 3
    assert live_lines(standing, 0, width=80)[1].split()[3:5] == ["in", "use"]


def test_the_waves_are_those_of_the_file_and_nobody_is_left_over() -> None:
    assert wave_sizes(FleetTable(), 20) == (1, 5, 14)
    assert wave_sizes(FleetTable(waves=(3,)), 8) == (3, 3, 2)
    assert wave_sizes(FleetTable(waves=("50%",)), 3) == (2, 1)
    first = began(fleet_trial(), hosts(20))
    assert sorted(one.host for one in first.machines) == sorted(hosts(20))
    shown = announcement(first, width=80, forks=8)
    assert "wave 3" in shown
    assert "and 6 more" in shown


def test_an_inventory_of_one_is_told_what_it_cannot_say() -> None:
    first = began(fleet_trial(), hosts(1))
    assert "fewer than 3 machines: ktrial gives no verdict" in " ".join(announcement(first, width=80, forks=8).split())
    standing, world = simulated(first)
    (one, _) = fleet_result(standing, {0: world.log(standing.finished[0])}).contrasts
    assert (one.verdict, one.scope) == ("inconclusive", "these machines")
    assert one.why == "1 of 1 machines can be pooled (minimum 3)"


def test_a_machine_in_two_groups_is_one_machine() -> None:
    listed = (
        b'{"_meta": {"hostvars": {"a": {"rack": 1}}}, "web": {"hosts": ["a", "b"]}, "db": {"hosts": ["a"]}, "all": {}}'
    )
    found = parse_inventory(listed)
    assert list(found.hosts) == ["a", "b"]
    assert found.groups == {"web": ("a", "b"), "db": ("a",)}


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_answer_of_ansible_crashes_the_reader(answer: bytes) -> None:
    with contextlib.suppress(KtrialError):
        parse_inventory(answer)


def test_at_most_the_stated_number_of_machines_measures_at_a_time() -> None:
    _, world = simulated(began(fleet_trial(waves=("100%",), at_once=2), hosts(6)), turns=3)
    assert world.most_measuring == 2


def test_a_wave_whose_guard_is_broken_stops_the_trial_and_the_machines() -> None:
    standing, _world = simulated(began(fleet_trial(waves=(4, "100%")), hosts(8)), harm=lambda _: -0.5)
    over = standing.waves_over[1]
    assert over.decision == "stop"
    assert over.reason == f"{GUARD} of big is worse than a guard allows"
    assert sorted(standing.waves_over) == [1]
    assert standing.end is not None
    assert len(standing.finished) == 4


def test_seven_of_ten_values_a_hundred_times_worse_do_not_pass() -> None:
    """A canary analysis in use lets this pass: it compares medians of what is left after outliers are removed."""
    differences = [0.01, -0.02, 0.015] + [-math.log(100)] * 7
    import numpy as np

    assert worse_p(np.array(differences)) < 0.02
    assert worse_p(np.array([0.01, -0.02, 0.015, -0.01, 0.02, 0.0])) > 0.2


def test_a_machine_that_passes_a_limit_stops_its_wave() -> None:
    standing, world = simulated(began(fleet_trial(waves=("100%",)), hosts(4)), trips=("m2",), turns=5)
    assert standing.waves_over[1].reason == "a guard of m2 tripped: the temperature is 99.0 °C (limit 95 °C)"
    assert "m2" not in world.stopped
    assert all(standing.state_of(place) in {"stopped", "failed", None} for place in range(4))


def test_a_machine_that_is_away_for_a_while_is_waited_for_and_for_too_long_left_out() -> None:
    standing, world = simulated(began(fleet_trial(waves=("100%",)), hosts(4)), away={"m1": 3, "m2": 1000})
    states = {standing.machine(place).host: standing.state_of(place) for place in range(4)}
    assert states == {"m1": "ended", "m2": "failed", "m3": "ended", "m4": "ended"}
    failed = next(step for step in standing.steps.values() if step.host == "m2")
    assert failed.message == "away for too long: no route to host"
    assert world.left_out == ["m2"]
    assert standing.end is not None
    assert standing.end.reason == "all waves are over"
    assert "m2" in status_text(standing, None, 0, width=80)


class Asked:
    """Ansible, of whose machines one is away for the first question and another always."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def run(self, module: str, arguments: Mapping[str, Mapping[str, Any]]) -> Iterator[TaskResult | None]:
        self.asked.append([*arguments])
        known = {"ansible_facts": {"ktrial": {"cpu.model": "X"}}}
        for host in arguments:
            is_away = host == "m3" or (host == "m2" and len(self.asked) == 1)
            yield TaskResult(host, "unreachable", {"msg": "no"}) if is_away else TaskResult(host, "ok", known)


def test_a_machine_that_is_away_is_asked_for_its_facts_again() -> None:
    ansible, waits = Asked(), list[float]()
    machines = {name: {"rack": 1} for name in ("m1", "m2", "m3")}
    found = [one for one in facts_of(cast("Ansible", ansible), machines, ["inventory.rack"], waits.append) if one]
    assert ansible.asked == [["m1", "m2", "m3"], ["m2", "m3"], ["m3"]]
    assert found == [
        ("m1", {"cpu.model": "X", "inventory.rack": "1"}, ""),
        ("m2", {"cpu.model": "X", "inventory.rack": "1"}, ""),
        ("m3", None, "no"),
    ]
    assert waits == [5.0, 5.0]


def test_a_look_that_fails_is_repeated_twice_and_then_its_machine_is_left_out() -> None:
    standing, _ = simulated(began(fleet_trial(waves=("100%",)), hosts(4)), fails={"m1": 2, "m2": 3})
    states = {standing.machine(place).host: standing.state_of(place) for place in range(4)}
    assert states == {"m1": "ended", "m2": "failed", "m3": "ended", "m4": "ended"}


@pytest.mark.parametrize(
    "status, may_pass",
    [(1, True), (-9, True), (2, False), (3, False), (4, False), (5, False), (None, False)],
)
def test_a_failure_of_the_environment_may_pass(status: int | None, may_pass: bool) -> None:
    sight = sight_of(TaskResult("m1", "failed", {"rc": status, "msg": "cannot read the store"}))
    assert (sight.may_pass, sight.guard) == (may_pass, status == 3)


def test_results_of_a_machine_that_was_away_are_brought_in_later_once() -> None:
    standing, world = simulated(began(fleet_trial(waves=("100%",)), hosts(4)), away={"m2": 90})
    place = next(place for place, step in standing.steps.items() if step.host == "m2")
    assert standing.state_of(place) == "failed"
    coordinator = Coordinator(standing, world, world, world, world.log, lambda _: None)
    while standing.state_of(place) != "ended":
        coordinator.collect([MachineLook(place, standing.machine(place), standing.steps[place].trial)])
    assert sorted(standing.finished) == [0, 1, 2, 3]
    assert len(set(standing.finished.values())) == 4


def test_a_wave_whose_machines_are_all_away_stops_the_trial() -> None:
    away = dict.fromkeys(hosts(4), 10_000)
    standing, _ = simulated(began(fleet_trial(waves=(4,)), hosts(4)), away=away)
    assert standing.waves_over[1].reason.startswith("no machine of wave 1 gave a result: away for too long")


def test_pairs_agree_in_their_facts_and_a_coin_decides() -> None:
    facts = {**hosts(12), "m13": {"cpu.model": "B", "cpu.threads": "8", "kernel.release": "6.1"}}
    first = began(fleet_trial(design="pairs"), facts)
    assert first.left_out == {"m13": "no other machine has cpu.model B, cpu.threads 8, kernel.release 6.1"}
    arms = [[one.arm for one in first.machines if one.pair == number] for number in range(1, 7)]
    assert all(sorted(map(str, pair)) == ["big", "control"] for pair in arms)
    standing, world = simulated(first, effect=lambda _: 0.3, between=0.02)
    (one, _) = fleet_result(standing, {place: world.log(trial) for place, trial in standing.finished.items()}).contrasts
    assert (one.verdict, one.scope) == ("better", "these machines")
    assert one.effect is not None
    assert 0.25 < one.effect.estimate < 0.35


def test_the_nearest_machines_form_pairs() -> None:
    facts = {f"m{number}": {"cpu.model": "A", "inventory.load": str(number % 12)} for number in range(24)}
    first = began(fleet_trial(design="pairs", match=("cpu.model",), near="inventory.load"), facts)
    for number in range(1, 13):
        loads = [float(one.facts["inventory.load"]) for one in first.machines if one.pair == number]
        assert loads[0] == loads[1]


def test_pairs_need_the_number_of_every_machine() -> None:
    facts = {f"m{number}": {"cpu.model": "A", "inventory.load": str(number)} for number in range(12)}
    del facts["m7"]["inventory.load"]
    with pytest.raises(BadInput, match=r"inventory\.load is not a number on every machine"):
        draw(fleet_trial(design="pairs", match=("cpu.model",), near="inventory.load").fleet, facts, 1, ("a", "b"))


def test_too_few_pairs_are_refused() -> None:
    with pytest.raises(BadInput, match=r"8 machines make 4 pairs .* \(minimum 6\)"):
        draw(fleet_trial(design="pairs").fleet, hosts(8), 1, ("control", "big"))


def test_stepped_waves_find_an_effect_on_machines_that_differ() -> None:
    first = began(fleet_trial(design="stepped", waves=(2,)), hosts(8))
    assert len(first.machines) == 8 * 5
    standing, world = simulated(first, effect=lambda _: 0.1, between=0.3)
    found = fleet_result(standing, {place: world.log(trial) for place, trial in standing.finished.items()})
    one = found.contrasts[0]
    assert one.verdict == "better"
    assert one.effect is not None
    assert one.effect.low is not None
    assert one.effect.high is not None
    assert one.effect.low < 0.1 < one.effect.high < 0.15


def test_too_few_orders_of_steps_are_refused() -> None:
    with pytest.raises(BadInput, match=r"4 machines in waves of 2, 2 can be drawn in 6 orders \(minimum 40\)"):
        draw(fleet_trial(design="stepped", waves=(2,)).fleet, hosts(4), 1, ("control", "big"))


@pytest.mark.parametrize("design", ["within", "pairs", "stepped"])
def test_without_machines_no_design_counts_them(design: str) -> None:
    with pytest.raises(BadInput, match="no machine of the inventory can take part"):
        draw(fleet_trial(design=design).fleet, {}, 1, ("control", "big"))


def test_another_coordinator_goes_on_from_the_log() -> None:
    """After any number of events, a new coordinator comes to the same end."""
    first = began(fleet_trial(), hosts(5))
    standing, world = simulated(first)
    events = [decode(encode(event)) for event in world.events]
    again = FleetStanding([first, *events])
    assert again.finished == standing.finished
    assert again.end == standing.end
    assert {wave: over.decision for wave, over in again.waves_over.items()} == {1: "go on", 2: "go on", 3: "go on"}


@pytest.mark.parametrize(
    "line, said",
    [
        ('design = "random"', "invalid enum value 'random'"),
        ("blocks = 5", "fleet: blocks = 5 allows no verdict"),
        ("waves = []", "cannot read waves = []"),
        ('waves = ["110%"]', "cannot read waves = ['110%']"),
        ("at_once = 0", "expected at_once of 1 or more, got 0"),
        ("guard_error = 0.5", "expected guard_error above 0 and at most 0.2, got 0.5"),
        ('patience = "0s"', "expected patience above 0, got '0s'"),
        ('design = "pairs"\nmatch = []', "the design 'pairs' needs facts in `match`"),
        ("kernels = 2", "object contains unknown field `kernels`"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_with_the_file(line: str, said: str) -> None:
    with pytest.raises(BadInput) as raised:
        parse_fleet_trial(f"{TRIAL}{line}\n".encode(), "trial.toml")
    assert said in str(raised.value)
    assert str(raised.value).startswith("trial.toml")


def test_each_machine_makes_all_its_blocks_under_its_own_seed() -> None:
    trial = parse_fleet_trial(TRIAL.encode(), "trial.toml")
    own = trial.for_machine("backlog-1.1", 77, None)
    assert (own.design.cap, own.design.fixed, own.design.pool, own.design.seed) == (7, True, True, 77)
    single = trial.for_machine("backlog-1.2", 78, "big")
    assert list(single.arms) == ["big", "again"]
    assert single.control == "big"

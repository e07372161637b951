# SPDX-License-Identifier: Apache-2.0
"""Kernel arguments, kernels and Kconfig symbols as dimensions of a search in guests."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.kit.errors import BadInput, Contradiction
from ktrial.studies.search.course import SearchCourse, fewest_visits
from ktrial.studies.search.model import ProbeReply, ProbeRequest, Reply, Request, SearchQuestion
from ktrial.studies.search.space import Point, Scalar, Space, parse_space, resolve_space
from ktrial.studies.search.text import search_text, space_text
from ktrial.trial.guests.recipe import KernelChange, KernelRecipe
from ktrial.trial.protocol.file import ArmFile, GuestFile, TrialFile
from tests.support.search import MadeMachine, drive, noise_of, question_of, run_search

BOOTS = """
name = "boots"
[[dimension]]
boot = "mitigations"
values = ["off", "auto"]
[[dimension]]
boot = "threadirqs"
values = [false, true]
when = "boot:mitigations != absent"
[[dimension]]
boot = "skew_tick"
values = [0, 1]
default = 1
[[dimension]]
kernel = ["running", "./build"]
"""
KCONFIG = """
name = "symbols"
constraints = ["kconfig:PREEMPT == true"]
[[dimension]]
kconfig = "PREEMPT"
values = [true, false]
[[dimension]]
kconfig = "NR_CPUS"
values = ["8", 64]
"""
DEFAULTS: dict[str, Scalar] = {"kconfig:PREEMPT": "y", "kconfig:NR_CPUS": 64}


def space_in(text: str) -> Space:
    return resolve_space(parse_space(text.encode(), "space.toml"), DEFAULTS, {})


def in_guests(space: Space, visits: int, guest: GuestFile, **changes: Any) -> SearchQuestion:
    trial = TrialFile(name="test", suite="tool", primary="time", arms={}, guest=guest)
    return question_of(space, visits, trial=trial, **changes)


def test_a_point_is_an_arm_with_its_kernel_and_arguments_and_the_control_has_its_own() -> None:
    space = space_in(BOOTS)
    question = in_guests(space, 100, GuestFile(), kernels={"running": "running", "./build": "/src/build"})
    assert space.control == {
        "boot:mitigations": "absent",
        "boot:threadirqs": "absent",
        "boot:skew_tick": 1,
        "kernel": "running",
    }
    assert question.arm(space.control) == ArmFile(boot=("skew_tick=1",))
    point: Point = {"boot:mitigations": "off", "boot:threadirqs": "given", "boot:skew_tick": 0, "kernel": "./build"}
    assert question.arm(point) == ArmFile(boot=("mitigations=off", "threadirqs", "skew_tick=0"), kernel="/src/build")
    # The condition needs the other argument.
    assert question.arm({"boot:threadirqs": "given"}) == question.arm(space.control)
    text = space_text(question, width=100)
    assert "absent, off, auto" in text
    assert "each visit boots a guest" in text


def test_a_symbol_has_the_value_of_the_configuration_unless_the_point_changes_it() -> None:
    space = space_in(KCONFIG)
    question = in_guests(space, 100, GuestFile(kernel=KernelRecipe(tree="linux")))
    assert space.control == DEFAULTS
    assert [one.values for one in space.dimensions] == [("y", "n"), (8, 64)]
    assert question.arm(space.control).kernel is None
    assert question.arm({"kconfig:NR_CPUS": 8}).kernel == KernelChange(set={"NR_CPUS": 8})
    assert space.problem({"kconfig:PREEMPT": "n"}) == "kconfig:PREEMPT == y does not hold"


@pytest.mark.parametrize(
    "dimension, told",
    [
        ('boot = "quiet"\nlow = 1\nhigh = 2', "boot:quiet: expected a list of values"),
        ('boot = "a b"\nvalues = [true, false]', "'a b' is not the name of a kernel argument"),
        ('boot = "a"\nvalues = ["two words"]', "got 'two words'"),
        ('boot = "a"\nknob = "vm.swappiness"\nvalues = [1]', "needs exactly one of knob"),
        ('kernel = ["6.1"]', "at least two different kernels"),
        ('kernel = ["6.1", "6.1"]', "at least two different kernels"),
        (
            'kernel = ["6.1", "6.12"]\ndefault = "6.1"',
            "expected no values, low, high or default",
        ),
        ('kconfig = "CONFIG-A"\nvalues = [true, false]', "is not the name of a Kconfig symbol"),
        ('kconfig = "A"\nvalues = [1, 2, 3, 4, 5]\n[[dimension]]\nkconfig = "B"\nvalues = [1, 2, 3, 4]', "20 kernels"),
        ('kconfig = "A"\nvalues = [1, 2]\n[[dimension]]\nkernel = ["a", "b"]', "both kernels and Kconfig symbols"),
    ],
)
def test_what_no_boot_can_have_is_refused(dimension: str, told: str) -> None:
    with pytest.raises((BadInput, Contradiction), match=told):
        parse_space(f'name = "x"\n[[dimension]]\n{dimension}\n'.encode(), "space.toml")


class MadeGuests(MadeMachine):
    """Guests that fail with one value, and need two seconds for each try of points."""

    probes = 0

    def reply(self, request: Request) -> Reply:
        if not isinstance(request, ProbeRequest):
            return super().reply(request)
        self.probes += 1
        crashed = tuple(point["boot:bad"] == "given" for point in request.points)
        refused = tuple("its guest ended" if one else None for one in crashed)
        return ProbeReply(refused=refused, clamped=tuple({} for _ in crashed), crashed=crashed, seconds=2.0)


CRASHING = """
name = "crashing"
[[dimension]]
boot = "good"
values = ["1", "2", "3", "4"]
[[dimension]]
boot = "bad"
values = [true, false]
"""


def gain(point: Point) -> float:
    return 0.2 * (point["boot:good"] == "3")


def test_a_search_in_guests_learns_what_does_not_boot_and_counts_the_time_of_its_tries() -> None:
    made = MadeGuests({"time": gain}, noise_of(1, 0.01))
    found, walk = run_search(in_guests(space_in(CRASHING), 90, GuestFile(mode="emulated")), made)
    assert (found.ending, found.winner, found.in_guests) == ("confirmed", {"boot:good": "3"}, True)
    assert [one.text for one in found.crashes] == ["boot:bad = given"]
    assert all(point["boot:bad"] == "absent" for step in made.steps for point in step.points.values())
    assert all(step.file.design.runs_per_visit is None for step in made.steps)
    assert found.seconds == found.runs + 2.0 * made.probes
    assert walk.visit_s == 1.0
    text = search_text(found, width=100)
    assert "boot: ktrial boot try good=3" in text
    assert "measured in guests" in text
    assert "keep:" not in text


def test_tries_use_the_budget() -> None:
    walk = SearchCourse(in_guests(space_in(CRASHING), 60, GuestFile()))
    before = walk.visits_left
    drive(walk._probe_points([{"boot:good": "1", "boot:bad": "absent"}]), MadeGuests({}, noise_of(1, 0.01)))
    assert walk.visits_left == before - 2
    # What would do includes them.
    small, _ = run_search(
        in_guests(space_in(CRASHING), 22, GuestFile(), visit_s=None), MadeGuests({}, noise_of(1, 0.01))
    )
    assert (small.ending, small.needed_s) == ("budget too small", fewest_visits() + small.seconds - small.runs)


def test_an_argument_that_the_winner_lacks_is_removed_by_its_name() -> None:
    space = space_in(BOOTS)
    found, _ = run_search(in_guests(space, 10, GuestFile()), MadeGuests({}, noise_of(1, 0.01)))
    winner = {"boot:skew_tick": "absent", "boot:threadirqs": "given", "kernel": "./build"}
    assert msgspec.structs.replace(found, winner=winner).boot_words == ("-skew_tick", "threadirqs")

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from ktrial.kit.errors import BadInput, Contradiction, Refused
from ktrial.trial.guests.guest_kernels import KernelPlan, as_built, kernel_words, planned_kernels
from ktrial.trial.guests.recipe import KernelChange, KernelRecipe
from ktrial.trial.protocol.file import ArmFile, GuestFile, TrialFile
from ktrial.tuning.plans.model import Plan, Refusal, Why

ARMS = {
    "control": ArmFile(),
    "again": ArmFile(placebo=True),
    "fast": ArmFile(kernel=KernelChange(set={"HZ_1000": "y"})),
    "late": ArmFile(kernel=KernelChange(set={"HZ_1000": "y"}), boot=("nohz=off",)),
    "mine": ArmFile(kernel=KernelChange(patches=("mine.patch",))),
    "named": ArmFile(kernel="6.1"),
}


class FakeWorkshop:
    """Kernels by what is asked for; a symbol NOTHING makes no other one, BROKEN cannot be, and it keeps what it did."""

    def __init__(self, *there: str) -> None:
        self.there = set(there)
        self.done: list[str] = []

    def plan(self, recipe: KernelRecipe) -> KernelPlan:
        if "BROKEN" in recipe.set:
            raise BadInput("BROKEN does not hold", hint="leave it out")
        words = [f"{name}={value}" for name, value in recipe.set.items() if name != "NOTHING"]
        key = " ".join([*recipe.fragments, *words, *recipe.patches])
        self.done.append(f"plan {key}")
        compiled = {"compilers": recipe.cc or "gcc", "LTO": "none"}
        return KernelPlan(recipe, "6.12", key, compiled, f"/{key}" if key in self.there else None)

    def check_room(self, plans: Sequence[KernelPlan]) -> None:
        self.done.append(f"room for {len(plans)}")

    def build(self, plan: KernelPlan) -> str:
        self.done.append(f"build {plan.key}")
        return f"/{plan.key}"


def trial(arms: dict[str, ArmFile], guest: GuestFile | None = None) -> TrialFile:
    usual = GuestFile(kernel=KernelRecipe(tree="linux"))
    return TrialFile(name="t", suite="wakeups-busy", guest=guest or usual, arms=arms)


def test_all_are_looked_at_before_the_first_is_built_and_each_is_built_once() -> None:
    workshop, said = FakeWorkshop("guest"), list[str]()
    assert kernel_words(trial(ARMS), workshop, said.append) == {
        "control": "/guest",
        "again": "/guest",
        "fast": "/guest HZ_1000=y",
        "late": "/guest HZ_1000=y",
        "mine": "/guest mine.patch",
        "named": "6.1",
    }
    last_plan = max(at for at, what in enumerate(workshop.done) if what.startswith("plan"))
    assert workshop.done[last_plan + 1 :] == ["room for 2", "build guest HZ_1000=y", "build guest mine.patch"]
    assert said == ["building the kernel of arm fast, 1 of 2", "building the kernel of arm mine, 2 of 2"]


def test_nothing_is_built_of_a_trial_whose_kernels_are_named() -> None:
    workshop = FakeWorkshop()
    arms = {"control": ArmFile(), "old": ArmFile(kernel="6.1")}
    assert kernel_words(trial(arms, GuestFile(kernel="6.12")), workshop, print) == {"control": "6.12", "old": "6.1"}
    assert workshop.done == ["room for 0"]


@pytest.mark.parametrize(
    "arms, told",
    [
        ({"a": ArmFile(kernel=KernelChange(set={"NOTHING": "y"}))}, "arms control and a ask for different kernels"),
        ({"a": ArmFile(kernel=KernelChange(fragments=("guest",)))}, "arms control and a ask for different kernels"),
        (
            {
                "a": ArmFile(kernel=KernelChange(set={"B": "y"})),
                "b": ArmFile(kernel=KernelChange(set={"B": "y", "NOTHING": "y"})),
            },
            "arms a and b ask for different kernels",
        ),
    ],
)
def test_arms_of_which_one_kernel_comes_contradict(arms: dict[str, ArmFile], told: str) -> None:
    workshop = FakeWorkshop()
    with pytest.raises(Contradiction, match=told):
        kernel_words(trial({"control": ArmFile(), **arms}), workshop, print)
    assert not any(what.startswith("build") for what in workshop.done)


def test_equal_kernels_of_a_question_are_its_own_business() -> None:
    arms = {"control": ArmFile(), "a": ArmFile(kernel=KernelChange(set={"NOTHING": "y"}))}
    part = msgspec.structs.replace(trial(arms), part="search-1")
    assert kernel_words(part, FakeWorkshop(), print) == {"control": "/guest", "a": "/guest"}


def test_what_cannot_be_is_told_with_its_arm_before_anything_is_built() -> None:
    workshop = FakeWorkshop()
    arms = {**ARMS, "bad": ArmFile(kernel=KernelChange(set={"BROKEN": "y"}))}
    with pytest.raises(BadInput) as caught:
        kernel_words(trial(arms), workshop, print)
    assert (caught.value.message, caught.value.hint) == ("arm bad: BROKEN does not hold", "leave it out")
    assert not any(what.startswith("build") for what in workshop.done)


def test_other_compilers_are_refused_for_exact_guests_before_they_compile() -> None:
    arms = {**ARMS, "clang": ArmFile(kernel=KernelChange(cc="clang", set={"X": "y"}))}
    with pytest.raises(
        Refused, match=r"control and clang in exact guests: their kernels will differ in their compilers \(gcc, clang\)"
    ):
        planned_kernels(trial(arms), FakeWorkshop())
    emulated = GuestFile(mode="emulated", kernel=KernelRecipe(tree="linux"))
    assert set(planned_kernels(trial(arms, emulated), FakeWorkshop())) == {*ARMS, "clang"} - {"named"}


def test_a_symbol_that_a_kernel_was_built_with_is_in_force_there() -> None:
    def refused(symbol: str, value: str) -> Refusal:
        return Refusal(f"kconfig:{symbol}", f"kconfig:{symbol}", Why.AT_BUILD, "decided then", value, "profile p")

    refusals = (refused("LRU_GEN", "on"), refused("DAMON", "on"), refused("HZ", "1000"), refused("NUMA", "off"))
    word = Refusal("boot:nohz", "boot:nohz", Why.AT_BOOT, "takes effect later", "off", "profile p")
    plan = Plan(title="p", changes=(), same=(), refusals=(*refusals, word))
    found = as_built(plan, {"LRU_GEN": "y", "DAMON": "m", "HZ": "1000"})
    assert {one.address: one.new_text for one in found.same} == {
        "kconfig:LRU_GEN": "y",
        "kconfig:HZ": "1000",
        "kconfig:NUMA": "n",
    }
    assert all(one.already for one in found.same)
    assert [one.address for one in found.refusals] == ["kconfig:DAMON", "boot:nohz"]
    assert as_built(plan, None) == plan

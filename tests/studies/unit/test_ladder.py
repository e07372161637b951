# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.kit.errors import BadInput, UnknownName
from ktrial.studies.ladder.ladder import (
    BuiltTiers,
    Ladder,
    ladder_of,
    ladder_trial,
    left_out,
    possible,
    surely_run,
    tier_plans,
    with_own_kernels,
)
from ktrial.trial.arms.plan_arms import arm_plans
from ktrial.trial.guests.recipe import KernelChange, KernelRecipe
from ktrial.trial.protocol.file import ArmFile, GuestFile, TrialFile
from ktrial.trial.protocol.protocol import protocol_of
from ktrial.trial.protocol.read import check_trial_file
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.profile import Profile, Tier
from ktrial.tuning.plans.model import Plan
from tests.support.blame import TASKS
from tests.support.knobs import catalog, profile
from tests.support.machine import FakeMachine

FILES = {
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/sys/vm/dirty_ratio": "20\n",
    "/proc/sys/vm/dirty_bytes": "0\n",
}
TEMPLATE = TrialFile(name="ladder", suite="tool", primary="time", arms={})


def tier(name: str, what: str | None = None, build: str | None = None, **more: tuple[str, ...]) -> Tier:
    return Tier(name=name, why="because", profile=what, build=build, **more)


def known(*tiers: Tier, **more: Any) -> Catalog:
    return catalog(
        Profile(name="ladder", summary="", tier=tiers),
        Profile(name="stock", summary="", generated="stock"),
        profile("calm", ("vm.swappiness", 10)),
        profile("eager", ("vm.swappiness", 100), ("vm.dirty_ratio", 5)),
        profile("bytes", ("vm.dirty_bytes", 1 << 20)),
        profile("late", ("boot:nohz_full", "1-3")),
        profile("same", ("vm.swappiness", 10)),
        profile("plain", ("vm.swappiness", 60)),
    )


def planned(ladder: Ladder, using: Catalog) -> dict[str, Plan]:
    return tier_plans(ladder, FakeMachine(FILES, {}), using)


def changes(plan: Plan) -> dict[str, str]:
    return {one.address: one.new_text for one in plan.changes}


def test_each_tier_stands_on_those_before_it_and_the_later_value_wins() -> None:
    using = known(tier("T0", "stock"), tier("T1", "calm"), tier("T2", "eager"), tier("T3", build="x"))
    ladder = ladder_of("ladder", using)
    assert (ladder.control, ladder.baseline) == ("T0", "stock")
    assert ladder.arms == {
        "T0": ArmFile(),
        "T1": ArmFile(profile=("calm",)),
        "T2": ArmFile(profile=("calm", "eager")),
    }
    plans = planned(ladder, using)
    assert changes(plans["T0"]) == {}
    assert changes(plans["T1"]) == {"vm.swappiness": "10"}
    assert changes(plans["T2"]) == {"vm.swappiness": "100", "vm.dirty_ratio": "5"}
    assert possible(ladder, plans) == ladder
    assert ladder.not_run == {"T3": "needs a build: x"}


def test_what_a_later_tier_clears_is_no_contradiction() -> None:
    using = known(tier("T1", "eager"), tier("T2", "bytes"))
    plans = planned(ladder_of("ladder", using), using)
    assert changes(plans["T2"]) == {"vm.swappiness": "100", "vm.dirty_bytes": str(1 << 20)}


def test_without_a_generated_lowest_tier_the_control_is_the_machine_as_it_is_found() -> None:
    ladder = ladder_of("ladder", known(tier("T1", "calm")))
    assert (ladder.control, ladder.baseline, list(ladder.arms)) == ("control", "found", ["control", "T1"])


def test_tiers_that_add_nothing_here_are_listed_with_the_reason() -> None:
    using = known(tier("T1", "late"), tier("T2", "calm"), tier("T3", "same"), tier("T4", "eager"))
    plans = planned(ladder_of("ladder", using), using)
    ladder = possible(ladder_of("ladder", using), plans)
    assert list(ladder.arms) == ["control", "T2", "T4"]
    assert "boot:nohz_full: a boot parameter" in ladder.not_run["T1"]
    assert ladder.not_run["T3"] == "changes nothing here: all its values are in force already"
    assert "boot parameter" in left_out(ladder, plans)["T2"]
    assert "T4" not in left_out(ladder, plans)


def test_the_trial_asks_for_steps_and_for_the_whole_way() -> None:
    using = known(tier("T0", "stock"), tier("T1", "calm"), tier("T2", "eager"))
    ladder = ladder_of("ladder", using)
    file = ladder_trial(ladder, TEMPLATE)
    assert arm_plans(file, FakeMachine(FILES, {}), using)["T2"].changes == planned(ladder, using)["T2"].changes
    check_trial_file(file)
    protocol = protocol_of(file, TASKS, {}, 7, None, 1)
    assert protocol.contrasts == (("T1", "T0"), ("T2", "T0"), ("T2", "T1"))


@pytest.mark.parametrize(
    "tiers, said",
    [
        ((), "ladder has no tiers"),
        ((tier("T0", "stock"), tier("T1", build="x")), r"no tier of ladder can run \(T1: needs a build: x\)"),
    ],
)
def test_what_is_no_ladder_is_said(tiers: tuple[Tier, ...], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        ladder_of("ladder", known(*tiers))


def test_in_guests_tiers_bring_kernels_and_words_for_their_command_lines() -> None:
    using = known(
        tier("T0", "stock"),
        tier("T1", "calm"),
        tier("T2", build="x"),
        tier("T3", boot=("preempt=full",)),
        tier("T4", build="y"),
        tier("T5", "eager"),
    )
    assert ladder_of("ladder", using).not_run == {
        "T2": "needs a build: x",
        "T3": "needs a boot with preempt=full",
        "T4": "needs a build: y",
    }
    ladder = ladder_of("ladder", using, {"T0": "old", "T2": "new", "T5": "newest"})
    assert ladder.arms == {
        "T0": ArmFile(),
        "T1": ArmFile(profile=("calm",)),
        "T2": ArmFile(profile=("calm",), kernel="new"),
        "T3": ArmFile(profile=("calm",), kernel="new", boot=("preempt=full",)),
        "T5": ArmFile(profile=("calm", "eager"), kernel="newest", boot=("preempt=full",)),
    }
    assert ladder.not_run == {"T4": "needs a build: y"}
    assert possible(ladder, planned(ladder, using)) == ladder, "a kernel or a word is a change where no setting is"
    template = msgspec.structs.replace(TEMPLATE, guest=GuestFile(kernel="old"))
    check_trial_file(ladder_trial(ladder, template))


def test_tiers_are_built_on_those_below_them() -> None:
    using = known(
        tier("T0", "stock"),
        tier("T1", "calm", fragments=("arashi-t1",)),
        tier("T2", build="x", fragments=("lto-thin",)),
        tier("T3", build="y", fragments=("arashi-t3b",)),
        tier("T4", boot=("preempt=full",)),
        tier("T5", build="z", fragments=("arashi-t1", "./mine.config")),
        tier("T6", build="nobody says of what"),
    )
    ladder = ladder_of("ladder", using, {}, BuiltTiers({"T3": ("bore.patch", "more.patch")}, exact=True))
    first = KernelChange(fragments=("arashi-t1",))
    third = KernelChange(fragments=("arashi-t1", "arashi-t3b"), patches=("bore.patch", "more.patch"))
    last = msgspec.structs.replace(third, fragments=("arashi-t1", "arashi-t3b", "./mine.config"))
    words = ("preempt=full",)
    assert ladder.arms == {
        "T0": ArmFile(),
        "T1": ArmFile(profile=("calm",), kernel=first),
        "T3": ArmFile(profile=("calm",), kernel=third),
        "T4": ArmFile(profile=("calm",), kernel=third, boot=words),
        "T5": ArmFile(profile=("calm",), kernel=last, boot=words),
    }
    assert ladder.not_run == {
        "T2": "it asks for the compiler clang, and an exact guest cannot show the effect; use --mode emulated or kvm",
        "T6": "needs a build: nobody says of what",
    }
    template = msgspec.structs.replace(TEMPLATE, guest=GuestFile(kernel=KernelRecipe(tree="linux")))
    check_trial_file(ladder_trial(ladder, template))
    emulated = ladder_of("ladder", using, {}, BuiltTiers({}, exact=False))
    assert emulated.arms["T2"].kernel == KernelChange(fragments=("arashi-t1", "lto-thin"))
    assert emulated.not_run["T3"] == ("SCHED_BORE needs BORE, from firelzrd/bore-scheduler; add --patch T3=FILE")


def test_tiers_with_a_kernel_or_a_word_of_their_own_will_surely_run() -> None:
    using = known(
        tier("T0", "stock"), tier("T1", "calm"), tier("T2", build="x"), tier("T3", "eager"), tier("T4", boot=("a=b",))
    )
    assert list(surely_run(ladder_of("ladder", using, {"T2": "new"})).arms) == ["T0", "T2", "T4"]


def test_a_tier_of_which_no_other_kernel_comes_is_not_run_for_it() -> None:
    using = known(
        tier("T0", "stock"), tier("T1", build="x", fragments=("btf",)), tier("T2", build="y", fragments=("hz-250",))
    )
    ladder = ladder_of("ladder", using, {}, BuiltTiers({}, exact=True))
    found = with_own_kernels(ladder, {"T0": "a", "T1": "b", "T2": "b"})
    assert found.arms["T2"].kernel == found.arms["T1"].kernel == KernelChange(fragments=("btf",))
    left_out = possible(found, planned(found, using)).not_run
    assert left_out == {"T2": "changes nothing here: all its values are in force already"}


def test_a_patch_for_no_tier_gets_a_did_you_mean() -> None:
    with pytest.raises(UnknownName, match="T11"):
        ladder_of("ladder", known(tier("T0", "stock"), tier("T1", "calm")), {}, BuiltTiers({"T11": ("a",)}, exact=True))


def test_a_kernel_for_no_tier_gets_a_did_you_mean() -> None:
    with pytest.raises(UnknownName, match="T11"):
        ladder_of("ladder", known(tier("T0", "stock"), tier("T1", build="x")), {"T11": "new"})


@pytest.mark.parametrize("fields", [{}, {"profile": "calm", "build": "x"}, {"build": "x", "boot": ["quiet"]}])
def test_a_tier_is_one_thing(fields: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match="one of profile, build and boot"):
        msgspec.convert({"name": "T", "why": "w", **fields}, Tier)


def test_a_ladder_that_changes_nothing_here_is_refused() -> None:
    using = known(tier("T0", "stock"), tier("T1", "plain"))
    ladder = ladder_of("ladder", using)
    with pytest.raises(BadInput, match="no tier of ladder changes anything"):
        possible(ladder, planned(ladder, using))


def test_an_unknown_ladder_gets_a_did_you_mean() -> None:
    with pytest.raises(UnknownName, match="arash"):
        ladder_of("arash", load_catalog())


def test_every_ladder_of_the_catalog_can_be_asked_for() -> None:
    using = load_catalog()
    names = [one.name for one in using.profiles.values() if one.tier]
    assert "arashi" in names
    for name in names:
        assert len(ladder_of(name, using).arms) >= 2
    assert list(ladder_of("arashi", using).arms) == ["T0", "T1", "T3a"]
    assert set(ladder_of("arashi", using).not_run) == {"T2a", "T3b"}
    assert list(ladder_of("arashi", using, {}, BuiltTiers({}, exact=True)).arms) == ["T0", "T1", "T3a"]
    every = ladder_of("arashi", using, {}, BuiltTiers({"T3b": ("bore.patch",)}, exact=False))
    assert (list(every.arms), every.not_run) == (["T0", "T1", "T2a", "T3a", "T3b"], {})

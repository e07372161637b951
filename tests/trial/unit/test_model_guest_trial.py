# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.kit.errors import BadInput
from ktrial.trial.arms.manual import is_by_hand
from ktrial.trial.guests.model import kernel_of, perturbation, place_of, shape_of
from ktrial.trial.guests.recipe import KernelChange, KernelRecipe
from ktrial.trial.protocol.file import ArmFile, DesignFile, GuestFile, TrialFile, trial_text
from ktrial.trial.protocol.read import check_trial_file, parse_trial_file

GUEST = GuestFile(kernel="6.12", boot=("preempt=full",), workloads=3)
ARMS = {"control": ArmFile(), "old": ArmFile(kernel="6.1", boot=("nohz=off",)), "again": ArmFile(placebo=True)}
TRIAL = TrialFile(name="t", suite="wakeups-busy", guest=GUEST, arms=ARMS)

RECIPE = GuestFile(kernel=KernelRecipe(tree="linux.tar.xz", config="defconfig", set={"PREEMPT": "y"}, cc="gcc-12"))
BUILT = {"control": ArmFile(), "a": ArmFile(kernel=KernelChange(fragments=("hz-1000",), set={"PREEMPT": "n"}))}


def changed(**more: Any) -> TrialFile:
    return msgspec.structs.replace(TRIAL, **more)


def test_a_protocol_with_guests_is_read_as_it_is_written() -> None:
    check_trial_file(TRIAL)
    text = trial_text(TRIAL)
    assert '[guest]\nkernel = "6.12"\nboot = ["preempt=full"]\nworkloads = 3' in text
    assert parse_trial_file(text.encode(), "t.toml") == TRIAL
    assert not is_by_hand(changed(design=DesignFile(replicate="boot")))


def test_a_protocol_without_guests_has_the_hash_that_it_had() -> None:
    from ktrial.trial.record import _without_empty

    plain = msgspec.to_builtins(TrialFile(name="t", suite="s", arms={"a": ArmFile(), "b": ArmFile(placebo=True)}))
    assert "guest" not in _without_empty(plain)
    assert not {"kernel", "boot"} & set(_without_empty(plain)["arms"].get("b", {}))


def test_an_arm_has_its_kernel_and_all_words() -> None:
    place = place_of(TRIAL, ARMS["old"], "6.1", disk=True, limit_s=5.0)
    assert kernel_of(TRIAL, ARMS["old"]) == "6.1"
    assert (place.kernel, place.shape.append, place.disk) == ("6.1", ("preempt=full", "nohz=off"), True)
    assert kernel_of(TRIAL, ARMS["control"]) == "6.12"
    assert (place.shape.cpus, place.shape.memory_bytes) == (1, 512 << 20)
    assert shape_of(GuestFile(mode="emulated")).cpus == 2


def test_an_arm_stands_on_what_all_are_built_of() -> None:
    more = KernelChange(fragments=("guest", "btf"), set={"HZ": 100}, patches=("a.patch",), cc="clang", optimise=3)
    arms = {**BUILT, "b": ArmFile(kernel=more), "c": ArmFile(kernel="6.1"), "d": ArmFile(kernel=KernelChange(tree="l"))}
    trial = changed(guest=RECIPE, arms=arms)
    check_trial_file(trial)
    found = {name: kernel_of(trial, arm) for name, arm in arms.items()}
    base = RECIPE.kernel
    assert isinstance(base, KernelRecipe)
    assert found["control"] == base
    assert found["a"] == msgspec.structs.replace(base, fragments=("guest", "hz-1000"), set={"PREEMPT": "n"})
    assert found["b"] == KernelRecipe(
        tree="linux.tar.xz",
        config="defconfig",
        fragments=("guest", "btf"),
        set={"PREEMPT": "y", "HZ": 100},
        patches=("a.patch",),
        cc="clang",
        optimise=3,
    )
    assert found["c"] == "6.1"
    assert found["d"] == msgspec.structs.replace(base, tree="l")
    assert kernel_of(changed(guest=GUEST), arms["d"]) == KernelRecipe(tree="l")


def test_what_kernels_are_built_of_is_read_as_it_is_written() -> None:
    trial = changed(guest=RECIPE, arms=BUILT)
    text = trial_text(trial)
    assert 'kernel = { fragments = ["hz-1000"], set = { PREEMPT = "n" } }' in text
    assert parse_trial_file(text.encode(), "t.toml") == trial
    tables = text.replace('kernel = { fragments = ["hz-1000"]', '[arms.a.kernel]\nfragments = ["hz-1000"]')
    assert parse_trial_file(tables.replace(', set = { PREEMPT = "n" } }', '\nset.PREEMPT = "n"').encode(), "t") == trial


def test_every_visit_has_a_word_of_its_own_of_the_same_length() -> None:
    words = {perturbation(seed, block, arm) for seed in (1, 2) for block in (1, 2) for arm in ("a", "b")}
    assert len(words) == 8
    assert len({len(word) for word in words}) == 1
    assert perturbation(1, 1, "a") in words


@pytest.mark.parametrize(
    "more, told",
    [
        ({"arms": BUILT}, "nothing names its sources"),
        (
            {"guest": GuestFile(kernel=KernelRecipe(tree="linux", set={"A B": "y"}))},
            "[guest]: --set A B=y: expected SYMBOL=VALUE",
        ),
        (
            {"guest": RECIPE, "arms": {**BUILT, "b": ArmFile(kernel=KernelChange(patches=("http://x",)))}},
            "arm b: --pat",
        ),
        ({"guest": GuestFile(cpus=2)}, "an exact guest has one CPU"),
        ({"guest": GuestFile(memory="1")}, "a guest needs at least 64 MiB"),
        ({"guest": GuestFile(memory="much")}, "memory = 'much'"),
        ({"guest": GuestFile(workloads=0)}, "workloads: expected 1 to"),
        ({"guest": GuestFile(boot=("a b",))}, "'a b' is not a kernel argument"),
        ({"guest": GuestFile(boot=("ktrial.visit=1",))}, "'ktrial.visit=1' is not a kernel argument"),
        ({"design": DesignFile(replicate="build")}, "cannot combine [guest] with replicate"),
        ({"design": DesignFile(runs_per_visit=2)}, "cannot combine [guest] with runs_per_visit"),
        ({"design": DesignFile(time="1h")}, "a trial in guests cannot have `time`"),
        ({"gates": {"steal": "2%"}}, "a trial in guests cannot have `gates`"),
        ({"cpus": "0"}, "a trial in guests cannot have `cpus`"),
        (
            {"arms": {**ARMS, "env": ArmFile(environment={"A": "1"})}},
            "arm env: an arm in a guest cannot have `environment`",
        ),
        ({"arms": {**ARMS, "hand": ArmFile(manual="boot")}}, "arm hand: an arm in a guest cannot have `manual`"),
    ],
)
def test_what_guests_do_not_do_is_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_trial_file(changed(**more))
    assert told in caught.value.message

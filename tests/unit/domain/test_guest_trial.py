# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.domain.errors import BadInput
from ktrial.domain.guest_trial import perturbation, place_of, shape_of
from ktrial.domain.manual_arm import is_by_hand
from ktrial.domain.trial_file import (
    ArmFile,
    DesignFile,
    GuestFile,
    TrialFile,
    check_trial_file,
    parse_trial_file,
    trial_text,
)

GUEST = GuestFile(kernel="6.12", boot=("preempt=full",), workloads=3)
ARMS = {"control": ArmFile(), "old": ArmFile(kernel="6.1", boot=("nohz=off",)), "again": ArmFile(placebo=True)}
TRIAL = TrialFile(name="t", suite="wakeups-busy", guest=GUEST, arms=ARMS)


def changed(**more: Any) -> TrialFile:
    return msgspec.structs.replace(TRIAL, **more)


def test_a_protocol_with_guests_is_read_as_it_is_written() -> None:
    check_trial_file(TRIAL)
    text = trial_text(TRIAL)
    assert '[guest]\nkernel = "6.12"\nboot = ["preempt=full"]\nworkloads = 3' in text
    assert parse_trial_file(text.encode(), "t.toml") == TRIAL
    assert not is_by_hand(changed(design=DesignFile(replicate="boot")))


def test_a_protocol_without_guests_has_the_hash_that_it_had() -> None:
    from ktrial.domain.stored_trial import _said

    plain = msgspec.to_builtins(TrialFile(name="t", suite="s", arms={"a": ArmFile(), "b": ArmFile(placebo=True)}))
    assert "guest" not in _said(plain)
    assert not {"kernel", "boot"} & set(_said(plain)["arms"].get("b", {}))


def test_an_arm_has_its_kernel_and_all_words() -> None:
    place = place_of(TRIAL, ARMS["old"], disk=True, limit_s=5.0)
    assert (place.kernel, place.shape.append, place.disk) == ("6.1", ("preempt=full", "nohz=off"), True)
    assert place_of(TRIAL, ARMS["control"], disk=False, limit_s=5.0).kernel == "6.12"
    assert (place.shape.cpus, place.shape.memory_bytes) == (1, 512 << 20)
    assert shape_of(GuestFile(mode="emulated")).cpus == 2


def test_every_visit_has_a_word_of_its_own_of_the_same_length() -> None:
    words = {perturbation(seed, block, arm) for seed in (1, 2) for block in (1, 2) for arm in ("a", "b")}
    assert len(words) == 8
    assert len({len(word) for word in words}) == 1
    assert perturbation(1, 1, "a") in words


@pytest.mark.parametrize(
    "more, told",
    [
        ({"guest": None}, "arm old: kernel is for trials in guests"),
        ({"guest": GuestFile(cpus=2)}, "an exact guest has one CPU"),
        ({"guest": GuestFile(memory="1")}, "a guest needs 64 MiB or more"),
        ({"guest": GuestFile(memory="much")}, "memory = 'much'"),
        ({"guest": GuestFile(workloads=0)}, "workloads = 0"),
        ({"guest": GuestFile(boot=("a b",))}, "'a b' is no word"),
        ({"guest": GuestFile(boot=("ktrial.visit=1",))}, "'ktrial.visit=1' is no word"),
        ({"design": DesignFile(replicate="build")}, "every visit is a boot"),
        ({"design": DesignFile(runs_per_visit=2)}, "every visit is a boot"),
        ({"design": DesignFile(time="1h")}, "time is for trials on a machine"),
        ({"gates": {"steal": "2%"}}, "gates is for trials on a machine"),
        ({"cpus": "0"}, "cpus is for trials on a machine"),
        ({"arms": {**ARMS, "env": ArmFile(environment={"A": "1"})}}, "arm env: environment is for trials on a machine"),
        ({"arms": {**ARMS, "hand": ArmFile(manual="boot")}}, "arm hand: manual is for trials on a machine"),
    ],
)
def test_what_guests_do_not_do_is_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_trial_file(changed(**more))
    assert told in caught.value.message

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.kit.errors import BadInput, Contradiction
from ktrial.tuning.plans.model import Plan, Why
from ktrial.tuning.plans.resolve import make_plan
from tests.support.knobs import catalog, knob
from tests.support.machine import FakeMachine

SIZE = knob(
    "zram:disksize",
    kind="zram",
    places=["/sys/block/{zram}/disksize"],
    value={"type": "int", "min": 0, "unit": "bytes"},
)
ALGORITHM = knob(
    "zram:comp_algorithm",
    kind="zram",
    places=["/sys/block/{zram}/comp_algorithm"],
    value={"type": "choice", "choices": ["lzo", "lz4", "zstd"]},
)
LIMIT = knob(
    "zram:mem_limit",
    kind="zram",
    places=["/sys/block/{zram}/mem_limit"],
    value={"type": "int", "min": 0, "unit": "bytes"},
)
KNOBS = {entry.id: entry for entry in (SIZE, ALGORITHM, LIMIT)}
HERE = {"/sys/block/zram0/disksize": "0\n", "/sys/block/zram0/comp_algorithm": "[lzo] lz4\n"}
FACTS: dict[str, Any] = {"zram.devices": [{"name": "zram0", "size_bytes": 0, "algorithm": "lzo"}]}


def plan(*words: str, files: dict[str, str] | None = None, facts: dict[str, Any] | None = None) -> Plan:
    using = msgspec.structs.replace(catalog(), knobs=KNOBS)
    here = HERE if files is None else files
    return make_plan(FakeMachine(here, {**FACTS, **(facts or {})} if here is HERE else {}), using, words)[0]


def test_size_and_algorithm_are_one_step() -> None:
    step = plan("zram:disksize=64MiB", "zram:comp_algorithm=lz4").zram
    assert step is not None
    assert (step.device, step.size_bytes, step.algorithm, step.priority) == ("zram0", 64 * 2**20, "lz4", 100)


def test_a_device_is_made_where_there_is_none() -> None:
    step = plan("zram:disksize=64MiB", files={"/sys/class/zram-control/hot_add": ""}).zram
    assert step is not None
    assert step.device is None


def test_without_zram_all_is_refused() -> None:
    (refusal,) = plan("zram:disksize=64MiB", files={}).refusals
    assert (refusal.kind, refusal.hint) == (Why.ABSENT, "run `modprobe zram`")


@pytest.mark.parametrize("memory, size", [(2 * 2**30, 2**30), (96 * 2**30, 4 * 2**30)])
def test_a_device_without_a_size_gets_the_usual_one(memory: int, size: int) -> None:
    step = plan("zram:comp_algorithm=lz4", facts={"memory.total": memory}).zram
    assert step is not None
    assert (step.size_bytes, step.algorithm, step.usual_size) == (size, "lz4", True)


def test_an_algorithm_that_the_kernel_does_not_have_is_refused_with_those_that_it_has() -> None:
    resolved = plan("zram:disksize=64MiB", "zram:comp_algorithm=zstd")
    assert resolved.zram is None
    assert [(one.kind, one.hint) for one in resolved.refusals] == [(Why.NOT_OFFERED, "use one of: lzo, lz4")]


def test_a_size_is_needed_where_the_memory_is_not_known() -> None:
    with pytest.raises(BadInput, match="cannot choose the size of the zram device"):
        plan("zram:comp_algorithm=lz4")


def test_a_device_that_is_not_here() -> None:
    resolved = plan("zram:disksize@zram7=1GiB")
    assert resolved.zram is None
    assert [(refusal.kind, refusal.hint) for refusal in resolved.refusals] == [(Why.NO_INSTANCE, "use one of: zram0")]


def test_what_the_step_cannot_set_is_refused_not_dropped() -> None:
    resolved = plan("zram:disksize=64MiB", "zram:mem_limit=32MiB")
    assert resolved.zram is not None
    assert [refusal.knob for refusal in resolved.refusals] == ["zram:mem_limit"]


@pytest.mark.parametrize(
    "words",
    [
        ("zram:disksize=64MiB", "zram:disksize=32MiB"),
        ("zram:disksize@zram0=64MiB", "zram:disksize@zram1=64MiB"),
        ("zram:disksize@zram0=64MiB", "zram:comp_algorithm@zram1=lz4"),
    ],
)
def test_two_devices_or_two_sizes_contradict(words: tuple[str, ...]) -> None:
    with pytest.raises(Contradiction, match="only one zram device, in one way"):
        plan(*words)

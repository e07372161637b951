# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.kit.errors import UnknownName
from ktrial.machine.reading import Reading
from ktrial.tuning.knobs.explain import explain
from ktrial.tuning.knobs.knob import Knob
from tests.support.knobs import KINDS, LATENCY, NOHZ, SCHEDULER, SWAPPINESS
from tests.support.knobs import knob as made
from tests.support.machine import FakeMachine

FILES: dict[str, str | Reading] = {
    "/proc/sys/vm/swappiness": "60\n",
    "/sys/block/nvme0n1/queue/scheduler": "[none] kyber\n",
    "/sys/block/sda/queue/scheduler": "none [mq-deadline]\n",
}
FACTS = {"block.devices": [{"name": "nvme0n1", "rotational": False}, {"name": "sda", "rotational": True}]}
MACHINE = FakeMachine(FILES, FACTS)


def test_state_and_default() -> None:
    answer = explain(MACHINE, SWAPPINESS, KINDS)
    assert (answer.values, answer.default) == ({"": "60"}, 60)


def test_all_instances_or_those_that_are_meant() -> None:
    assert set(explain(MACHINE, SCHEDULER, KINDS).values) == {"nvme0n1", "sda"}
    assert explain(MACHINE, SCHEDULER, KINDS, "sd*").values == {"sda": "none [mq-deadline]"}
    assert set(explain(MACHINE, SCHEDULER, KINDS, "[rotational=false]").values) == {"nvme0n1"}


def test_a_control_group_within_others_is_looked_up() -> None:
    place = "/sys/fs/cgroup/{slice}/memory.high"
    high = made("cgroup:memory.high", kind="sysfs", places=[place], value={"type": "text"})
    files = {place.replace("{slice}", group): f"{group}\n" for group in ("a.slice", "a.slice/b.scope")}
    assert explain(FakeMachine(files), high, KINDS, "a.slice/b.scope").values == {"a.slice/b.scope": "a.slice/b.scope"}
    assert set(explain(FakeMachine(files), high, KINDS).values) == {"a.slice"}


@pytest.mark.parametrize("knob", [SCHEDULER, SWAPPINESS, NOHZ, LATENCY])
def test_an_instance_that_is_not_here(knob: Knob) -> None:
    with pytest.raises(UnknownName, match="'sdz'"):
        explain(MACHINE, knob, KINDS, "sdz")


def test_a_field_that_no_device_has() -> None:
    with pytest.raises(UnknownName) as caught:
        explain(MACHINE, SCHEDULER, KINDS, "[rotationl=true]")
    assert caught.value.nearest == ("rotational",)


def test_a_knob_without_a_file_is_explained_from_the_catalog() -> None:
    answer = explain(MACHINE, NOHZ, KINDS)
    assert (answer.state, answer.values) == (None, {})


def test_a_knob_that_is_not_here_has_a_state_without_instances() -> None:
    answer = explain(MACHINE, LATENCY, KINDS)
    assert answer.state is not None
    assert answer.values == {}

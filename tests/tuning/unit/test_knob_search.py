# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.reading import KnobState
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.knobs.find import absence

KNOBS = load_catalog().knobs
HIDDEN = "debugfs is not mounted: mount it with `mount -t debugfs none /sys/kernel/debug`"


def told(name: str, release: str, blocked: str | None = HIDDEN) -> str:
    facts = FactBook({"kernel.release": Fact(value=release)})
    return absence(KNOBS[name], KnobState(knob=name, blocked=blocked), facts)


@pytest.mark.parametrize("name", ["sched:latency_ns", "sched:min_granularity_ns", "sched:wakeup_granularity_ns"])
@pytest.mark.parametrize("release", ["6.6.0", "6.18.5-arch1-1", "7.0.0"])
def test_what_left_the_kernel_is_said_and_nothing_to_mount_for_it(name: str, release: str) -> None:
    assert told(name, release) == f"not on this kernel. {KNOBS[name].gone}"


@pytest.mark.parametrize("release", ["5.15.0-91-generic", "6.5.13"])
def test_on_a_kernel_that_still_has_it_the_way_to_see_it_is_said(release: str) -> None:
    assert told("sched:latency_ns", release) == HIDDEN


def test_what_no_kernel_has_left_behind_is_looked_for() -> None:
    assert told("sched:base_slice_ns", "6.12.0") == HIDDEN


def test_what_mainline_never_had_is_said_on_any_kernel() -> None:
    never = next(one for one in KNOBS.values() if (one.gone or "").startswith("Never in mainline"))
    assert told(never.id, "5.10.0") == f"not on this kernel. {never.gone}"

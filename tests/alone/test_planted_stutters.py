# SPDX-License-Identifier: Apache-2.0
"""Causes planted on this machine are named, each alone; at other times, or where there is none, nothing is.

All but the one that waits for its CPU run ahead of other programs: a busy machine plants nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ktrial.recordings.model import Recording
from tests.support.planted_stutters import (
    SECONDS,
    beside,
    diagnosed,
    file_system,
    loop,
    memory_group,
    named,
    shuffled,
    slow_to_write,
    told,
    watched,
)

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="tracing, loop devices and control groups need root"),
    pytest.mark.xdist_group("watch"),
    pytest.mark.timeout(180),
]
_LONG = str(SECONDS + 20)
#: Of ten shuffles at 5 % each, four or more are a chance of 0.1 %.
_SHUFFLES, _MOST_NAMED = 10, 3


def sleeps(folder: Path, undo: ExitStack) -> Recording:
    """A program that now and then sleeps for longer."""
    return watched(folder, "sleeps")


def higher_priority(folder: Path, undo: ExitStack) -> Recording:
    """Another program at real-time priority takes its CPU."""
    undo.enter_context(beside("spin", _LONG, "0"))
    return watched(folder, "cpu", "0")


def slow_device(folder: Path, undo: ExitStack) -> Recording:
    """A loop device over a file whose file system stops now and then."""
    place, _ = undo.enter_context(file_system(folder / "m", 64))
    image = place / "slow.img"
    image.write_bytes(bytes(16 << 20))
    device = undo.enter_context(loop(image))
    undo.enter_context(beside("freeze", _LONG, str(place)))
    return watched(folder, "device", device)


def memory_limit(folder: Path, undo: ExitStack) -> Recording:
    """A control group with little memory, and a neighbour in it that uses a mapped file in bursts."""
    place, _ = undo.enter_context(file_system(folder / "m", 400))
    group = undo.enter_context(memory_group(64))
    undo.enter_context(beside("touch", _LONG, str(place / "much"), "300", "1", group=group))
    return watched(folder, "memory", "28", "0", group=group)


def dirty_pages(folder: Path, undo: ExitStack) -> Recording:
    """A neighbour that now and then writes more than may wait for a slow device."""
    place, device = undo.enter_context(file_system(folder / "m", 200))
    undo.enter_context(slow_to_write(device, 16 << 20, 4 << 20))
    undo.enter_context(beside("write", _LONG, str(place / "much"), "8"))
    return watched(folder, "file", str(place / "log"))


class Planted(NamedTuple):
    """What must be named, and what counts as late where not the usual."""

    cause: str | None
    limit_s: float | None = None


PLANTED: dict[Callable[[Path, ExitStack], Recording], Planted] = {
    sleeps: Planted(None),
    higher_priority: Planted("scheduler-delay"),
    slow_device: Planted("device-latency"),
    dirty_pages: Planted("dirty-throttling"),
    memory_limit: Planted("memcg-limit", 0.026),
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any], Recording]:
    """Each is recorded once."""

    @cache
    def record(plant: Callable[[Path, ExitStack], Recording]) -> Recording:
        with ExitStack() as undo:
            return plant(tmp_path_factory.mktemp(plant.__name__), undo)

    return record


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_cause_is_named_alone(
    plant: Callable[[Path, ExitStack], Recording], recorded: Callable[[Any], Recording]
) -> None:
    wanted, limit_s = PLANTED[plant]
    found = diagnosed(recorded(plant), limit_s)
    assert found.stutters >= 5, told(found)
    assert named(found) == ([] if wanted is None else [wanted]), told(found)
    if wanted is not None:
        (cause,) = found.named
        assert cause.overlapping >= 0.7 * found.stutters, told(found)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_the_same_events_at_other_times_name_nothing(
    plant: Callable[[Path, ExitStack], Recording], recorded: Callable[[Any], Recording]
) -> None:
    limit_s = PLANTED[plant].limit_s
    found = [named(diagnosed(shuffled(recorded(plant), seed), limit_s)) for seed in range(_SHUFFLES)]
    assert sum(map(bool, found)) <= _MOST_NAMED, found


def test_who_grows_before_stutters_is_told_and_who_always_grows_is_not(tmp_path: Path) -> None:
    seconds = "70"
    with ExitStack() as undo:
        place, _ = undo.enter_context(file_system(tmp_path / "m", 200))
        hog = undo.enter_context(beside("hog", seconds, "0", str(place / "much"), "80"))
        grows = undo.enter_context(beside("grow", seconds, "2"))
        recording = watched(tmp_path, "cpu", "0", seconds=70)
    found = diagnosed(recording)
    assert named(found) == ["scheduler-delay"], told(found)
    grew = {(one.name.rpartition(" ")[2], one.what): one.before_bytes for one in found.aggressors}
    assert grew[f"({hog.pid})", "memory"] > 50 << 20, found.aggressors
    assert grew[f"({hog.pid})", "I/O"] > 50 << 20, found.aggressors
    assert max(found.aggressors, key=lambda one: one.before_bytes).name.endswith(f"({hog.pid})")
    assert not [who for who, _ in grew if who == f"({grows.pid})"], found.aggressors

# SPDX-License-Identifier: Apache-2.0
"""What is told of a watch that has ended."""

from __future__ import annotations

from array import array

import msgspec

from ktrial.recordings.model import Series
from ktrial.watch.record.watch import crowded_disk
from tests.support.recordings import recording


def written(disk: str, *values: float) -> Series:
    times_s = array("d", (float(at) for at in range(len(values))))
    name, source = f"disks.{disk}.written", "disks"
    return Series(name=name, source=source, kind="counter", unit="B", times_s=times_s, values=array("d", values))


def told(disk: str | None, *series: Series) -> list[str]:
    made = recording(1, None)
    source = msgspec.structs.replace(made.sources[0], name="disks")
    made = msgspec.structs.replace(
        made, sources=(*made.sources, source), series={**made.series, **{one.name: one for one in series}}
    )
    return [finding.sentence for finding in crowded_disk(made, disk, 2048)]


def test_a_recording_on_a_watched_disk_says_so_where_there_is_another_one() -> None:
    both = (written("sda", 0.0, 4096.0, 1024.0, 5120.0), written("sdb", 0.0, 0.0, 0.0, 0.0))
    (sentence,) = told("sda", *both)
    assert "is on sda" in sentence
    assert "2 KiB of the 8 KiB written to that disk" in sentence, "a counter that fell has started again"
    assert told("sdc", *both) == told(None, *both) == []


def test_where_there_is_no_choice_nothing_is_said() -> None:
    assert told("vda", written("vda", 0.0, 9.0), written("loop0", 0.0, 9.0), written("dm-0", 0.0, 9.0)) == []

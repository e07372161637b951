# SPDX-License-Identifier: Apache-2.0
"""Files of one recording, put together."""

from __future__ import annotations

from array import array

from ktrial.recordings.merge import together
from ktrial.recordings.model import Frames, GroupLimits, Recording, Source


def test_what_was_watched_and_its_groups_stay_known_beside_the_frames() -> None:
    group = GroupLimits(path="/game.scope", memory_max="max")
    watched = Recording(name="a", begin_s=0, end_s=9, unix_at_zero_s=1e9, command=("/opt/game", "x"), groups=(group,))
    frames = Frames(kind="frame", source="log", ends_s=array("d", [1, 2]), durations_s=array("d", [1, 1]))
    told = Recording(
        name="b", begin_s=0, end_s=9, unix_at_zero_s=1e9, frames=frames, sources=(Source(name="log", state="active"),)
    )
    for parts in ([watched, told], [told, watched]):
        whole = together("whole", parts)
        assert (whole.command, whole.groups) == (("/opt/game", "x"), (group,))
        assert whole.frames is not None

# SPDX-License-Identifier: Apache-2.0
"""The part of `wiring` that is about programs which log their frames."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ktrial.bench.run.foreground import AttachedLauncher, Captures, FreshLog
    from ktrial.bench.run.place import MeasuringPlace


class FrameLogs:
    """What `ktrial frames` uses; what it opens is added to `opened`, and closed when the command ends."""

    def __init__(self, place: MeasuringPlace, opened: list[Closes]) -> None:
        self._place = place
        self._opened = opened

    def captures(self, others: Sequence[Path]) -> Captures:
        """A fresh folder for logs of frames; of `others` only what is new counts."""
        from ktrial.bench.run.foreground import Captures

        captures = Captures(self._place.work, others)
        self._opened.append(captures)
        return captures

    @cached_property
    def launcher(self) -> AttachedLauncher:
        """Runs a program of the user's where the user stands."""
        from ktrial.bench.run.foreground import AttachedLauncher

        return AttachedLauncher()

    @staticmethod
    def fresh(path: Path) -> FreshLog:
        """A log that a program is about to write anew."""
        from ktrial.bench.run.foreground import FreshLog

        return FreshLog(path)


class Closes(Protocol):
    """What is closed when the command ends."""

    def close(self) -> None:
        """Give back what it holds."""

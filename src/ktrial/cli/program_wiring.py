# SPDX-License-Identifier: Apache-2.0
"""The part of `wiring` that is about other programs: those that log frames, tools of benchmarks, the user's desktop."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ktrial.bench.around.session_bus import SessionDesktop
    from ktrial.bench.run.container import Runtimes
    from ktrial.bench.run.foreground import AttachedLauncher, Captures, FreshLog
    from ktrial.bench.run.place import MeasuringPlace
    from ktrial.bench.tools.toolbox import UserToolbox
    from ktrial.bench.tools.workshop import Workshop


class Tools:
    """Where programs that measure come from when the machine has them not."""

    @cached_property
    def runtimes(self) -> Runtimes:
        from ktrial.bench.run.container import Runtimes

        return Runtimes()

    @cached_property
    def box(self) -> UserToolbox:
        from ktrial.agent.user_folders import tools_folder
        from ktrial.bench.tools.toolbox import UserToolbox

        return UserToolbox(tools_folder())

    @cached_property
    def workshop(self) -> Workshop:
        from ktrial.agent.user_folders import tools_work_folder
        from ktrial.bench.tools.workshop import Workshop

        return Workshop(tools_work_folder())


class WithDesktop:
    """What `App` has of the desktop."""

    @cached_property
    def desktop(self) -> SessionDesktop | None:
        from ktrial.bench.around.session_bus import session_desktop

        return session_desktop(os.environ)


class FrameLogs:
    """What `ktrial frames` uses; what it opens is added to `opened`, and closed when the command ends."""

    def __init__(self, place: MeasuringPlace, opened: list[Closes]) -> None:
        self._place = place
        self._opened = opened

    def captures(self, others: Sequence[Path]) -> Captures:
        """Return a fresh folder for logs of frames; of `others` only what is new counts."""
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
        """Return a log that a program is about to write anew."""
        from ktrial.bench.run.foreground import FreshLog

        return FreshLog(path)


class Closes(Protocol):
    """What is closed when the command ends."""

    def close(self) -> None: ...

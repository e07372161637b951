# SPDX-License-Identifier: Apache-2.0
"""The part of `wiring` that is about the tools of benchmarks."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrial.bench.run.container import Runtimes
    from ktrial.bench.tools.toolbox import UserToolbox
    from ktrial.bench.tools.workshop import Workshop


class Tools:
    """Where programs that measure come from when the machine has them not."""

    @cached_property
    def runtimes(self) -> Runtimes:
        """The container runtimes of this machine."""
        from ktrial.bench.run.container import Runtimes

        return Runtimes()

    @cached_property
    def box(self) -> UserToolbox:
        """The tools that were built for this user."""
        from ktrial.agent.user_folders import tools_folder
        from ktrial.bench.tools.toolbox import UserToolbox

        return UserToolbox(tools_folder())

    @cached_property
    def workshop(self) -> Workshop:
        """Where tools are built; not entered yet."""
        from ktrial.agent.user_folders import tools_work_folder
        from ktrial.bench.tools.workshop import Workshop

        return Workshop(tools_work_folder())

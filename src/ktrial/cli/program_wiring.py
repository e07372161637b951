# SPDX-License-Identifier: Apache-2.0
"""Creates the adapters for benchmark tools."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from ktrial.agent.user_folders import tools_folder, tools_work_folder

if TYPE_CHECKING:
    from ktrial.bench.run.container import Runtimes
    from ktrial.bench.tools.toolbox import UserToolbox
    from ktrial.bench.tools.workshop import Workshop


class Tools:
    """Where benchmark programs come from if the machine lacks them."""

    @cached_property
    def runtimes(self) -> Runtimes:
        from ktrial.bench.run.container import Runtimes

        return Runtimes()

    @cached_property
    def box(self) -> UserToolbox:
        from ktrial.bench.tools.toolbox import UserToolbox

        return UserToolbox(tools_folder())

    @cached_property
    def workshop(self) -> Workshop:
        from ktrial.bench.tools.workshop import Workshop

        return Workshop(tools_work_folder())


class Closes(Protocol):
    """Something that the command closes when it ends."""

    def close(self) -> None: ...

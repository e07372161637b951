# SPDX-License-Identifier: Apache-2.0
"""The adapters of kernels and guests, a part of `wiring.App`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrial.kernels.guest import Guests
    from ktrial.kernels.images import Images


class KernelAdapters:
    """Kernels of this machine, and guests that run them."""

    @cached_property
    def images(self) -> Images:
        """The kernels of this machine."""
        from ktrial.kernels.images import Images

        return Images()

    @cached_property
    def guests(self) -> Guests:
        """Guests with the agent as their first process."""
        from ktrial.host.find_agent import find_agent
        from ktrial.kernels.emulator import Emulator
        from ktrial.kernels.guest import Guests

        return Guests(Emulator(), find_agent())

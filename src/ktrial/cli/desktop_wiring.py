# SPDX-License-Identifier: Apache-2.0
"""Builds what talks to the user's desktop."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrial.bench.around.session_bus import SessionDesktop


class WithDesktop:
    """What `App` has of the desktop."""

    @cached_property
    def desktop(self) -> SessionDesktop | None:
        """The user's; None where no session bus leads to one."""
        from ktrial.bench.around.session_bus import session_desktop

        return session_desktop(os.environ)

# SPDX-License-Identifier: Apache-2.0
"""Where a command works: on this machine, or in a guest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ktrial.cli.app_guest import GuestHost
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from ktrial.cli.app_kernels import Kernels


def host_of(word: str, kernels: Callable[[], Kernels], say: Callable[[str], None]) -> GuestHost:
    """The host that a word names. Raises BadInput."""
    from ktrial.cli.exact_host import ExactHost

    for kind in (GuestHost, ExactHost):
        if word.startswith(kind.prefix) and word != kind.prefix:
            return kind(word, kernels, say)
    raise BadInput(
        f"--host {word}: no host that ktrial reaches",
        hint="--host guest:KERNEL boots one, exact:KERNEL one whose time is exact; --host guest:NAME is one that "
        "`ktrial kernel boot --keep` keeps",
    )

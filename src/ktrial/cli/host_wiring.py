# SPDX-License-Identifier: Apache-2.0
"""The part of `wiring` that is about other hosts than this machine: `--host guest:KERNEL`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from ktrial.domain.errors import BadInput

if TYPE_CHECKING:
    from ktrial.cli.kernel_wiring import Kernels, Role
    from ktrial.host.guest_transport import GuestTransport
    from ktrial.kernels.running_guest import RunningGuest

_GUEST = "guest:"
_MEMORY_BYTES, _CPUS = 1 << 30, 2
_BEGIN_LIMIT_S = 120.0


class GuestHost:
    """A guest that is the host of one command: it boots when it is first needed, and ends with the command."""

    def __init__(self, word: str, kernels: Callable[[], Kernels], say: Callable[[str], None]) -> None:
        if not word.startswith(_GUEST) or word == _GUEST:
            raise BadInput(f"--host {word}: no host that ktrial reaches", hint="--host guest:KERNEL boots one")
        self._kernel = word.removeprefix(_GUEST)
        self._kernels = kernels
        self._say = say
        self._booted = False

    def connect(self, role: Role) -> GuestTransport:
        """An agent of its own in the guest."""
        return self._kernels().transport_to(self._guest, role)

    def close(self) -> None:
        """End the guest, where one was booted."""
        if self._booted:
            self._guest.close()

    @cached_property
    def _guest(self) -> RunningGuest:
        from ktrial.domain.guest import GuestPlace, Shape

        lab = self._kernels().lab
        mode = "emulated" if lab.why_no_kvm(self._kernel) is not None else "kvm"
        place = GuestPlace(
            kernel=self._kernel,
            shape=Shape(mode=mode, memory_bytes=_MEMORY_BYTES, cpus=_CPUS),  # type: ignore[arg-type]
            disk=lab.can_have_disk(self._kernel),
            limit_s=_BEGIN_LIMIT_S,
        )
        guest = lab.talk(place)
        self._booted = True
        self._say(f"the host is a guest ({mode}) with Linux {guest.begun.release}; it ends with this command")
        return guest

# SPDX-License-Identifier: Apache-2.0
"""`--host exact:KERNEL`: an exact guest as the host of one command, booted anew for each of its answers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ktrial.cli.host_wiring import GuestHost
from ktrial.domain.errors import BadInput

if TYPE_CHECKING:
    from ktrial.cli.kernel_wiring import Role
    from ktrial.domain.guest import GuestPlace, GuestRun, Shape
    from ktrial.host.replayed_transport import ReplayedTransport
    from ktrial.kernels.replay import Replay

EXACT = "exact:"
_MEMORY_BYTES = 512 << 20
#: A boot of so many seconds has failed.
_LIMIT_S = 900.0
_TRIALS = "`ktrial kernel trial KERNEL …` tries it in exact guests, a boot for each visit"
_TALKS = "`ktrial --host guest:KERNEL …` does it in a guest that talks, whose time is not exact"
#: Verbs that need hundreds of answers, or answers at moments of this machine's time, and what does it instead.
_INSTEAD = {
    "try": _TRIALS,
    "trial": _TRIALS,
    "retest": _TRIALS,
    "tune": _TALKS,
    "blame": "`ktrial blame --kernel KERNEL --mode exact …` asks exact guests",
    "ladder": "`ktrial ladder --kernel KERNEL --mode exact …` asks exact guests",
    "watch": _TALKS,
    "frames": _TALKS,
    "demo": "leave --host out",
}


class ExactHost(GuestHost):
    """A guest that answers as it always does; every answer comes of two boots that were the same."""

    prefix = EXACT
    is_exact = True

    def check_verb(self, verb: str | None) -> None:
        """Raise BadInput for what needs a conversation."""
        if verb in _INSTEAD:
            raise BadInput(
                f"--host {self.word}: an exact guest is booted anew for each answer, and `{verb}` needs hundreds, or "
                "some at moments of this machine's time",
                hint=_INSTEAD[verb],
            )

    def connect(self, role: Role) -> ReplayedTransport:
        """An agent of its own in the guest."""
        from ktrial.host.replayed_transport import ReplayedTransport

        self._begun = True
        session = self._talk.open(["serve", "--role", role], root=role == "root")
        return ReplayedTransport(self._talk, session)

    def close(self) -> None:
        """Nothing runs; tell what its answers rest on."""
        from ktrial.domain.guest import EXACT_CLOCK

        if self._begun and self._talk.boots:
            answers = "1 answer" if self._talk.boots == 1 else f"{self._talk.boots} answers"
            self._say(f"{answers}, each from two boots that were the same to the last byte, and the same each time")
            self._say(EXACT_CLOCK)

    @property
    def is_kept(self) -> bool:
        """Never: it does not even outlive an answer."""
        return False

    _kept = None

    @cached_property
    def _talk(self) -> Replay:
        from ktrial.kernels.replay import Replay

        return Replay(self._boot)

    @cached_property
    def _place(self) -> GuestPlace:
        from ktrial.domain.guest import GuestPlace, Shape
        from ktrial.host.run_folders import GUEST_PROGRAMS

        given = tuple(self._given.values())
        with self._named():
            lab = self._kernels().lab
            disk = self._wants_disk and lab.can_have_disk(self._name)
            place = GuestPlace(
                kernel=self._name,
                shape=Shape(mode="exact", memory_bytes=_MEMORY_BYTES, cpus=1),
                disk=disk,
                limit_s=_LIMIT_S,
                tools=(*given, *lab.swap_programs(self._name), *(GUEST_PROGRAMS if given else ())),
            )
            lab.prepare(place)
        return place

    def _boot(self, script: bytes) -> GuestRun:
        """Twice at once, and both are the same."""
        from ktrial.domain.guest import ODD_BOOT, Job
        from ktrial.kernels.replay import SCRIPT
        from ktrial.services.guests import boot_twice, settle_s

        lab, place = self._kernels().lab, self._place
        job = Job(script=True, settle_s=settle_s("exact"))

        def boot(shape: Shape, limit_s: float, begin_limit_s: float | None = None) -> GuestRun:
            del shape, limit_s, begin_limit_s
            return lab.boot(place, job, {SCRIPT: script})

        booted = boot_twice(place.shape, place.limit_s, boot, lab)
        if booted.odd is not None:
            self._say(f"{ODD_BOOT}: {booted.odd}")
        if not self._talk.boots and booted.run.begun is not None:
            self._say(
                f"the host is an exact guest with Linux {booted.run.begun.release}, which is booted anew, twice, for "
                "each answer: some seconds each; nothing stays of it"
            )
        return booted.run

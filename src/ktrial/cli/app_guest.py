# SPDX-License-Identifier: Apache-2.0
"""Hosts other than this machine: `--host guest:NAME` (a kept guest) and `--host guest:KERNEL`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ktrial.cli.hosts import Host
from ktrial.kit.errors import BadInput, UnknownName

if TYPE_CHECKING:
    from ktrial.agent.carrier import AgentCarrier
    from ktrial.agent.transport import Detached
    from ktrial.bench.guest_tools import GuestTools, Mode, Shape
    from ktrial.cli.app_kernels import Kernels, Role
    from ktrial.guests.kept_guest import Keeper, KeptGuest
    from ktrial.guests.lab import Lab
    from ktrial.guests.running import RunningGuest

_MEMORY_BYTES, _CPUS = 1 << 30, 2
_BEGIN_LIMIT_S = 120.0
#: How long a kernel may take to start its first process if KVM works.
_KVM_BEGIN_LIMIT_S = 20.0


class Talking(NamedTuple):
    """A running guest with sessions; `tools` maps programs of this machine to their paths in the guest."""

    guest: RunningGuest
    mode: Mode
    tools: Mapping[str, str]


def boot_to_talk(
    lab: Lab,
    kernel: str,
    mode: Mode | None = None,
    shape: Shape | None = None,
    modules: tuple[str, ...] = (),
    tools: tuple[str, ...] = (),
    *,
    runs_programs: bool = False,
) -> Talking:
    """Boot a guest for sessions. The default `mode` is KVM if that works, otherwise emulation.

    With `runs_programs`, add what benchmarks need.
    """
    import msgspec

    from ktrial.bench.guest_tools import GuestFailed, GuestPlace, Shape

    default = Shape(mode="emulated", memory_bytes=_MEMORY_BYTES, cpus=_CPUS)

    def talking(mode: Mode, limit_s: float = _BEGIN_LIMIT_S) -> Talking:
        place = GuestPlace(
            kernel=kernel,
            shape=msgspec.structs.replace(shape or default, mode=mode),
            modules=modules,
            disk=lab.can_have_disk(kernel),
            limit_s=limit_s,
            tools=tools_of(lab, kernel, tools, runs_programs=runs_programs),
        )
        return Talking(lab.talk(place), mode, lab.tools_in(place))

    if mode is None and lab.why_no_kvm(kernel) is None:
        # KVM may work and still fail to boot this kernel.
        with contextlib.suppress(GuestFailed):
            return talking("kvm", _KVM_BEGIN_LIMIT_S)
    return talking(mode or "emulated")


def tools_of(lab: Lab, kernel: str, tools: tuple[str, ...], *, runs_programs: bool) -> tuple[str, ...]:
    """Return all programs that a guest needs as a host: `tools`, and the programs for swap.

    With `runs_programs`, add the programs that benchmarks need, if this kernel can run them.
    """
    from ktrial.bench.run.folders import GUEST_PROGRAMS

    more = GUEST_PROGRAMS if runs_programs and lab.runs_programs(kernel) else ()
    return (*tools, *lab.swap_programs(kernel), *more)


@contextmanager
def keeper(name: str) -> Iterator[Keeper]:
    """Yield the keeper of a guest, through which other commands open sessions with the guest."""
    from ktrial.guests.kept_guest import Keeper

    guest_keeper = Keeper(name)
    try:
        yield guest_keeper
    finally:
        guest_keeper.close()


class GuestHost(Host):
    """A guest as the host of one command: a kept guest, or one that boots when it is first needed."""

    #: Prefix of these hosts' names.
    prefix = "guest:"

    def __init__(self, word: str, kernels: Callable[[], Kernels], say: Callable[[str], None]) -> None:
        super().__init__(word)
        self.guest_tools = self.tools
        self._name = word.removeprefix(self.prefix)
        self._kernels = kernels
        self._say = say
        self._guest: AgentCarrier | None = None
        #: Whether a session was opened; from then on its programs and disk are fixed.
        self._begun = False
        #: Whether an exact guest needs a disk; others have one if they can.
        self._wants_disk = False
        #: Programs of this machine to put into the guest: name to path, or None if this machine lacks the program.
        self._programs: dict[str, str | None] = {}

    def give(self, programs: Mapping[str, str | None], *, disk: bool = False) -> None:
        """Add programs of this machine (name to path, None if missing) to the guest before it boots.

        A guest that has already booted stays unchanged.
        """
        if not self._begun:
            self._programs.update(programs)
            self._wants_disk = self._wants_disk or disk

    def tools(self) -> GuestTools:
        from ktrial.bench.guest_tools import GuestTools, guest_path

        if self._running_guest is not None:
            return GuestTools(places=self._running_guest.kept.tools, kept=self._name)
        places = {name: guest_path(path) for name, path in self._programs_for_guest.items()}
        return GuestTools(places=places, found=self._programs, foreign=not self._runs_programs, exact=self.is_exact)

    @property
    def _programs_for_guest(self) -> dict[str, str]:
        return {name: path for name, path in self._programs.items() if path is not None and self._runs_programs}

    @cached_property
    def _runs_programs(self) -> bool:
        with self._explain_unknown_word():
            return self._kernels().lab.runs_programs(self._name)

    def connect(self, role: Role, purpose: str = "this command", arguments: tuple[str, ...] = ()) -> Detached:
        del purpose, arguments
        self._begun = True
        if self._guest is None:
            self._guest = self._running_guest or self._boot_guest()
        return self._kernels().transport_to(self._guest, role)

    def close(self) -> None:
        """Release a kept guest, or end a guest that was booted for this command."""
        if self._guest is not None:
            self._guest.close()

    @property
    def is_kept(self) -> bool:
        """Whether the guest keeps running after this command."""
        return self._running_guest is not None

    @cached_property
    def _running_guest(self) -> KeptGuest | None:
        from ktrial.guests.kept_guest import KeptGuest, is_name

        if not is_name(self._name):
            return None
        with contextlib.suppress(FileNotFoundError):
            guest = KeptGuest(self._name)
            if (guest.kept.mode == "exact") != self.is_exact:
                guest.close()
                word = f"{'exact' if guest.kept.mode == 'exact' else 'guest'}:{self._name}"
                raise BadInput(
                    f"--host {self.word}: guest {self._name} runs in mode {guest.kept.mode}", hint=f"use --host {word}"
                )
            self._say(f"host: guest {self._name} ({guest.kept.mode}) with Linux {guest.kept.release}; it keeps running")
            return guest
        return None

    def _boot_guest(self) -> AgentCarrier:
        with self._explain_unknown_word():
            given = tuple(self._programs_for_guest.values())
            guest, mode, _ = boot_to_talk(self._kernels().lab, self._name, tools=given, runs_programs=bool(given))
        self._say(f"host: a guest ({mode}) with Linux {guest.begun.release}; it ends with this command")
        return guest

    @contextmanager
    def _explain_unknown_word(self) -> Iterator[None]:
        """Extend the error for an unknown kernel: no kept guest has this name either."""
        from ktrial.guests.kept_guest import kept_names

        try:
            yield
        except UnknownName as error:
            kept = ", ".join(kept_names())
            keep = f"ktrial kernel boot KERNEL {'--mode exact ' if self.is_exact else ''}--keep {self._name}"
            hint = error.hint if error.nearest else f"start a guest with `{keep}`"
            raise BadInput(
                f"--host {self.word}: no kept guest has this name; {error.message}",
                hint=f"{hint} (kept guests: {kept})" if kept else hint,
            ) from None

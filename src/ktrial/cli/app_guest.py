# SPDX-License-Identifier: Apache-2.0
"""The part of `wiring` that is about other hosts than this machine: `--host guest:NAME` and `--host guest:KERNEL`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ktrial.kit.errors import BadInput, UnknownName

if TYPE_CHECKING:
    from ktrial.agent.transport import Detached
    from ktrial.bench.guest_tools import GuestTools, Mode, Shape
    from ktrial.cli.app_kernels import Kernels, Role
    from ktrial.guests.kept_guest import Keeper, KeptGuest
    from ktrial.guests.lab import Lab
    from ktrial.guests.running import RunningGuest
    from ktrial.guests.transport import Guest
    from ktrial.trial.protocol.file import TrialFile

_MEMORY_BYTES, _CPUS = 1 << 30, 2
_BEGIN_LIMIT_S = 120.0
#: So long may a kernel take to its first process where KVM works.
_KVM_BEGIN_LIMIT_S = 20.0


class Talking(NamedTuple):
    """A guest with sessions, the mode that it runs in, and where programs of this machine lie there."""

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
    """A guest with sessions, by default with KVM where that works; with `runs_programs` benchmarks can run there."""
    import msgspec

    from ktrial.bench.guest_tools import GuestFailed, GuestPlace, Shape

    usual = Shape(mode="emulated", memory_bytes=_MEMORY_BYTES, cpus=_CPUS)

    def talking(mode: Mode, limit_s: float = _BEGIN_LIMIT_S) -> Talking:
        place = GuestPlace(
            kernel=kernel,
            shape=msgspec.structs.replace(shape or usual, mode=mode),
            modules=modules,
            disk=lab.can_have_disk(kernel),
            limit_s=limit_s,
            tools=tools_of(lab, kernel, tools, runs_programs=runs_programs),
        )
        return Talking(lab.talk(place), mode, lab.tools_in(place))

    if mode is None and lab.why_no_kvm(kernel) is None:
        # KVM that runs code need not run this kernel.
        with contextlib.suppress(GuestFailed):
            return talking("kvm", _KVM_BEGIN_LIMIT_S)
    return talking(mode or "emulated")


def tools_of(lab: Lab, kernel: str, tools: tuple[str, ...], *, runs_programs: bool) -> tuple[str, ...]:
    """Return programs that a guest brings along to be a host: these, and what swap and benchmarks take."""
    from ktrial.bench.run.folders import GUEST_PROGRAMS

    more = GUEST_PROGRAMS if runs_programs and lab.runs_programs(kernel) else ()
    return (*tools, *lab.swap_programs(kernel), *more)


@contextmanager
def keeper(name: str) -> Iterator[Keeper]:
    """Hands out sessions with a guest to other commands."""
    from ktrial.guests.kept_guest import Keeper

    found = Keeper(name)
    try:
        yield found
    finally:
        found.close()


def again(host: GuestHost | None) -> str:
    """Return how a further command begins that is to reach the same host."""
    return "ktrial" if host is None else f"ktrial --host {host.word}"


def as_before(host: GuestHost | None) -> str:
    """Return what is left of the changes of a trial that has ended."""
    if host is not None and not host.is_kept:
        return "the guest and its settings end with this command"
    return f"all settings have been restored: `{again(host)} status`"


class GuestHost:
    """A guest as the host of one command: one that is kept, or else one that boots when it is first needed."""

    #: How words that name such a host begin.
    prefix = "guest:"
    #: Whether its time counts instructions.
    is_exact = False

    def __init__(self, word: str, kernels: Callable[[], Kernels], say: Callable[[str], None]) -> None:
        #: As it was asked for.
        self.word = word
        self._name = word.removeprefix(self.prefix)
        self._kernels = kernels
        self._say = say
        self._guest: Guest | None = None
        #: Whether something was asked of it: what it has is decided by then.
        self._begun = False
        #: Whether an exact guest is to have a disk; others have one where they can.
        self._wants_disk = False
        #: Programs of this machine that a guest is given which boots for this command, by name; None: not here.
        self._programs: dict[str, str | None] = {}

    def check_verb(self, verb: str | None) -> None:
        """Raise BadInput for a verb that such a host cannot serve: this one serves all."""

    def check_trial(self) -> None:
        """Raise BadInput if a trial cannot make its visits in it: in this one it can."""

    def in_boots(self, file: TrialFile) -> TrialFile | None:
        """Return the trial with a boot for every visit if such guests need it, otherwise None."""
        del file
        return None

    def give(self, programs: Mapping[str, str | None], *, disk: bool = False) -> None:
        """Programs of this machine, by name, that the guest is to have when it boots; None if one is not here.

        One that was asked something already has what it has.
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

    def connect(self, role: Role) -> Detached:
        self._begun = True
        if self._guest is None:
            self._guest = self._running_guest or self._boot_guest()
        return self._kernels().transport_to(self._guest, role)

    def close(self) -> None:
        """Let go of a guest that is kept; end one that was booted."""
        if self._guest is not None:
            self._guest.close()

    @property
    def is_kept(self) -> bool:
        """Whether the guest goes on after this command."""
        return self._running_guest is not None

    @cached_property
    def _running_guest(self) -> KeptGuest | None:
        """The guest of that name; None if none is kept."""
        from ktrial.guests.kept_guest import KeptGuest, is_name

        if not is_name(self._name):
            return None
        with contextlib.suppress(FileNotFoundError):
            guest = KeptGuest(self._name)
            if (guest.kept.mode == "exact") != self.is_exact:
                guest.close()
                word = f"{'exact' if guest.kept.mode == 'exact' else 'guest'}:{self._name}"
                raise BadInput(
                    f"--host {self.word}: the guest {self._name} is {guest.kept.mode}", hint=f"--host {word}"
                )
            self._say(
                f"the host is the guest {self._name} ({guest.kept.mode}) with Linux {guest.kept.release}, which goes on"
            )
            return guest
        return None

    def _boot_guest(self) -> Guest:
        with self._explain_unknown_word():
            given = tuple(self._programs_for_guest.values())
            guest, mode, _ = boot_to_talk(self._kernels().lab, self._name, tools=given, runs_programs=bool(given))
        self._say(f"the host is a guest ({mode}) with Linux {guest.begun.release}; it ends with this command")
        return guest

    @contextmanager
    def _explain_unknown_word(self) -> Iterator[None]:
        """Says of a word that is not a kernel that it is not a guest either."""
        from ktrial.guests.kept_guest import kept_names

        try:
            yield
        except UnknownName as error:
            kept = ", ".join(kept_names())
            keep = f"ktrial kernel boot KERNEL {'--mode exact ' if self.is_exact else ''}--keep {self._name}"
            hint = error.hint if error.nearest else f"`{keep}` keeps one"
            raise BadInput(
                f"--host {self.word}: no kept guest has this name; {error.message}",
                hint=f"{hint}; kept are: {kept}" if kept else hint,
            ) from None

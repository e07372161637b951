# SPDX-License-Identifier: Apache-2.0
"""`--host exact:KERNEL` and `exact:NAME`: an exact guest as the host, booted again for each answer."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ktrial.cli.app_guest import GuestHost
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrial.agent.replay_transport import ReplayedTransport
    from ktrial.bench.guest_tools import GuestPlace, GuestRun, Shape
    from ktrial.cli.app_kernels import Kernels, Role
    from ktrial.cli.app_remote import RemoteHost
    from ktrial.guests.lab import Lab
    from ktrial.guests.replay import Replay
    from ktrial.trial.protocol.file import TrialFile

EXACT = "exact:"
_MEMORY_BYTES = 512 << 20
#: A boot that takes longer has failed.
_LIMIT_S = 900.0
_TRIALS = "use `ktrial try` or `ktrial trial run`, which boot an exact guest for each measurement"
_TALKS = "use `ktrial --host guest:KERNEL …`, an ordinary guest, whose time is not exact"
#: Verbs that need hundreds of answers, or answers at certain times of this machine's clock, and what to use instead.
_INSTEAD = {
    "retest": _TRIALS,
    "tune": _TALKS,
    "search": _TALKS,
    "blame": "use `ktrial blame --kernel KERNEL --mode exact …`",
    "ladder": "use `ktrial ladder --guest --mode exact …`",
    # An ordinary guest cannot run games either.
    "frames": "leave out --host",
    "demo": "leave out --host",
}


class ExactHost(GuestHost):
    """A guest that always gives the same answers; each answer comes from two identical boots."""

    prefix = EXACT
    is_exact = True

    def check_verb(self, verb: str | None) -> None:
        """Raise BadInput for a verb that needs hundreds of answers, or answers at certain times."""
        if verb in _INSTEAD:
            raise self._refusal(f"`{verb}` in an exact guest", _INSTEAD[verb])

    def check_trial(self) -> None:
        """Raise BadInput, because all visits would run in one guest, which boots again for each answer."""
        raise self._refusal("a trial in a single exact guest", _TRIALS)

    def _refusal(self, what: str, instead: str) -> BadInput:
        return BadInput(f"--host {self.word}: cannot run {what}, which boots again for each answer", hint=instead)

    def in_boots(self, file: TrialFile) -> TrialFile:
        """Return the trial with a fresh exact guest for every visit.

        Raise BadInput if exact guests cannot run the trial.
        """
        import msgspec

        from ktrial.trial.guests.model import check_guest_trial
        from ktrial.trial.protocol.file import GuestFile

        if self.is_kept:
            raise BadInput(
                f"--host {self.word}: a kept guest cannot run a trial, because every measurement needs a fresh boot",
                hint=f"use --host {self.prefix}KERNEL",
            )
        if file.command:
            raise BadInput(
                f"--host {self.word}: a trial in exact guests cannot measure a command after --",
                hint="use --suite NAME, or `ktrial --host guest:KERNEL try …` for a command",
            )
        file = msgspec.structs.replace(file, guest=GuestFile(kernel=self._name))
        check_guest_trial(file)
        return file

    def connect(self, role: Role, purpose: str = "this command", arguments: tuple[str, ...] = ()) -> ReplayedTransport:
        from ktrial.agent.replay_transport import ReplayedTransport

        del purpose, arguments
        self._begun = True
        session = self._talk.open(["serve", "--role", role], root=role == "root")
        return ReplayedTransport(self._talk, session)

    def close(self) -> None:
        """Save the conversation with a kept guest, and report how the answers were obtained.

        No guest needs to be ended, because none runs between two answers.
        """
        from ktrial.bench.guest_tools import EXACT_CLOCK

        if not self._begun:
            return
        if self._running_guest is not None:
            if self._talk.boots:
                self._running_guest.keep(self._talk.past)
            self._running_guest.close()
        if self._talk.boots:
            answers = "1 answer" if self._talk.boots == 1 else f"{self._talk.boots} answers"
            self._say(f"{answers}, each from two boots that were identical to the last byte")
            self._say(EXACT_CLOCK)

    @cached_property
    def _talk(self) -> Replay:
        from ktrial.guests.replay import Replay

        return Replay(self._boot, None if self._running_guest is None else self._running_guest.past)

    @cached_property
    def _place(self) -> GuestPlace:
        from ktrial.cli.app_guest import tools_of

        lab = self._kernels().lab
        if self._running_guest is not None and self._running_guest.kept.place is not None:
            place = self._running_guest.kept.place
        else:
            given = tuple(self._programs_for_guest.values())
            with self._explain_unknown_word():
                tools = tools_of(lab, self._name, given, runs_programs=bool(given))
                disk = self._wants_disk and lab.can_have_disk(self._name)
                place = place_of(self._name, None, tools, disk=disk)
        lab.prepare(place)
        return place

    def _boot(self, script: bytes) -> GuestRun:
        run = boot_with(self._kernels().lab, self._place, script, self._say)
        if not self._talk.boots and run.begun is not None and self._running_guest is None:
            self._say(
                f"host: an exact guest with Linux {run.begun.release}; it boots twice for each answer, a few seconds "
                "each, and leaves nothing behind"
            )
        return run


def host_of(
    word: str,
    kernels: Callable[[], Kernels],
    say: Callable[[str], None],
    *,
    may_ask: bool = True,
    keeps_agent: bool = False,
) -> GuestHost | RemoteHost:
    """Return the host that the argument of --host names. Raise BadInput if there is none."""
    from ktrial.cli.app_adb import ADB, AdbHost
    from ktrial.cli.app_ssh import SSH, SshHost

    if word.startswith(SSH):
        return SshHost(word, say, may_ask=may_ask, keeps_agent=keeps_agent)
    if word == ADB or word.startswith(f"{ADB}:"):
        return AdbHost(word, say, may_ask=may_ask, keeps_agent=keeps_agent)
    if keeps_agent:
        raise BadInput(
            f"cannot combine --host-keep-agent with --host {word}: only ssh and adb hosts can keep an agent",
            hint="leave out --host-keep-agent, or use --host ssh:NAME or adb",
        )
    for kind in (GuestHost, ExactHost):
        if word.startswith(kind.prefix) and word != kind.prefix:
            return kind(word, kernels, say)
    raise BadInput(
        f"--host {word}: not supported",
        hint="use ssh:NAME (a machine), adb or adb:SERIAL (a phone), guest:KERNEL or exact:KERNEL (a new guest), or "
        "guest:NAME or exact:NAME (a kept guest)",
    )


def place_of(
    kernel: str, shape: Shape | None, tools: tuple[str, ...], *, disk: bool, modules: tuple[str, ...] = ()
) -> GuestPlace:
    import msgspec

    from ktrial.bench.guest_tools import GuestPlace, Shape

    shape = shape or Shape(mode="exact", memory_bytes=_MEMORY_BYTES, cpus=1)
    shape = msgspec.structs.replace(shape, mode="exact")
    return GuestPlace(kernel=kernel, shape=shape, modules=modules, disk=disk, limit_s=_LIMIT_S, tools=tools)


def boot_with(lab: Lab, place: GuestPlace, script: bytes, say: Callable[[str], None]) -> GuestRun:
    """Boot the guest twice in parallel with the conversation `script`; if the boots differ, a third boot decides.

    Raise GuestDiffers if no two boots agree.
    """
    from ktrial.bench.guest_tools import ODD_BOOT, Job
    from ktrial.guests.agreement import boot_twice, settle_s
    from ktrial.guests.replay import SCRIPT

    job = Job(script=True, settle_s=settle_s("exact"))

    def boot(shape: Shape, limit_s: float, begin_limit_s: float | None = None) -> GuestRun:
        del shape, limit_s, begin_limit_s
        return lab.boot(place, job, {SCRIPT: script})

    booted = boot_twice(place.shape, place.limit_s, boot, lab)
    if booted.odd is not None:
        say(f"{ODD_BOOT}: {booted.odd}")
    return booted.run

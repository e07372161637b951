# SPDX-License-Identifier: Apache-2.0
"""`--host adb`: a phone on a cable as the host of a command."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ktrial.cli.app_remote import RemoteHost
from ktrial.kit.errors import BadInput, PrivilegeMissing
from ktrial.kit.units import show_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ktrial.agent.adb import AdbWay
    from ktrial.agent.adb_copy import ProgramThere
    from ktrial.agent.remote import RelayDescription
    from ktrial.agent.session import AgentSession
    from ktrial.agent.transport import Transport
    from ktrial.machine.facts import Fact

ADB = "adb"
#: The arguments of `su`: for Magisk, KernelSU and APatch, and for Android's own `su` in debug builds.
_FORMS = (("-c",), ("0",))
#: The folder of the journals. It survives a reboot, and only root can enter it.
STATE = "/data/adb/ktrial"
_MODULE = "export the settings as a module that the phone applies when it starts: ktrial export … --to magisk"
#: Verbs that do not work on a phone, and what to do instead.
_HERE_ONLY = {
    "demo": "leave out --host",
    "kernel": "leave out --host: guests run on this machine",
    "install-recovery": "do nothing: a phone starts with its own values",
    "uninstall": "run `ktrial revert --all`; only --host-keep-agent leaves a program on the phone",
    "with": "use `apply` and `revert`",
    "frames": "measure frames with `ktrial --host adb bench gfxinfo`",
    "keep": _MODULE,
    "boot": "change the kernel command line in the phone's boot image, with tools for that image",
}


class AdbHost(RemoteHost):
    """A phone that adb reaches."""

    folders = ("/system/bin", "/system/xbin", "/vendor/bin", "/sbin", "/debug_ramdisk", "/data/adb/ksu/bin")
    program_folders = ("/data/local/tmp", "/system/bin", "/system/xbin", "/vendor/bin", "/product/bin")
    askers = ("su",)
    here_only = _HERE_ONLY
    #: The phone cannot run a trial's blocks by itself: Android shows the state of screen and battery to its own
    #: programs only.
    carries_plans = False
    agent_arguments = ("--state", STATE)

    def __init__(self, word: str, say: Callable[[str], None], *, may_ask: bool, keeps_agent: bool = False) -> None:
        from ktrial.agent.adb import check_serial

        super().__init__(word, say, may_ask=may_ask, keeps_agent=keeps_agent)
        self._serial = word.removeprefix(ADB).removeprefix(":")
        check_serial(word, self._serial)
        #: Programs of this machine that were copied to the phone for this command.
        self._copies: dict[Path, ProgramThere] = {}

    @cached_property
    def way(self) -> AdbWay:
        from ktrial.agent.adb import AdbWay, find_serial

        return AdbWay(self._serial or find_serial())

    def private_names(self, there: RelayDescription) -> tuple[set[str], set[str]]:
        # All phones are called `localhost`, and their user `shell`.
        del there
        return {self.name}, set()

    @property
    def home(self) -> str:
        from ktrial.agent.adb import TEMPORARY

        return TEMPORARY

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "PATH": ":".join(self.program_folders[1:]),
            "HOME": self.home,
            "TMPDIR": self.home,
            "ANDROID_DATA": "/data",
            "ANDROID_ROOT": "/system",
        }

    def program_of(self, word: str) -> Path:
        """Return the path of a program on the phone. Copy a file of this machine there, for this command only."""
        from pathlib import Path

        try:
            return super().program_of(word)
        except BadInput:
            here = Path(word).resolve()
            if "/" not in word or not here.is_file():
                raise
        return Path(self._copied(here))

    def programs_from(self, tools: str) -> Mapping[str, str]:
        """Copy the programs in a folder of this machine to the phone; return their paths there by name.

        The copies are for this command only.
        """
        from pathlib import Path

        folder = Path(tools)
        if not folder.is_dir():
            raise BadInput(
                f"--tools {tools}: not a folder on this machine",
                hint="name a folder with static programs, which ktrial copies to the phone",
            )
        found = sorted(one for one in folder.iterdir() if one.is_file() and not one.name.startswith("."))
        if not found:
            raise BadInput(
                f"--tools {tools}: no files in this folder", hint="put static programs for the phone into the folder"
            )
        return {one.name: self._copied(one.resolve()) for one in found}

    def _copied(self, here: Path) -> str:
        copy = self._copy(here)
        self._say(f"copied {here.name} to {self.name}: {show_bytes(copy.size)}, sha256 {copy.digest[:16]}")
        return copy.path

    def _copy(self, here: Path) -> ProgramThere:
        from ktrial.agent.adb_copy import ProgramThere

        machine = self.machine
        if here not in self._copies:
            self._copies[here] = ProgramThere(self.way, machine.base, here, machine.architecture)
        return self._copies[here]

    def close(self) -> None:
        for copy in self._copies.values():
            copy.close()
        super().close()

    def come_back(self, sleep: Callable[[float], None]) -> None:
        programs = tuple(self._copies)
        super().come_back(sleep)
        self._copies.clear()
        for here in programs:
            self._copy(here)

    def session(self, transport: Transport) -> AgentSession:
        from ktrial.agent.phone_session import PhoneSession, ask_phone

        return PhoneSession(
            transport,
            lambda names: ask_phone(self.own_session, names, self.environment),
            self._modules,
            self._say,
        )

    def _modules(self) -> Fact:
        from ktrial.agent.phone_session import ask_modules
        from ktrial.machine.facts import Fact

        try:
            asker, _ = self._root_asker("listing the phone's modules")
        except PrivilegeMissing as error:
            return Fact(unknown=error.message)
        return ask_modules(self.own_session, asker, self.environment)

    def find_asker(self, purpose: str) -> tuple[tuple[str, ...], str | None]:
        """Return the words that start a program as root on the phone. `su` asks for consent on the phone's screen."""
        if not self.asking_programs:
            raise PrivilegeMissing(
                f"{purpose} needs root on {self.name}, which has no su",
                hint="root the phone with Magisk, KernelSU or APatch, or run `adb root` if its build allows that; "
                "doctor, facts, plan and bench work without root",
            )
        self._say(f"{purpose} needs root on {self.name}: asking su there; look at the phone's screen")
        for program in self.asking_programs:
            for form in _FORMS:
                if self.gives_root((program, *form)):
                    return (program, *form), None
        raise PrivilegeMissing(
            f"{purpose} needs root on {self.name}, whose su refused it",
            hint="allow root for `shell` (com.android.shell) in the app of Magisk, KernelSU or APatch",
        )

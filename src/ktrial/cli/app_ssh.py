# SPDX-License-Identifier: Apache-2.0
"""`--host ssh:NAME`: a machine that `ssh NAME` reaches as the host of a command."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ktrial.cli.app_remote import RemoteHost
from ktrial.kit.errors import PrivilegeMissing

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrial.agent.ssh import SshWay

SSH = "ssh:"
_TRIES = 3
#: How the programs that give root are asked: without a question, and with the password as the first line of input.
_ASKERS: dict[str, tuple[tuple[str, ...], tuple[str, ...] | None]] = {
    "sudo": (("-n", "--"), ("-k", "-S", "-p", "", "--")),
    "doas": (("-n", "--"), None),
}


class SshHost(RemoteHost):
    """A machine that `ssh NAME` reaches."""

    folders = ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/run/wrappers/bin")
    program_folders = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
    askers = tuple(_ASKERS)

    def __init__(self, word: str, say: Callable[[str], None], *, may_ask: bool, keeps_agent: bool = False) -> None:
        from ktrial.agent.ssh import check_name

        super().__init__(word, say, may_ask=may_ask, keeps_agent=keeps_agent)
        check_name(word, word.removeprefix(SSH))

    @cached_property
    def way(self) -> SshWay:
        from ktrial.agent.ssh import SshWay

        return SshWay(self.word.removeprefix(SSH))

    def find_asker(self, purpose: str) -> tuple[tuple[str, ...], str | None]:
        if not self.asking_programs:
            raise PrivilegeMissing(
                f"{purpose} needs root on {self.name}, which has neither sudo nor doas",
                hint="connect as root: --host ssh:root@NAME",
            )
        found = self.asking_programs[0]
        self._say(f"{purpose} needs root on {self.name}: asking {found.rpartition('/')[2]} there")
        silent, asking = _ASKERS[found.rpartition("/")[2]]
        if self.gives_root((found, *silent), None):
            return (found, *silent), None
        if asking is None:
            raise PrivilegeMissing(
                f"{purpose} needs root on {self.name}, whose doas asks for a password, which needs a terminal there",
                hint="permit the user with `nopass` in /etc/doas.conf there, or connect as root: --host ssh:root@NAME",
            )
        return (found, *asking), self._ask_password((found, *asking), purpose)

    def _ask_password(self, asker: tuple[str, ...], purpose: str) -> str:
        import getpass
        import sys

        if not sys.stdin.isatty():
            raise PrivilegeMissing(
                f"{purpose} needs root on {self.name}, whose sudo asks for a password, and there is no terminal here",
                hint="let sudo there start the agent without a password, or connect as root: --host ssh:root@NAME",
            )
        for _ in range(_TRIES):
            password = getpass.getpass(f"password for sudo on {self.name}: ")
            if self.gives_root(asker, password):
                return password
        raise PrivilegeMissing(f"sudo on {self.name} did not accept the password", hint="run the command again")

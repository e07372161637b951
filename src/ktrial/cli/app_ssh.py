# SPDX-License-Identifier: Apache-2.0
"""`--host ssh:NAME`: a machine that `ssh NAME` reaches as the host of a command."""

from __future__ import annotations

import os
from functools import cache, cached_property
from typing import TYPE_CHECKING

from ktrial.agent.root import SUDO_ASKING, SUDO_SILENT
from ktrial.cli.app_remote import RemoteHost
from ktrial.kit.errors import BadInput, PrivilegeMissing

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrial.agent.ssh import SshWay

SSH = "ssh:"
#: The variable with the number of an open file, from which ktrial reads the password for sudo.
PASSWORD_VARIABLE = "KTRIAL_PASSWORD_FD"
_TRIES, _LONGEST_BYTES = 3, 4096
#: Options of the programs that give root: to start without a question, and to read the password from the first line of
#: input.
_ASKERS: dict[str, tuple[tuple[str, ...], tuple[str, ...] | None]] = {
    "sudo": (SUDO_SILENT, SUDO_ASKING),
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
                f"{purpose} needs root on {self.name}, whose doas asks for a password",
                hint="permit the user with `nopass` in /etc/doas.conf there, or connect as root: --host ssh:root@NAME",
            )
        return (found, *asking), self._ask_password((found, *asking), purpose)

    def _ask_password(self, asker: tuple[str, ...], purpose: str) -> str:
        import getpass
        import sys

        if (given := given_password()) is not None:
            if self.gives_root(asker, given):
                return given
            raise PrivilegeMissing(
                f"sudo on {self.name} did not accept the password",
                hint=f"check the password that {PASSWORD_VARIABLE} leads to, and that sudo permits this user",
            )
        if not sys.stdin.isatty():
            raise PrivilegeMissing(
                f"{purpose} needs root on {self.name}, whose sudo asks for a password, and there is no terminal here",
                hint=f"set {PASSWORD_VARIABLE} (docs/remote.md), or connect as root: --host ssh:root@NAME",
            )
        for _ in range(_TRIES):
            password = getpass.getpass(f"password for sudo on {self.name}: ")
            if self.gives_root(asker, password):
                return password
        raise PrivilegeMissing(
            f"sudo on {self.name} did not accept the password",
            hint=f"run the same command again, or check with `sudo -v` on {self.name} that sudo permits you",
        )


@cache
def given_password() -> str | None:
    """Return the password from the open file that `KTRIAL_PASSWORD_FD` names; None if the variable is not set.

    Raise BadInput if the file is unusable.
    """
    number = os.environ.get(PASSWORD_VARIABLE)
    if number is None:
        return None
    hint = (
        f"set {PASSWORD_VARIABLE} to the number of a file that is open for reading and holds the password on one line"
    )
    try:
        with open(int(number), "rb") as file:  # noqa: PTH123 (an open file, no path)
            password = file.read(_LONGEST_BYTES + 1).decode().removesuffix("\n")
    except (ValueError, OverflowError, OSError) as error:
        why = getattr(error, "strerror", None) or f"{number!r} is not the number of an open file with text"
        raise BadInput(f"{PASSWORD_VARIABLE}: cannot read the password: {why}", hint=hint) from None
    if not password or "\n" in password or len(password) > _LONGEST_BYTES:
        raise BadInput(f"{PASSWORD_VARIABLE}: expected one line of at most {_LONGEST_BYTES} bytes", hint=hint)
    return password

# SPDX-License-Identifier: Apache-2.0
"""Start a root agent directly or through sudo, doas or pkexec. `lent_root` offers another way."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from ktrial.agent.transport import ProcessTransport, Transport
from ktrial.kit.errors import PrivilegeMissing, Refused

_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/run/wrappers/bin"
_ASKERS = (("sudo", ("--",)), ("doas", ("--",)), ("pkexec", ()))
#: Options with which sudo never asks for a password, or reads it as the first line of input.
SUDO_SILENT, SUDO_ASKING = ("-n", "--"), ("-k", "-S", "-p", "", "--")


def can_ask() -> bool:
    """Return whether sudo, doas or pkexec is installed."""
    return any(shutil.which(name, path=_SYSTEM_PATH) for name, _ in _ASKERS)


def invoking_user() -> int | None:
    """Return the id of the user who ran sudo, pkexec or doas; None unless this process is root for another user.

    Raise PrivilegeMissing if that user is unknown or ambiguous, instead of assuming root.
    """
    if os.geteuid() != 0:
        return None
    told = {name: os.environ[name] for name in ("SUDO_UID", "PKEXEC_UID", "DOAS_USER") if os.environ.get(name)}
    found = set()
    for name, value in told.items():
        try:
            entry = pwd.getpwnam(value) if name == "DOAS_USER" else pwd.getpwuid(int(value))
        except (KeyError, ValueError, OverflowError):
            raise PrivilegeMissing(
                f"cannot run as root: the invoking user is unknown to this system ({name}={value})",
                hint="start ktrial as a user of this system",
            ) from None
        found.add(entry.pw_uid)
    found.discard(0)
    if len(found) > 1:
        listed = ", ".join(f"{name}={value}" for name, value in told.items())
        raise PrivilegeMissing(
            f"cannot run as root: the environment names several invoking users ({listed})",
            hint="unset the variable that is wrong",
        )
    return found.pop() if found else None


def root_transport(
    agent: Path,
    arguments: Sequence[str],
    purpose: str,
    *,
    may_ask: bool,
    say: Callable[[str], None],
    password: Callable[[], str | None] = lambda: None,
) -> Transport:
    """Start the agent as root, if needed through sudo, doas or pkexec; `say` tells the user the `purpose`.

    `password` returns sudo's password if the user gave it beforehand.
    """
    argv = [str(agent), *arguments]
    if os.geteuid() == 0:
        check_trusted(agent, 0)
        return ProcessTransport(argv)
    if not may_ask:
        raise PrivilegeMissing(
            f"{purpose} needs root, and --no-sudo forbids asking for it",
            hint="leave out --no-sudo; plan, explain, why and doctor work without root",
        )
    check_trusted(agent, os.getuid())
    given = password()
    for name, options in _ASKERS if given is not None else _askers(agent):
        program = shutil.which(name, path=_SYSTEM_PATH)
        if program is not None:
            say(f"{purpose} needs root: asking {name}")
            if name == "sudo" and given is not None and not _starts(program, SUDO_SILENT, agent):
                return _with_password(program, argv, given)
            return ProcessTransport([program, *options, *argv], asker=name)
    raise PrivilegeMissing(
        f"{purpose} needs root, and neither sudo, doas nor pkexec is installed",
        hint="run ktrial as root; plan, explain, why and doctor work without root",
    )


def _askers(agent: Path) -> Sequence[tuple[str, tuple[str, ...]]]:
    """Return the programs that can start the agent as root, in order.

    Without a terminal pkexec comes first, because it asks in a window. sudo stays first if it starts this agent without
    a password.
    """
    is_graphical = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if _has_terminal() or not is_graphical or shutil.which("pkexec", path=_SYSTEM_PATH) is None:
        return _ASKERS
    sudo = shutil.which("sudo", path=_SYSTEM_PATH)
    if sudo is not None and _starts(sudo, SUDO_SILENT, agent):
        return _ASKERS
    return sorted(_ASKERS, key=lambda asker: asker[0] != "pkexec")


def _starts(sudo: str, options: Sequence[str], agent: Path, line: bytes = b"") -> bool:
    """Return whether sudo starts this agent; `line` is its input."""
    probe = [sudo, *options, str(agent), "--version"]
    return subprocess.run(probe, input=line, capture_output=True, check=False).returncode == 0


def _with_password(sudo: str, argv: Sequence[str], password: str) -> Transport:
    line = f"{password}\n".encode()
    if not _starts(sudo, SUDO_ASKING, Path(argv[0]), line):
        raise PrivilegeMissing(
            "sudo did not accept the password",
            hint="check the password that KTRIAL_PASSWORD_FD passes, and this user's right to use sudo",
        )
    transport = ProcessTransport([sudo, *SUDO_ASKING, *argv], asker="sudo")
    transport.send(line)
    return transport


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY))
    except OSError:
        return False
    return True


def check_trusted(agent: Path, uid: int) -> None:
    """Raise Refused if anyone except root and the user `uid` could change the agent or a folder above it."""
    name, private_group = _user(uid)
    for path in (agent.resolve(), *agent.resolve().parents):
        status = path.stat()
        sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        others = status.st_mode & stat.S_IWOTH and not sticky
        group = status.st_mode & stat.S_IWGRP and status.st_gid not in {0, private_group}
        if status.st_uid not in {0, uid} or others or group:
            raise Refused(
                f"cannot run the agent as root: {path} can be changed by somebody else",
                hint=f"make {name} the only writer of {path} (chown, chmod go-w)",
            )


def _user(uid: int) -> tuple[str, int | None]:
    """Return the user's name and their private group, if they have one."""
    try:
        entry = pwd.getpwuid(uid)
        group = grp.getgrgid(entry.pw_gid)
    except KeyError:
        return f"user {uid}", None
    private = group.gr_name == entry.pw_name and set(group.gr_mem) <= {entry.pw_name}
    return entry.pw_name, entry.pw_gid if private else None

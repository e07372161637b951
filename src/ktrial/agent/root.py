# SPDX-License-Identifier: Apache-2.0
"""How a root agent comes to be: directly, or through sudo and its like; `lent_root` is the other way."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from ktrial.kit.errors import PrivilegeMissing, Refused
from ktrial.agent.transport import ProcessTransport, Transport

_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/run/wrappers/bin"
_ASKERS = (("sudo", ("--",)), ("doas", ("--",)), ("pkexec", ()))


def can_ask() -> bool:
    """Return whether there is a program that may make a user root."""
    return any(shutil.which(name, path=_SYSTEM_PATH) for name, _ in _ASKERS)


def invoking_user() -> int | None:
    """Return the user who ran sudo, pkexec or doas, when this process is root on somebody else's behalf.

    Raises PrivilegeMissing if it cannot be told who that is: root is never taken for granted then.
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
                f"root was asked for by a user whom this system does not know ({name}={value})",
                hint="start ktrial as a user of this system",
            ) from None
        found.add(entry.pw_uid)
    found.discard(0)
    if len(found) > 1:
        listed = ", ".join(f"{name}={value}" for name, value in told.items())
        raise PrivilegeMissing(f"root was asked for by two users ({listed})", hint="unset those that are not true")
    return found.pop() if found else None


def root_transport(
    agent: Path, arguments: Sequence[str], purpose: str, *, may_ask: bool, say: Callable[[str], None]
) -> Transport:
    """Start the agent as root, asking through sudo, doas or pkexec where needed; says what for."""
    argv = [str(agent), *arguments]
    if os.geteuid() == 0:
        check_trusted(agent, 0)
        return ProcessTransport(argv)
    if not may_ask:
        raise PrivilegeMissing(
            f"{purpose} needs root, and --no-sudo forbids asking for it",
            hint="leave out --no-sudo, or run  sudo ./ktrial …; plan, explain, why and doctor work without",
        )
    check_trusted(agent, os.getuid())
    for name, options in _ASKERS:
        program = shutil.which(name, path=_SYSTEM_PATH)
        if program is not None:
            say(f"{purpose} needs root: asking {name}")
            return ProcessTransport([program, *options, *argv], asker=name)
    raise PrivilegeMissing(
        f"{purpose} needs root, and neither sudo, doas nor pkexec is installed",
        hint="run ktrial as root; plan, explain, why and doctor work without",
    )


def check_trusted(agent: Path, uid: int) -> None:
    """Refuse an agent that somebody else than root and the user `uid` could have changed."""
    name, private_group = _user(uid)
    for path in (agent.resolve(), *agent.resolve().parents):
        status = path.stat()
        sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        others = status.st_mode & stat.S_IWOTH and not sticky
        group = status.st_mode & stat.S_IWGRP and status.st_gid not in {0, private_group}
        if status.st_uid not in {0, uid} or others or group:
            raise Refused(
                f"{path} can be changed by somebody else, so the agent in it is not run as root",
                hint=f"give it to {name} alone (chown, chmod go-w), or use a checkout of your own",
            )


def _user(uid: int) -> tuple[str, int | None]:
    """Return the user's name, and the group that nobody else is in."""
    try:
        entry = pwd.getpwuid(uid)
        group = grp.getgrgid(entry.pw_gid)
    except KeyError:
        return f"user {uid}", None
    private = group.gr_name == entry.pw_name and set(group.gr_mem) <= {entry.pw_name}
    return entry.pw_name, entry.pw_gid if private else None

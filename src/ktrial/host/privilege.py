# SPDX-License-Identifier: Apache-2.0
"""How a root agent comes to be: directly, through sudo and its like, or by a helper forked before root was given up.

The head itself never needs root. Started under sudo, it forks a helper that can only start the agent, and becomes the
invoking user before it does anything else.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import signal
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ktrial.domain.errors import PrivilegeMissing, Refused
from ktrial.host.transport import PipeTransport, ProcessTransport, Transport

_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/run/wrappers/bin"
_ASKERS = (("sudo", ("--",)), ("doas", ("--",)), ("pkexec", ()))


class RootHelper:
    """A forked process, still root, that waits to start one agent, and ends when its parent does."""

    def __init__(self, agent: Path, arguments: Sequence[str]) -> None:
        to_agent_read, self._to_agent = os.pipe()
        self._from_agent, from_agent_write = os.pipe()
        go_read, self._go = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            try:
                os.close(self._to_agent)
                os.close(self._from_agent)
                os.close(self._go)
                _wait_and_start(go_read, to_agent_read, from_agent_write, [str(agent), *arguments])
            finally:
                os._exit(127)
        os.close(to_agent_read)
        os.close(from_agent_write)
        os.close(go_read)

    def start(self) -> Transport:
        """Start the agent; once in the life of this process."""
        os.write(self._go, b"S")
        os.close(self._go)
        return PipeTransport(self._to_agent, self._from_agent, self._child)


def _wait_and_start(go: int, stdin: int, stdout: int, argv: list[str]) -> None:
    # What another helper's pipes are known by here would keep them open after their owner.
    for number in set(range(3, 256)) - {go, stdin, stdout}:
        with suppress(OSError):
            os.close(number)
    # A Ctrl-C is the head's to answer; this process ends with it.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.read(go, 1) != b"S":
        os._exit(0)
    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    os.closerange(3, 256)
    os.chdir("/")
    os.execve(argv[0], argv, {"PATH": _SYSTEM_PATH, "LC_ALL": "C"})


def can_ask() -> bool:
    """Whether there is a program that may make a user root."""
    return any(shutil.which(name, path=_SYSTEM_PATH) for name, _ in _ASKERS)


def invoking_user() -> int | None:
    """The user who ran sudo, pkexec or doas, when this process is root on somebody else's behalf."""
    if os.geteuid() != 0:
        return None
    text = os.environ.get("SUDO_UID") or os.environ.get("PKEXEC_UID") or ""
    name = os.environ.get("DOAS_USER", "")
    try:
        uid = pwd.getpwuid(int(text)).pw_uid if text else pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError, OverflowError):
        return None
    return uid or None


def become(uid: int) -> None:
    """Give up root for good and live in that user's home."""
    entry = pwd.getpwuid(uid)
    os.initgroups(entry.pw_name, entry.pw_gid)
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(uid, uid, uid)
    os.environ.update(HOME=entry.pw_dir, USER=entry.pw_name, LOGNAME=entry.pw_name)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
        os.environ.pop(name, None)


def root_transport(
    agent: Path, arguments: Sequence[str], purpose: str, *, may_ask: bool, say: Callable[[str], None]
) -> Transport:
    """Start the agent as root, asking through sudo, doas or pkexec where needed; says what for."""
    argv = [str(agent), *arguments]
    if os.geteuid() == 0:
        check_trusted(agent, agent.stat().st_uid)
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
        others = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
        group = status.st_mode & stat.S_IWGRP and status.st_gid not in {0, private_group}
        if status.st_uid not in {0, uid} or others or group:
            raise Refused(
                f"{path} can be changed by somebody else, so the agent in it is not run as root",
                hint=f"give it to {name} alone (chown, chmod go-w), or use a checkout of your own",
            )


def _user(uid: int) -> tuple[str, int | None]:
    """The user's name, and the group that nobody else is in."""
    try:
        entry = pwd.getpwuid(uid)
        group = grp.getgrgid(entry.pw_gid)
    except KeyError:
        return f"user {uid}", None
    private = group.gr_name == entry.pw_name and set(group.gr_mem) <= {entry.pw_name}
    return entry.pw_name, entry.pw_gid if private else None

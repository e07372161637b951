# SPDX-License-Identifier: Apache-2.0
"""How a root agent comes to be: directly, through sudo and its like, or by a helper forked before root was given up.

The head itself never needs root. Started under sudo, it forks a helper that can only start the agent, and becomes the
invoking user before it does anything else.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from ktrial.domain.errors import PrivilegeMissing, Refused
from ktrial.host.transport import PipeTransport, ProcessTransport, Transport

_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/run/wrappers/bin"
_ASKERS = (("sudo", ("--",)), ("doas", ()), ("pkexec", ("--keep-cwd",)))


class RootHelper:
    """A forked process, still root, that waits to start one agent, and ends when its parent does."""

    def __init__(self, agent: Path, arguments: Sequence[str]) -> None:
        to_agent_read, self._to_agent = os.pipe()
        self._from_agent, from_agent_write = os.pipe()
        go_read, self._go = os.pipe()
        if os.fork() == 0:
            os.close(self._to_agent)
            os.close(self._from_agent)
            os.close(self._go)
            _wait_and_start(go_read, to_agent_read, from_agent_write, [str(agent), *arguments])
        os.close(to_agent_read)
        os.close(from_agent_write)
        os.close(go_read)

    def start(self) -> Transport:
        """Start the agent; once in the life of this process."""
        os.write(self._go, b"S")
        os.close(self._go)
        return PipeTransport(os.fdopen(self._to_agent, "wb"), os.fdopen(self._from_agent, "rb"))


def _wait_and_start(go: int, stdin: int, stdout: int, argv: list[str]) -> None:
    if os.read(go, 1) != b"S":
        os._exit(0)
    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    os.closerange(3, 256)
    os.chdir("/")
    os.execve(argv[0], argv, {"PATH": _SYSTEM_PATH, "LC_ALL": "C"})


def invoking_user() -> int | None:
    """The user who ran sudo, when this process is root on somebody else's behalf."""
    text = os.environ.get("SUDO_UID") or os.environ.get("PKEXEC_UID") or os.environ.get("DOAS_UID") or ""
    if os.geteuid() != 0 or not text.isdigit() or int(text) == 0:
        return None
    return int(text)


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
        return ProcessTransport(argv)
    if not may_ask:
        raise PrivilegeMissing(
            f"{purpose} needs root, and --no-sudo forbids asking for it",
            hint="leave out --no-sudo, or run  sudo ./ktrial …; plan, explain, why and doctor work without",
        )
    check_trusted(agent)
    for name, options in _ASKERS:
        program = shutil.which(name, path=_SYSTEM_PATH)
        if program is not None:
            say(f"{purpose} needs root: asking {name}")
            keep = () if name == "pkexec" else options
            return ProcessTransport([program, *keep, *argv])
    raise PrivilegeMissing(
        f"{purpose} needs root, and neither sudo, doas nor pkexec is installed",
        hint="run ktrial as root; plan, explain, why and doctor work without",
    )


def check_trusted(agent: Path) -> None:
    """Refuse an agent that somebody else than root and this user could have changed."""
    me = pwd.getpwuid(os.getuid())
    for path in (agent.resolve(), *agent.resolve().parents):
        status = path.stat()
        others = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
        group = status.st_mode & stat.S_IWGRP and status.st_gid not in {0, me.pw_gid}
        if status.st_uid not in {0, me.pw_uid} or others or group:
            raise Refused(
                f"{path} can be changed by somebody else, so its agent is not run as root",
                hint=f"give it to {me.pw_name} alone (chown, chmod go-w), or use a checkout of your own",
            )

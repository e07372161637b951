# SPDX-License-Identifier: Apache-2.0
"""The way to another machine through the user's own `ssh` program and its configuration."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

from ktrial.agent.foreign_agent import agent_architecture
from ktrial.kit.errors import BadInput, KtrialError, in_lower_case

#: The variable that names a program and options to use in place of `ssh`, as GIT_SSH_COMMAND does for git.
SSH_VARIABLE = "KTRIAL_SSH"

#: The status with which ssh itself fails; others are those of the command.
_SSH_FAILED = 255


class SshWay:
    """A machine that `ssh NAME` reaches; implements `agent.remote.Way`."""

    program = "ssh"
    bases = (
        '"${XDG_CACHE_HOME:-$HOME/.cache}/ktrial" "${XDG_STATE_HOME:-$HOME/.local/state}/ktrial" '
        '"${XDG_RUNTIME_DIR:-/run/user/$(id -u)}/ktrial"'
    )
    place_hint = "on that machine, set XDG_CACHE_HOME to a folder with 10 MB free and without noexec"
    login_hint = "check that the machine has /bin/sh, and that the user's login shell runs commands sent by ssh"
    #: ssh has a limit of its own, and may wait for a person who types a password.
    answer_limit_s: float | None = None

    def __init__(self, name: str) -> None:
        self.name = name

    def argv(self, script: str) -> list[str]:
        options = ("-T", "-x", "-a", "-o", "RemoteCommand=none", "-o", "ClearAllForwardings=yes")
        return [*ssh_words(), *options, "--", self.name, f"exec /bin/sh -c '{script}'"]

    def has_failed(self, status: int, why: str) -> bool:
        del why
        return status == _SSH_FAILED

    def cannot_connect(self, why: str) -> KtrialError:
        return KtrialError(f"cannot connect to {self.name}: {why}", hint=f"first make `ssh {self.name} true` work")

    def architecture(self, machine: str) -> str:
        return agent_architecture(machine)


def ssh_words() -> list[str]:
    """Return the words that start ssh: its path, or the program and options in `KTRIAL_SSH`.

    Raise BadInput if `KTRIAL_SSH` is badly quoted or names no executable program. Raise KtrialError if the variable is
    unset and ssh is not installed.
    """
    given = os.environ.get(SSH_VARIABLE)
    try:
        words = ["ssh"] if given is None else shlex.split(given)
    except ValueError as error:
        raise BadInput(
            f"{SSH_VARIABLE}: {in_lower_case(str(error))}", hint=f"quote the words of {SSH_VARIABLE} as in a shell"
        ) from None
    found = shutil.which(words[0]) if words else None
    if found is not None:
        return [found, *words[1:]]
    if given is None:
        raise KtrialError("cannot find ssh", hint="install OpenSSH's client; Debian: sudo apt install openssh-client")
    why = f"cannot find an executable {words[0]}" if words else "the value names no program"
    raise BadInput(f"{SSH_VARIABLE}: {why}", hint=f"set {SSH_VARIABLE} to an installed program, as in 'ssh -F FILE'")


def configured_host(name: str) -> str:
    """Return the host name or address that ssh connects to for a name in its configuration, without connecting."""
    done = subprocess.run([*ssh_words(), "-G", "--", name], capture_output=True, text=True, check=False)
    found = next((line.split()[1] for line in done.stdout.splitlines() if line.startswith("hostname ")), None)
    if done.returncode != 0 or found is None:
        said = (done.stderr.strip().splitlines() or [f"`ssh -G` ended with status {done.returncode}"])[-1]
        raise KtrialError(
            f"cannot read ssh's configuration for {name}: {said}", hint=f"first make `ssh -G {name}` work"
        )
    return found


def check_name(word: str, name: str, option: str = "--host") -> None:
    """Raise BadInput for a `name` that ssh would read as an option, or as several words, instead of a machine."""
    if not name or name.startswith("-") or any(not one.isprintable() or one.isspace() for one in name):
        raise BadInput(f"{option} {word}: not the name of a machine", hint=f"write {option} ssh:NAME, as in `ssh NAME`")

# SPDX-License-Identifier: Apache-2.0
"""Builds the `ssh` command of a connection as Ansible would, but without a password."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Sequence
from typing import Any


def ssh_words(option: Callable[[str], Any]) -> list[str]:
    """Return the program and options of an `ssh` connection, in Ansible's order, in which the first option wins.

    `option` returns the value of one option of the connection.
    """
    words = [str(option("ssh_executable") or "ssh"), *_split(option("ssh_args"))]
    if option("host_key_checking") is False:
        words += ["-o", "StrictHostKeyChecking=no"]
    if option("port") is not None:
        words += ["-o", f"Port={option('port')}"]
    if option("private_key_file"):
        words += ["-o", f'IdentityFile="{os.path.expanduser(option("private_key_file"))}"']  # noqa: PTH111 (~ alone)
    if option("remote_user"):
        words += ["-o", f'User="{option("remote_user")}"']
    words += ["-o", f"ConnectTimeout={option('timeout')}", "-o", "BatchMode=yes"]
    words += [*_split(option("ssh_common_args")), *_split(option("ssh_extra_args"))]
    # If the machine is gone, a connection that later tasks share ends instead of making them wait.
    words += ["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"]
    if _shares_a_connection(words):
        words += ["-o", f'ControlPath="{control_path(option, words)}"']
    return words


def control_path(option: Callable[[str], Any], words: Sequence[str]) -> str:
    """Return the path of the socket through which tasks share a connection.

    Each machine, and each way to reach it, has a path of its own. Ansible's path ignores jump hosts and configuration
    files, and could lead to another machine.
    """
    folder = control_folder(option)
    if option("control_path"):
        return str(option("control_path") % {"directory": folder})
    name = "\0".join([str(option("host")), *words])
    return f"{folder}/ktrial-{hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:10]}"


def control_folder(option: Callable[[str], Any]) -> str:
    folder = os.path.expanduser(os.path.expandvars(str(option("control_path_dir"))))  # noqa: PTH111 (a variable first)
    return os.path.abspath(folder)  # noqa: PTH100 (links stay)


def _split(arguments: str | None) -> list[str]:
    return [word for word in shlex.split(arguments or "") if word.strip()]


def _shares_a_connection(words: Sequence[str]) -> bool:
    """Return whether ssh keeps connections for later commands but the path of the socket is not set."""
    lower = " ".join(words).lower()
    return "controlpersist" in lower and "controlpath" not in lower

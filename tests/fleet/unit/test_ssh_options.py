# SPDX-License-Identifier: Apache-2.0
"""The options of a connection of Ansible become words of `KTRIAL_SSH`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ktrial.fleet.ansible_collections.ktrial.tuning.plugins.plugin_utils.ssh_words import ssh_words

DEFAULTS: dict[str, Any] = {
    "ssh_executable": "ssh",
    "ssh_args": "-C -o ControlMaster=auto -o ControlPersist=60s",
    "host_key_checking": True,
    "host": "web1",
    "port": None,
    "private_key_file": None,
    "remote_user": None,
    "timeout": 10,
    "ssh_common_args": "",
    "ssh_extra_args": "",
    "control_path": None,
    "control_path_dir": "/tmp/cp",
}


def options(**more: Any) -> Callable[[str], Any]:
    return lambda name: {**DEFAULTS, **more}[name]


def test_the_defaults_share_the_connection_of_ansibles_own_tasks() -> None:
    assert ssh_words(options()) == [
        *("ssh", "-C", "-o", "ControlMaster=auto", "-o", "ControlPersist=60s"),
        *("-o", "ConnectTimeout=10", "-o", "BatchMode=yes"),
        # The name that Ansible gives to the socket: the SHA-1 of "web1-None-None".
        *("-o", 'ControlPath="/tmp/cp/ae750fdd40"'),
    ]


def test_everything_that_an_inventory_can_say() -> None:
    words = ssh_words(
        options(
            ssh_executable="/opt/bin/ssh",
            ssh_args=None,
            host_key_checking=False,
            port=2222,
            private_key_file="/keys/my key",
            remote_user="deploy",
            timeout=3,
            ssh_common_args="-o ProxyCommand='ssh -W %h:%p gate'",
            ssh_extra_args="-F 'a file'",
        )
    )
    assert words == [
        *("/opt/bin/ssh", "-o", "StrictHostKeyChecking=no", "-o", "Port=2222"),
        *("-o", 'IdentityFile="/keys/my key"', "-o", 'User="deploy"'),
        *("-o", "ConnectTimeout=3", "-o", "BatchMode=yes"),
        *("-o", "ProxyCommand=ssh -W %h:%p gate", "-F", "a file"),
    ]


def test_a_socket_of_the_users_own_is_kept() -> None:
    own = ssh_words(options(ssh_common_args="-o ControlPath=/run/mine"))
    assert [word for word in own if "ControlPath" in word] == ["ControlPath=/run/mine"]
    named = ssh_words(options(control_path="%(directory)s/%%h-%%r"))
    assert named[-1] == 'ControlPath="/tmp/cp/%h-%r"'
    assert not any("ControlPath" in word for word in ssh_words(options(ssh_args="-C")))

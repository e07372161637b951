# SPDX-License-Identifier: Apache-2.0
"""The options of a connection of Ansible become words of `KTRIAL_SSH`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

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


LAST = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")


def test_the_defaults_share_one_connection() -> None:
    words = ssh_words(options())
    assert words[:-2] == [
        *("ssh", "-C", "-o", "ControlMaster=auto", "-o", "ControlPersist=60s"),
        *("-o", "ConnectTimeout=10", "-o", "BatchMode=yes", *LAST),
    ]
    assert re.fullmatch(r'ControlPath="/tmp/cp/ktrial-[0-9a-f]{10}"', words[-1])
    assert ssh_words(options()) == words


@pytest.mark.parametrize("more", [{"host": "web2"}, {"port": 1}, {"ssh_common_args": "-J gate"}, {"remote_user": "a"}])
def test_another_machine_or_way_never_shares_it(more: dict[str, Any]) -> None:
    assert ssh_words(options(**more))[-1] != ssh_words(options())[-1]


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
        *("-o", "ProxyCommand=ssh -W %h:%p gate", "-F", "a file", *LAST),
    ]


def test_a_socket_of_the_users_own_is_kept() -> None:
    own = ssh_words(options(ssh_common_args="-o ControlPath=/run/mine"))
    assert [word for word in own if "ControlPath" in word] == ["ControlPath=/run/mine"]
    named = ssh_words(options(control_path="%(directory)s/%%h-%%r"))
    assert named[-1] == 'ControlPath="/tmp/cp/%h-%r"'
    assert not any("ControlPath" in word for word in ssh_words(options(ssh_args="-C")))

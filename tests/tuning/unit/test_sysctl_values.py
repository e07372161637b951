# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ktrial.tuning.origin.formats.sysctl_d import read_sysctl_values, sysctl_differences


def test_values_of_a_guest() -> None:
    text = (
        b"/proc/sys/vm/swappiness:60\n/proc/sys/net/ipv4/tcp_rmem:4096\t131072\t6291456\n"
        b"/proc/sys/net/ipv4/conf/eth0.1/forwarding:0\n/proc/sys/dev/cdrom/info:one\n/proc/sys/dev/cdrom/info:two\n"
        b"/proc/sys/kernel/random/boot_id:0c63edf4\ngrep: something\n"
    )
    assert read_sysctl_values(text) == {
        "vm.swappiness": "60",
        "net.ipv4.tcp_rmem": "4096 131072 6291456",
        "net.ipv4.conf.eth0/1.forwarding": "0",
        "dev.cdrom.info": "one; two",
    }


def test_what_differs() -> None:
    assert sysctl_differences({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "4", "d": "5"}) == {
        "b": ("2", "4"),
        "c": ("3", None),
        "d": (None, "5"),
    }


@given(st.binary(max_size=200))
def test_any_output_is_read(data: bytes) -> None:
    assert all(isinstance(value, str) for value in read_sysctl_values(data).values())

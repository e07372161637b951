# SPDX-License-Identifier: Apache-2.0
"""The way to a phone: what adb prints about devices, and what the end of adb means."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.agent.adb import AdbWay, devices_in
from ktrial.agent.adb_copy import check_runs
from ktrial.kit.errors import BadInput, KtrialError

LISTED = """* daemon not running; starting now at tcp:5037
* daemon started successfully
List of devices attached
3A041FDJG\tdevice
emulator-5554\toffline
192.168.1.5:5555\tunauthorized
0123\tno permissions (user in plugdev group; are your udev rules wrong?); see [http://developer.android.com]
"""


def test_devices_and_their_states() -> None:
    assert devices_in(LISTED) == [
        ("3A041FDJG", "device"),
        ("emulator-5554", "offline"),
        ("192.168.1.5:5555", "unauthorized"),
        ("0123", "no permissions"),
    ]
    assert devices_in("List of devices attached\n\n") == []


@pytest.mark.parametrize(
    "machine, agent", [("aarch64", "aarch64"), ("armv8l", "aarch64"), ("armv7l", "armv7"), ("x86_64", "x86_64")]
)
def test_each_kernel_gets_its_agent_whatever_the_width_of_its_shell(machine: str, agent: str) -> None:
    assert AdbWay("x").architecture(machine) == agent


def test_a_kernel_without_an_agent_is_named() -> None:
    with pytest.raises(KtrialError, match="armv6l") as caught:
        AdbWay("x").architecture("armv6l")
    assert caught.value.hint == "use a phone with a kernel for aarch64 or armv7 or x86_64"


@pytest.mark.parametrize(
    "status, why, has_failed",
    [(0, "", True), (1, "error: device offline", True), (1, "cannot lock it: another head has just removed it", False)],
)
def test_what_the_end_of_adb_means(status: int, why: str, has_failed: bool) -> None:
    assert AdbWay("x").has_failed(status, why) is has_failed


@pytest.mark.parametrize(
    "data, said",
    [
        (b"text", "neither a program nor a script"),
        (Path("/bin/ls").read_bytes(), "which phones lack"),
        (Path("/bin/ls").read_bytes()[:18] + b"\xb7\0" + Path("/bin/ls").read_bytes()[20:], "built for aarch64"),
    ],
    ids=["text", "dynamic", "foreign"],
)
def test_a_program_that_no_phone_starts_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        check_runs(Path("x"), data, "x86_64")

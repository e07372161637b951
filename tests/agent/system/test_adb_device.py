# SPDX-License-Identifier: Apache-2.0
"""The tests' own end of adb speaks the protocol: the real adb says so, and its trace has the same messages."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.support.phone import phone
from tests.support.terminal import eventually

_MESSAGE = re.compile(r"(to|from) remote: \[(\w{4})\] arg0=(\w+) arg1=(\w+) \(len=(\d+)\)")


def traced(log: str, way: str) -> list[str]:
    """The messages in one direction, as adb's own trace has them."""
    found = (one.groups() for one in _MESSAGE.finditer(log) if one[1] == way)
    return [f"{command} {int(one, 0)} {int(other, 0)} {length}" for _, command, one, other, length in found]


def test_every_message_is_the_one_that_adb_traces(tmp_path: Path) -> None:
    with phone(plugged_in=False) as pixel:
        pixel.stop_server()
        pixel.start_server(trace="transport packets")
        assert pixel.plug_in() == "device"
        done = pixel.adb("shell", "-T", "cat /proc/self/comm; echo wrong >&2; exit 7")
        assert (done.returncode, done.stdout, done.stderr) == (7, "cat\n", "wrong\n")
        content = os.urandom(300_000)
        (tmp_path / "sent").write_bytes(content)
        assert pixel.adb("push", str(tmp_path / "sent"), "/data/local/tmp/there").returncode == 0
        assert (pixel.home / "there").read_bytes() == content
        assert pixel.adb("pull", "/data/local/tmp/there", str(tmp_path / "back")).returncode == 0
        assert (tmp_path / "back").read_bytes() == content
        failed = pixel.adb("push", str(tmp_path / "sent"), "/system/there")
        assert "Permission denied" in failed.stdout + failed.stderr
        assert pixel.adb("pull", "/data/local/tmp/none", str(tmp_path / "none")).returncode == 1

        def wire(side: str) -> list[str]:
            return [line.removeprefix(f"{side} ") for line in pixel.wire() if line.startswith(f"{side} ")]

        def log() -> str:
            return (pixel.folder / "adb.log").read_text()

        assert eventually(lambda: traced(log(), "to") == wire("host"), 5)
        assert eventually(lambda: traced(log(), "from") == wire("device"), 5)
        assert {line.split(maxsplit=1)[0] for line in pixel.wire()} == {"host", "device"}
        assert {line.split()[1] for line in pixel.wire()} == {"CNXN", "AUTH", "OPEN", "OKAY", "WRTE", "CLSE"}


def test_a_key_is_accepted_once_and_then_known() -> None:
    with phone() as pixel:
        before = len(pixel.wire())
        pixel.set(auth="refuse")
        pixel.adb("disconnect")
        assert pixel.plug_in() == "device"
        assert [line for line in pixel.wire()[before:] if "AUTH 3" in line] == []
        (pixel.folder / "adb_keys").unlink()
        pixel.adb("disconnect")
        pixel.adb("connect", pixel.serial)
        assert "unauthorized" in pixel.adb("devices").stdout

# SPDX-License-Identifier: Apache-2.0
"""Reach a phone through the user's own `adb` program and its server."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from typing import NamedTuple

from ktrial.agent.foreign_agent import agent_architecture
from ktrial.kit.errors import BadInput, KtrialError

#: The folder of a phone in which the shell's user may write files and start programs.
TEMPORARY = "/data/local/tmp"
#: Seconds that adb may take to answer about devices, including the start of its server.
_ASK_LIMIT_S = 30.0
#: A phone that was just plugged in is `offline` or `unauthorized` for a moment.
_SETTLE_S, _LOOK_S = 3.0, 0.2
#: The agents that phones can run.
_ARCHITECTURES = ("aarch64", "armv7", "x86_64")
_STATES = {
    "unauthorized": (
        "the phone has not allowed this computer",
        "unlock the phone and accept the question about USB debugging",
    ),
    "authorizing": ("the phone has not answered yet", "run the command again"),
    "connecting": ("the phone has not answered yet", "run the command again"),
    "offline": (
        "the phone does not answer (offline)",
        "run `adb reconnect offline`, then the command again",
    ),
    "no permissions": (
        "this user may not open the phone's USB device",
        (
            "install the udev rules for Android (Debian: sudo apt install android-sdk-platform-tools-common), "
            "then plug the cable in again"
        ),
    ),
    "recovery": ("the phone is in recovery mode", "start Android on the phone"),
    "sideload": ("the phone waits for a sideload", "start Android on the phone"),
    "bootloader": ("the phone is in its boot loader", "start Android on the phone"),
}


class ListedDevice(NamedTuple):
    """A line in the output of `adb devices`."""

    serial: str
    state: str


def devices_in(text: str) -> list[ListedDevice]:
    """Return the devices in the output of `adb devices`."""
    found = (re.match(r"(\S+)\s+(\S.*)", line) for line in text.splitlines() if not line.startswith(("List of", "*")))
    return [
        ListedDevice(one[1], next((state for state in _STATES if one[2].startswith(state)), one[2].split()[0]))
        for one in found
        if one is not None
    ]


class AdbWay:
    """Reaches the phone with a given serial number; implements `agent.remote.Way`."""

    program = "adb"
    bases = f"{TEMPORARY}/ktrial /data/adb/ktrial-agents"
    place_hint = f"make {TEMPORARY} a folder that the shell may write to, with 10 MB free and without noexec"
    login_hint = "check that `adb shell` opens a shell on the phone"
    answer_limit_s: float | None = 30.0

    def __init__(self, serial: str) -> None:
        self.name = serial

    def argv(self, script: str) -> list[str]:
        check_is_there(self.name)
        return [_program(), "-s", self.name, "shell", "-T", "-e", "none", script]

    def has_failed(self, status: int, why: str) -> bool:
        # If the cable is pulled, adb ends with status 0 and says nothing.
        return status == 0 or why.startswith(("error: ", "adb: "))

    def cannot_connect(self, why: str) -> KtrialError:
        hint = f"first make `adb -s {self.name} shell true` work"
        if "only supports allocating a pty" in why or "does not support" in why:
            return KtrialError(
                f"cannot use {self.name}: its adbd is too old", hint="update the phone to Android 7 or newer"
            )
        return KtrialError(f"cannot connect to {self.name}: {why.removeprefix('error: ')}", hint=hint)

    def architecture(self, machine: str) -> str:
        architecture = agent_architecture(machine)
        if architecture not in _ARCHITECTURES:
            raise KtrialError(
                f"cannot use {self.name}: ktrial has no agent for its kernel ({machine or 'unknown architecture'})",
                hint=f"use a phone with a kernel for {' or '.join(_ARCHITECTURES)}",
            )
        return architecture


def _program() -> str:
    found = shutil.which("adb")
    if found is None:
        raise KtrialError("cannot find adb", hint="install Android's platform tools; Debian: sudo apt install adb")
    return found


def _ask(*words: str) -> str:
    """Run adb and return what it prints. Raise KtrialError if it fails."""
    try:
        done = subprocess.run(
            [_program(), *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise KtrialError(
            f"adb does not answer: `adb {' '.join(words)}` ran for {_ASK_LIMIT_S:.0f} s",
            hint="run `adb kill-server`, then the command again",
        ) from None
    except OSError as error:
        raise KtrialError(f"cannot start adb: {error.strerror}", hint="first make `adb devices` work") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace").splitlines()
        why = said[-1] if said else f"status {done.returncode}"
        command = f"`adb {' '.join(words)}`"
        raise KtrialError(f"cannot run {command}: {why}", hint=f"first make {command} work")
    return done.stdout.decode(errors="replace")


def _devices(serial: str | None = None) -> list[ListedDevice]:
    """Return the devices that adb lists, after waiting a moment until `serial`, or any device, is ready."""
    deadline_s = time.monotonic() + _SETTLE_S
    while True:
        found = devices_in(_ask("devices"))
        ours = [one for one in found if serial in (None, one.serial)]
        if not ours or any(one.state not in _STATES for one in ours) or time.monotonic() > deadline_s:
            return found
        time.sleep(_LOOK_S)


def find_serial() -> str:
    """Return the serial number of the only ready phone, or of the only phone if no phone is ready.

    Raise KtrialError if adb lists no phone, BadInput if several phones qualify.
    """
    found = _devices()
    if not found:
        raise KtrialError(
            "cannot find a phone: adb lists no device",
            hint="plug in a phone with USB debugging enabled",
        )
    found = [one for one in found if one.state not in _STATES] or found
    if len(found) > 1:
        named = ", ".join(one.serial for one in found)
        raise BadInput(
            f"--host adb needs a serial number: adb lists several devices ({named})",
            hint=f"for example  --host adb:{found[0].serial}",
        )
    return found[0].serial


def check_is_there(serial: str) -> None:
    """Raise KtrialError if adb cannot reach the phone. First connect to the phone if `serial` is HOST:PORT."""
    said = ""
    if re.fullmatch(r"\S+:\d+", serial) and all(one.serial != serial for one in devices_in(_ask("devices"))):
        said = _ask("connect", serial).strip()
    found = next((one for one in _devices(serial) if one.serial == serial), None)
    if found is None:
        raise KtrialError(
            f"cannot find {serial}: {said or 'adb does not list it'}",
            hint=f"first make `adb connect {serial}` work"
            if said
            else "check the serial number, the cable and USB debugging",
        )
    if found.state in _STATES:
        why, hint = _STATES[found.state]
        raise KtrialError(f"cannot connect to {serial}: {why}", hint=hint)


def check_serial(word: str, serial: str) -> None:
    """Raise BadInput for a `serial` that adb would read as an option or as several words.

    The error shows `word`, the value of --host.
    """
    if serial.startswith("-") or any(not one.isprintable() or one.isspace() for one in serial):
        raise BadInput(
            f"--host {word}: not a serial number",
            hint="use --host adb:SERIAL with a serial number from `adb devices`",
        )

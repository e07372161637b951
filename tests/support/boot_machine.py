# SPDX-License-Identifier: Apache-2.0
"""Folders that stand for machines which ktrial can boot: Debian with GRUB, and with systemd-boot."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ktrial.agent.session import AgentSession
from ktrial.bench.around import around_run
from ktrial.cli.shared.drift_timer import program
from ktrial.kit.errors import AgentError
from tests.support.tree import FakeRoot, Ran
from tests.tuning.unit.test_boot_entry import debian

ENVIRONMENT = "# GRUB Environment Block\n".ljust(1024, "#")
ENTRIES = "/boot/grub/custom.cfg"
GRUB_ENVIRONMENT = "/boot/grub/grubenv"
NEXT_UNIT = "etc/systemd/system/ktrial-boot-next.service"
_REHEARSED = {"event": "rehearsed", "entry": "ktrial-rehearsal", "boot_id": "a", "at": 1, "loader": "grub"}
_ANALYZE = """#!/bin/sh
if [ "$1" = --version ]; then
    echo "systemd 252 (252.39-1~deb12u1)"
else
    echo "Startup finished in 1.204s (kernel) + 3.110s (userspace) = 4.314s "
    echo "multi-user.target reached after 3.110s in userspace."
fi
"""


def boot_with_grub(root: FakeRoot) -> FakeRoot:
    """Let the machine boot Debian with GRUB, from a file system that GRUB can write to."""
    grounds = debian()
    for path in grounds.files:
        root.write(path, "text")
    root.write("/proc/cmdline", grounds.command_line)
    root.write("/proc/self/mounts", "/dev/sda2 / ext4 rw 0 0\n")
    root.write("/proc/self/mountinfo", "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n")
    root.write("/proc/sys/kernel/osrelease", f"{grounds.release}\n")
    root.write("/proc/sys/kernel/arch", "x86_64\n")
    root.write("/boot/grub/grub.cfg", grounds.grub_text)
    root.write("/boot/grub/grubenv", ENVIRONMENT)
    root.write("/sys/class/watchdog/watchdog0/identity", "iTCO_wdt\n")
    root.write("/etc/systemd/system/own.service", "[Unit]\n")
    root.write(program(), "")
    (root.folder / program().lstrip("/")).chmod(0o755)
    return root


class BootedMachine:
    """A machine with GRUB that boots: it acts as the loader and systemd do, and runs the unit after each boot.

    `boots` lists the entries that were booted, "" for the default one. Unless `is_healthy` is set, each boot of an
    entry fails its health check, and the default entry is booted.
    """

    def __init__(self, root: FakeRoot, home: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = boot_with_grub(root)
        self.boots: list[str] = []
        self.said: list[Ran] = []
        self.is_healthy = True
        self._default = root.read("/proc/cmdline")
        self._reboots = False
        (root.folder / ".ktrial-test-machine").touch()
        # This creates the agent's state folder, in which the agent looks for a rehearsal.
        root.run("boot", "try", "threadirqs", "--yes", "--no-reboot")
        root.run("boot", "undo")
        self._record(_REHEARSED)
        self.add_program("/usr/bin/systemd-analyze", _ANALYZE)
        # The folders of runs, inside the folder that stands for the machine.
        below = self.root.folder / str(home).lstrip("/")
        below.mkdir(parents=True)
        (below / ".local").symlink_to(home / ".local")
        patch.setattr(AgentSession, "request", self._request_of(AgentSession.request))
        # Other load on the test machine does not matter here.
        patch.setattr(around_run, "OTHERS_S", 0.0)

    def _request_of(self, request: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        def asked(session: AgentSession, do: str, **fields: Any) -> dict[str, Any]:
            try:
                return request(session, do, **fields)
            except AgentError as error:
                # A request that the agent would refuse on a real machine has another message.
                if do != "reboot" or "cannot run systemctl" not in error.message:
                    raise
                self._reboots = True
                return {}

        return asked

    def add_program(self, place: str, script: str) -> None:
        """Put a program on the machine."""
        self.root.write(place, script)
        (self.root.folder / place.lstrip("/")).chmod(0o755)

    def files(self) -> dict[str, str]:
        """Return the contents of the files that boots must not change: without the agent's own files and /proc."""
        places = {path: str(path.relative_to(self.root.folder)) for path in self.root.folder.rglob("*")}
        return {
            name: path.read_text()
            for path, name in places.items()
            if path.is_file() and not name.startswith(("var/lib/ktrial/", "proc/", "run/", "tmp/"))
        }

    def run(self, *argv: str) -> Ran:
        """Run a command; if it reboots the machine, boot."""
        done = self.root.run(*argv)
        if self._reboots:
            self.boot()
        return done

    def boot(self) -> None:
        """Boot the armed entry, or else the default entry."""
        self._reboots = False
        entry = self._take_armed()
        self.boots.append(entry)
        line = self._default if not entry else self._line_of(entry)
        self.root.write("/proc/cmdline", line)
        boot_id = f"{len(self.boots):08d}-2222-3333-4444-555555555555"
        self.root.write("/proc/sys/kernel/random/boot_id", f"{boot_id}\n")
        if entry:
            self._check(entry, boot_id)
            if not self.is_healthy:
                self.boot()

    def _check(self, entry: str, boot_id: str) -> None:
        """Record the result of the agent's health check."""
        lines = self._records.read_text().splitlines()
        armed = next(one for one in map(json.loads, reversed([*filter(None, lines)])) if one["event"] == "armed")
        for event in ("started", "healthy" if self.is_healthy else "failed"):
            self._record({**armed, "event": event, "entry": entry, "boot_id": boot_id, "before": None})

    @property
    def _records(self) -> Path:
        return self.root.folder / "var/lib/ktrial/boots.jsonl"

    def _record(self, event: Mapping[str, Any]) -> None:
        with self._records.open("a") as file:
            file.write(json.dumps(event) + "\n")

    def go_on(self, most: int = 1000) -> int:
        """Run the unit after each boot until nothing boots the machine any more; return the number of runs."""
        for number in range(most):
            trial = self._trial_to_continue()
            if trial is None:
                return number
            self.said.append(self.root.run("trial", "next", trial, "--boots"))
            if not self._reboots:
                return number + 1
            self.boot()
        return most

    def _trial_to_continue(self) -> str | None:
        unit = self.root.folder / NEXT_UNIT
        found = re.search(r" --trial (\S+) ", unit.read_text()) if unit.exists() else None
        return None if found is None else found[1]

    def _take_armed(self) -> str:
        lines = self.root.read(GRUB_ENVIRONMENT).rstrip("#").splitlines()
        armed = "".join(line.partition("=")[2] for line in lines if line.startswith("next_entry="))
        kept = [line for line in lines if not line.startswith(("next_entry=", "ktrial_boot="))]
        if armed:
            kept += ["next_entry=", f"ktrial_boot={armed}"]
        elif "next_entry=" in lines:
            kept.append("next_entry=")
        self.root.write(GRUB_ENVIRONMENT, "".join(f"{line}\n" for line in kept).ljust(1024, "#"))
        return armed

    def _line_of(self, entry: str) -> str:
        (found,) = re.findall(rf"--id '{entry}' {{\n.*?\tlinux (\S+) ([^\n]*)\n", self.root.read(ENTRIES), re.DOTALL)
        return f"BOOT_IMAGE={found[0]} {found[1]}\n"

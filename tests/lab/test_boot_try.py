# SPDX-License-Identifier: Apache-2.0
"""Boots that ktrial tries through real loaders: a good one is kept, and every bad one leads back by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.boot_attempts import Attempts
from tests.support.boot_counts import record_count
from tests.support.boot_guest import LOADERS, BootGuest, BootImages
from tests.support.debian_guest import CLONE

pytestmark = [pytest.mark.xdist_group("debian-guest"), pytest.mark.timeout(5400)]

WORD = "transparent_hugepage=never"
KTRIAL = f"{CLONE}/ktrial"
#: What an attempt must leave as it was.
FILES = "find /boot /etc/systemd /etc/default -type f -printf '%p %m %u %g %s ' -exec sha256sum {} ';' | sort"


@pytest.fixture(params=LOADERS)
def guest(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BootGuest]:
    with BootGuest(BootImages.make(request.param, tmp_path), tmp_path) as running:
        yield running


def succeed(guest: BootGuest, script: str) -> str:
    ran = guest.run(script)
    assert ran.status == 0, ran.err + ran.out
    return ran.out


def status(guest: BootGuest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(succeed(guest, f"{KTRIAL} boot status --json"))
    return found


def events(guest: BootGuest) -> list[str]:
    return [f"{one['event']} {one['entry'].removeprefix('ktrial-')}" for one in status(guest)["events"]]


def wait_for(guest: BootGuest, event: str) -> None:
    look = f"grep -q '\"{event}\"' /var/lib/ktrial/boots.jsonl"
    succeed(guest, f"for second in $(seq 300); do {look} && exit 0; sleep 1; done; exit 1")


def test_a_good_change_is_rehearsed_tried_and_undone(guest: BootGuest) -> None:
    before = succeed(guest, FILES)
    succeed(guest, f"{KTRIAL} boot try {WORD}")
    assert succeed(guest, FILES) == before, "without --yes nothing is written"
    guest.send(f"{KTRIAL} boot try {WORD} --yes > /root/said 2>&1")
    guest.wait_boot()
    guest.wait_boot()
    assert WORD in guest.command_line()
    wait_for(guest, "healthy")
    assert events(guest) == ["armed rehearsal", "rehearsed rehearsal", "armed trial", "started trial", "healthy trial"]
    guest.reboot()
    assert WORD not in guest.command_line()
    assert events(guest)[-1] == "left trial"
    succeed(guest, f"{KTRIAL} boot undo")
    assert succeed(guest, FILES) == before


@pytest.mark.parametrize("guest", ["grub-bios"], indirect=True)
def test_the_running_kernel_starts_an_entry_and_firmware_leads_back(guest: BootGuest) -> None:
    before = succeed(guest, FILES)
    guest.send(f"{KTRIAL} boot try {WORD} --kexec --yes > /root/said 2>&1")
    guest.wait_boot()
    guest.wait_boot()
    assert WORD in guest.command_line()
    wait_for(guest, "healthy")
    assert events(guest) == ["armed rehearsal", "rehearsed rehearsal", "armed trial", "started trial", "healthy trial"]
    # The loader was passed over: it has started only the default entry.
    assert "Booting `ktrial" not in guest.console
    guest.reboot()
    assert WORD not in guest.command_line()
    succeed(guest, f"{KTRIAL} boot undo")
    assert succeed(guest, FILES) == before


def test_grub_that_cannot_write_starts_its_first_entry(tmp_path: Path) -> None:
    """Both its own line, which forgets the entry, and the entry's, which notes that it was started, fail."""
    with BootGuest(BootImages.make("grub-bios", tmp_path), tmp_path) as guest:
        succeed(guest, f"{KTRIAL} boot try {WORD} --yes --no-reboot")
        files = "/boot/grub/grub.cfg /boot/grub/custom.cfg"
        succeed(guest, f"sed -i 's|save_env |save_env --file=/nonexistent |' {files}")
        guest.send("systemctl reboot")
        guest.wait_boot()
        guest.assert_running()
        assert "ktrial.boot" not in " ".join(guest.command_line())
        last = status(guest)["events"][-1]
        assert (last["event"], status(guest)["armed"]) == ("failed", None), last
        assert "did not start the entry" in last["why"][0]


ONLY_IN_TRIAL = "ConditionKernelCommandLine=ktrial.boot=ktrial-trial"
AGENT = "/usr/local/libexec/ktrial/ktrial-agent"
SPIN = 'chrt -f 99 taskset -c $$cpu sh -c \\"while :; do :; done\\" &'
#: What goes wrong in the trial boot -> what its unit does, the event that tells it, and why.
FAULTS = {
    "panic": ("sleep 10; echo c > /proc/sysrq-trigger", "failed", "ended before"),
    "hang": (
        f"sleep 10; echo -1 > /proc/sys/kernel/sched_rt_runtime_us; for cpu in 0 1; do {SPIN} done; wait",
        "failed",
        "ended before",
    ),
    "no-target": ("sleep infinity", "failed", "target was not reached within 60 s"),
    "no-agent": ("true", "fell-back", ""),
}


def plant(guest: BootGuest, fault: str) -> None:
    """Add a unit that breaks the trial boot before its target is reached; the default entry never runs it."""
    unit = f"[Unit]\nDefaultDependencies=no\nAfter=ktrial-boot.service\nBefore=multi-user.target\n{ONLY_IN_TRIAL}\n"
    service = f"Type=oneshot\nTimeoutStartSec=infinity\nExecStart=/bin/sh -c '{FAULTS[fault][0]}'\n"
    place = "/etc/systemd/system/planted.service"
    succeed(guest, f"cat > {place} << 'END'\n{unit}[Service]\n{service}END\nsystemctl daemon-reload")
    succeed(guest, "systemctl add-wants multi-user.target planted.service")


def test_every_fault_leads_back_to_the_default_entry(guest: BootGuest) -> None:
    for fault, (_, event, why) in FAULTS.items():
        plant(guest, fault)
        succeed(guest, f"{KTRIAL} boot try {WORD} --limit 60 --yes --no-reboot")
        if fault == "no-agent":
            succeed(guest, f"printf '#!/bin/sh\\nexec sleep infinity\\n' > {AGENT}")
        before = guest.boot_id
        guest.send("systemctl reboot")
        try:
            found = ended(guest, before)
        except AssertionError:
            guest.kill()
            guest.boot()
            record_count(guest, "systemd", fault, Attempts(1, 0, ()))
            raise
        record_count(guest, "systemd", fault, Attempts(1, 1, (found["at"] - armed_at(guest),)))
        if fault != "no-agent":  # the broken copy also fails to finish interrupted transactions, in every boot
            guest.assert_running()
        assert (found["event"], why in " ".join(found.get("why", []))) == (event, True), (fault, found)
        succeed(guest, f"{KTRIAL} boot undo")


def armed_at(guest: BootGuest) -> int:
    found: list[int] = [one["at"] for one in status(guest)["events"] if one["event"] == "armed"]
    return found[-1]


def ended(guest: BootGuest, seen: str) -> dict[str, Any]:
    """Wait for a boot of the default entry that stays, and return how the trial boot ended."""
    for _ in range(6):
        # What was asked of a boot that ended meanwhile has been answered by the next one.
        if guest.boot_id == seen:
            guest.wait_boot(900)
        seen = guest.boot_id
        try:
            if "ktrial.boot=ktrial-trial" in guest.command_line():
                continue
            found: list[dict[str, Any]] = [one for one in status(guest)["events"] if one["entry"] == "ktrial-trial"]
        except AssertionError:
            continue  # it is on its way from the rehearsal to the trial, or has just failed
        if found and found[-1]["event"] in {"failed", "fell-back"}:
            return found[-1]
    raise AssertionError("it did not come back")

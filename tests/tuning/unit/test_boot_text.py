# SPDX-License-Identifier: Apache-2.0
"""How a trial boot stands in the agent's words, and what a person reads of it."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import AgentError
from ktrial.kit.plain_text import UNPLAIN
from ktrial.tuning.boots.boot_status import (
    BootState,
    BootStatus,
    decode_boot_status,
    last_attempt,
    rehearsal_of,
    state_of,
)
from ktrial.tuning.boots.boot_text import TrialTerms, plan_text, status_text
from ktrial.tuning.boots.command_line import parse_changes
from ktrial.tuning.boots.entry import plan_boot
from ktrial.tuning.boots.scene import Obstacle
from tests.tuning.unit.test_boot_entry import debian, systemd_boot

TRIAL = {
    "id": "ktrial-trial",
    "title": "ktrial: nohz_full=2-9",
    "words": ["nohz_full=2-9"],
    "kernel": "/boot/vmlinuz-6",
}
REHEARSAL = {"id": "ktrial-rehearsal", "title": "ktrial: rehearsal of the way back", "words": [], "kernel": "/boot/x"}


def event(name: str, boot: str = "b", entry: str = "ktrial-trial", **more: Any) -> dict[str, Any]:
    return {"event": name, "entry": entry, "boot_id": boot, "at": 1_700_000_000, "loader": "grub 2.06", **more}


def reply(*events: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "transaction": 7,
        "entries": [TRIAL, REHEARSAL],
        "loader": "grub",
        "armed": None,
        "running": None,
        "boot_id": "now",
        "events": list(events),
        **more,
    }


ARMED = event("armed", "a")
STARTED, HEALTHY = event("started"), event("healthy")
REHEARSED = event("rehearsed", "r", "ktrial-rehearsal")
FAILED = event(
    "failed", why=["unit ssh.service failed", "the root file system is read-only"], log=["oops: x\x1b[31m", "y"]
)

CASES: list[tuple[dict[str, Any], BootState, str]] = [
    (reply(transaction=None, entries=[]), "nothing", "No trial boot is prepared."),
    (reply(), "prepared", "nothing will boot it"),
    (reply(armed="ktrial-rehearsal"), "rehearsal-armed", "The next boot is the rehearsal"),
    (reply(REHEARSED), "rehearsed", "The rehearsal succeeded"),
    (reply(event("failed", "r", "ktrial-rehearsal", why=["GRUB kept it"])), "rehearsal-failed", "GRUB kept it"),
    (reply(REHEARSED, ARMED, armed="ktrial-trial"), "armed", "takes the trial entry, once"),
    (reply(ARMED, running="ktrial-trial"), "checking", "checks whether it is healthy"),
    (reply(ARMED, event("started", "now"), running="ktrial-trial"), "checking", "checks whether it is healthy"),
    (reply(ARMED, event("healthy", "now"), running="ktrial-trial"), "healthy", "and it is healthy"),
    (reply(ARMED, event("failed", "now", why=["no net"]), running="ktrial-trial"), "failing", "no net"),
    # What an earlier boot of this entry was says nothing about this one.
    (reply(ARMED, STARTED, HEALTHY, ARMED, running="ktrial-trial"), "checking", "checks"),
    (reply(ARMED, event("fell-back", "now")), "did-not-come-up", "did not come up"),
    (reply(ARMED, STARTED, event("fell-back", "now")), "did-not-come-up", "it panicked, hung or was reset"),
    (reply(ARMED), "did-not-come-up", "did not come up"),
    (reply(ARMED, STARTED, FAILED), "unhealthy", "unit ssh.service failed"),
    (reply(ARMED, event("failed", "now", why=["another entry was chosen"])), "not-started", "was not started. This is"),
    (reply(ARMED, STARTED, event("failed", "now", why=["it hung"])), "cut-short", "came up and ended early"),
    (reply(ARMED, STARTED, HEALTHY, event("failed", "now", why=["no shutdown"])), "cut-short", "why no shutdown"),
    (
        reply(ARMED, STARTED, HEALTHY, event("failed", why=["no python"])),
        "gave-up",
        "the trial could not continue in it",
    ),
    # An earlier boot of the entry had started.
    (reply(ARMED, STARTED, FAILED, ARMED, event("failed", "now")), "not-started", "was not started"),
    (reply(ARMED, STARTED, HEALTHY), "left", "was left without"),
    (reply(ARMED, STARTED, HEALTHY, event("left", "now")), "left", "was left without"),
    # Armed and called off within this boot.
    (reply(REHEARSED, event("armed", "now")), "rehearsed", "The rehearsal succeeded"),
    # Attempts of other transactions are over.
    (reply({**FAILED, "transaction": 6}), "prepared", "nothing will boot it"),
    (reply(ARMED, STARTED, {**FAILED, "transaction": 7}), "unhealthy", "failed its health check"),
]


@pytest.mark.parametrize("answer, state, text", CASES)
def test_each_state_is_told_with_the_next_step(answer: dict[str, Any], state: BootState, text: str) -> None:
    status = decode_boot_status(answer)
    assert state_of(status)[0] == state
    shown = status_text(status, width=80)
    assert text in " ".join(shown.split())
    assert shown.count("next: ") == 1
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert not UNPLAIN.search(shown)


ARM = {"id": "ktrial-full", "title": "ktrial: full", "words": ["preempt=full"], "kernel": "/boot/vmlinuz-6"}


def arm_event(name: str, boot: str = "b", **more: Any) -> dict[str, Any]:
    return event(name, boot, "ktrial-full", **{"transaction": 7, **more})


def trial_reply(*events: dict[str, Any], **more: Any) -> dict[str, Any]:
    return reply(*events, **{"entries": [REHEARSAL, ARM], **more})


ARM_BOOTED = (arm_event("armed", "a"), arm_event("started"))
ARM_HEALTHY = (*ARM_BOOTED, arm_event("healthy"))
GOES_ON = "next: the trial continues by itself, after a reboot at the latest; `ktrial trial stop swap-1` stops it"


@pytest.mark.parametrize(
    "answer, state, text, step",
    [
        (trial_reply(), "prepared", "The boots of the trial swap-1 are prepared, and none is armed", GOES_ON),
        (
            trial_reply(armed="ktrial-rehearsal"),
            "rehearsal-armed",
            "The next boot is the rehearsal for the trial swap-1",
            "next: reboot; `ktrial trial stop swap-1` calls it off",
        ),
        (trial_reply(REHEARSED), "rehearsed", "The rehearsal for the trial swap-1 succeeded", GOES_ON),
        (
            trial_reply(event("failed", "r", "ktrial-rehearsal", why=["GRUB kept it"])),
            "rehearsal-failed",
            "The rehearsal failed",
            "next: `ktrial trial stop swap-1` removes what is prepared",
        ),
        (
            trial_reply(arm_event("armed", "now"), armed="ktrial-full"),
            "armed",
            "The next boot takes an entry of the trial swap-1, once",
            "next: reboot; `ktrial trial stop swap-1` calls it off",
        ),
        (trial_reply(*ARM_BOOTED, boot_id="b", running="ktrial-full"), "checking", "This boot is one of", GOES_ON),
        (trial_reply(*ARM_HEALTHY, boot_id="b", running="ktrial-full"), "healthy", "and it is healthy. entry", GOES_ON),
        (
            trial_reply(*ARM_BOOTED, arm_event("failed", why=["no net"]), boot_id="b", running="ktrial-full"),
            "failing",
            "This boot is one of the trial swap-1, and it failed: the machine reboots",
            GOES_ON,
        ),
        (
            trial_reply(*ARM_BOOTED, arm_event("failed", why=["no net"])),
            "unhealthy",
            "The last boot of the trial swap-1 came up and failed its health check.",
            GOES_ON,
        ),
        (
            trial_reply(*ARM_HEALTHY, arm_event("armed"), arm_event("fell-back", "now")),
            "did-not-come-up",
            "The last boot of the trial swap-1 did not come up",
            GOES_ON,
        ),
        (
            trial_reply(*ARM_HEALTHY, arm_event("armed"), arm_event("failed", "now", why=["not taken"])),
            "not-started",
            "The last boot of the trial swap-1 was not started.",
            GOES_ON,
        ),
        (
            trial_reply(*ARM_HEALTHY, arm_event("failed", "now", why=["no shutdown"])),
            "cut-short",
            "The last boot of the trial swap-1 came up and ended early",
            GOES_ON,
        ),
        (
            trial_reply(*ARM_HEALTHY, arm_event("failed", why=["no python"])),
            "gave-up",
            "The last boot of the trial swap-1 was healthy, but the trial could not continue in it.",
            GOES_ON,
        ),
        (trial_reply(*ARM_HEALTHY, arm_event("left", "now")), "left", "was healthy and is over.", GOES_ON),
    ],
)
def test_a_boot_of_a_trial_is_told_from_an_attempt(
    answer: dict[str, Any], state: BootState, text: str, step: str
) -> None:
    status = decode_boot_status(answer)
    assert state_of(status)[0] == state
    shown = " ".join(status_text(status, width=80, trials={7: "swap-1"}).split())
    assert text in shown
    assert step in shown
    assert "boot keep" not in shown
    assert "boot undo" not in shown
    assert ("entry ktrial: full: /boot/vmlinuz-6" in shown) == (state not in {"prepared"} and "rehears" not in state)
    assert "one of a trial" in " ".join(status_text(status, width=80).split()) or state not in {"checking", "healthy"}


def test_the_last_boot_of_a_trial_that_has_ended_says_why() -> None:
    failed = arm_event("failed", why=["the network interface eth0 is not up"])
    status = decode_boot_status(reply(ARMED, STARTED, FAILED, *ARM_BOOTED, failed, transaction=None, entries=[]))
    shown = status_text(status, width=80, trials={7: "swap-1"})
    assert shown == (
        "No trial boot is prepared.\n"
        "last attempt failed its health check, 2023-11-14 22:13 UTC, grub 2.06\n"
        "entry       ktrial-full of the trial swap-1\n"
        "why         the network interface eth0 is not up\n"
        "next: `ktrial boot try ARGUMENT` prepares one\n"
    )
    assert "ktrial-full of a trial\n" in status_text(status, width=80)


def test_a_boot_whose_entry_is_removed_is_left_by_a_reboot() -> None:
    for entry in ("ktrial-trial", "ktrial-full"):
        events = [event(name, "now", entry) for name in ("started", "healthy")]
        answer = reply(*events, running=entry, transaction=None, entries=[])
        shown = status_text(decode_boot_status(answer), width=80)
        assert "next: reboot into the default entry; ktrial has removed what it had prepared" in shown
        assert "boot keep" not in shown


def test_every_state_has_a_case() -> None:
    assert {state for _, state, _ in CASES} == set(get_args(BootState))


def test_a_failed_attempt_shows_why_and_its_last_lines() -> None:
    many = {**FAILED, "log": [f"line {number} {'x' * 90}" for number in range(30)]}
    assert status_text(decode_boot_status(reply(ARMED, STARTED, FAILED)), width=80) == (
        "The trial boot came up and failed its health check. This is the default entry\n"
        "again.\n"
        "entry       ktrial: nohz_full=2-9: /boot/vmlinuz-6, with nohz_full=2-9\n"
        "when        2023-11-14 22:13 UTC, grub 2.06\n"
        "why         unit ssh.service failed\n"
        "            the root file system is read-only\n"
        "last lines of its log:\n"
        "  oops: x\\x1b[31m\n"
        "  y\n"
        "next: `ktrial boot undo` removes it\n"
    )
    shown = status_text(decode_boot_status(reply(ARMED, STARTED, many)), width=80)
    assert "line 29" in shown
    assert "line 17" not in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_the_last_attempt_is_told_when_nothing_is_prepared() -> None:
    status = decode_boot_status(reply(ARMED, STARTED, FAILED, REHEARSED, transaction=None, entries=[]))
    assert last_attempt(status) == ("unhealthy", status.events[2])
    assert "last attempt failed its health check, 2023-11-14 22:13 UTC, grub 2.06" in status_text(status, width=80)
    assert last_attempt(decode_boot_status(reply(REHEARSED))) is None


def test_a_rehearsal_counts_for_its_version_of_the_loader() -> None:
    status = decode_boot_status(reply(REHEARSED, FAILED))
    assert rehearsal_of(status, "grub 2.06") == status.events[0]
    assert rehearsal_of(status, "grub 2.12") is None


def test_another_reply_is_an_error() -> None:
    with pytest.raises(AgentError, match="boot-status"):
        decode_boot_status(reply(event("exploded")))
    assert decode_boot_status({"later": 1}) == BootStatus()


EVENTS = st.builds(
    event,
    st.sampled_from(["rehearsed", "armed", "started", "healthy", "failed", "fell-back", "left"]),
    st.sampled_from(["a", "b", "now"]),
    st.sampled_from(["ktrial-trial", "ktrial-rehearsal", "ktrial-full"]),
    why=st.lists(st.text(max_size=9), max_size=1),
    log=st.lists(st.text(max_size=99), max_size=1),
)
NAMES = st.sampled_from([None, "ktrial-trial", "ktrial-rehearsal", "ktrial-full"])


@given(st.lists(EVENTS, max_size=4), NAMES, NAMES, st.sampled_from([None, 7]))
def test_every_log_can_be_told(events: Any, armed: str | None, running: str | None, transaction: int | None) -> None:
    status = decode_boot_status(reply(*events, armed=armed, running=running, transaction=transaction))
    state, found = state_of(status)
    assert (state in {"checking", "healthy", "failing"}) == (running is not None)
    assert found is None or found in status.events
    shown = status_text(status, width=80)
    assert not UNPLAIN.search(shown)


NOTE = Obstacle(kind="no-lockup-detector", message="nowatchdog switches it off", is_note=True)
ACCEPTED = Obstacle(kind="battery", message="this machine runs on its battery", needs="--anyway")


def terms(**more: Any) -> TrialTerms:
    own = {"limit_s": 600.0, "watchdog": "iTCO_wdt", "watchdog_s": 60, "rehearsal": None}
    return TrialTerms(**{**own, **more})


def test_the_plan_says_what_happens_and_how_the_machine_comes_back() -> None:
    plan = plan_boot(debian(), parse_changes(["nohz_full=2-9 -quiet"]))
    assert plan_text(plan, terms(), [NOTE, ACCEPTED], width=80) == (
        "GRUB gets one more entry, in /boot/grub/custom.cfg, and boots it once. The\n"
        "default entry stays as it is: every other boot takes it.\n"
        "\n"
        "kernel      6.1.0-13-amd64, which is running\n"
        "adds        nohz_full=2-9\n"
        "removes     quiet\n"
        "comes back  the machine reboots 10 s after a panic, an oops or a hang of a CPU\n"
        "            or task, and also if the boot is not healthy within 600 s\n"
        "watchdog    iTCO_wdt resets the machine if nothing answers it for 60 s\n"
        "rehearsal   first: one boot that panics at once, to see that GRUB leads back to\n"
        "            the default entry\n"
        "note        nowatchdog switches it off\n"
        "accepted    this machine runs on its battery\n"
        "\n"
        "`ktrial boot status` shows how it went, `ktrial boot keep` makes it the default,\n"
        "`ktrial boot undo` removes it.\n"
    )


def test_the_plan_of_another_kernel_without_a_watchdog() -> None:
    status = decode_boot_status(reply(REHEARSED))
    plan = plan_boot(systemd_boot(files=("/efi/vmlinuz-linux",)), (), kernel="/efi/vmlinuz-linux")
    shown = plan_text(plan, terms(watchdog=None, watchdog_s=None, rehearsal=status.events[0]), [], width=80)
    assert "systemd-boot gets one more entry, in /efi/loader/entries/ktrial-trial.conf" in shown
    assert "kernel      /efi/vmlinuz-linux\n" in shown
    assert "watchdog    none: if the kernel hangs" in shown
    assert "done on 2023-11-14 with grub 2.06" in shown
    assert "adds" not in shown
    replaced = plan_boot(debian(command_line=f"{debian().command_line.strip()} a=1"), parse_changes(["a=2"]))
    assert "adds        a=2\nreplaces    a=1\n" in plan_text(replaced, terms(), [], width=80)


def test_guards_are_shown_in_the_plan_and_while_they_are_prepared() -> None:
    plan = plan_boot(debian(), parse_changes(["threadirqs"]))
    shown = plan_text(plan, terms(guards=("ssh.service", "nginx.service")), [], width=80)
    assert "\nguards      healthy only if active: ssh.service, nginx.service\n" in shown
    assert "guards" not in plan_text(plan, terms(), [], width=80)
    status = decode_boot_status(reply(ARMED, armed="ktrial-trial", guards=["ssh.service"]))
    assert "guards      ssh.service\n" in status_text(status, width=80)
    assert "guards" not in status_text(decode_boot_status(reply(ARMED, armed="ktrial-trial")), width=80)

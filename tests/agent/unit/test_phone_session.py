# SPDX-License-Identifier: Apache-2.0
"""A session on a phone: facts of Android replace the agent's, and denials of SELinux are named."""

from __future__ import annotations

from typing import Any

import pytest

from ktrial.agent.phone_session import PhoneSession
from ktrial.machine.facts import Fact
from ktrial.machine.phone import names_in
from tests.agent.unit.test_agent import HELLO, Script

AVC = (
    'audit: type=1400 audit(1.2:3): avc:  denied  { write } for  pid=7 comm="ktrial-agent" name="swappiness" '
    'dev="proc" ino=4 scontext=u:r:shell:s0 tcontext=u:object_r:proc_dirty:s0 tclass=file permissive=0'
)


def log(number: int, *texts: str) -> dict[str, Any]:
    records = "".join(f"4,{number + at},100,-;{text}\n" for at, text in enumerate(texts))
    return {"oldest": 0, "newest": number, "log": records, "truncated": False}


def session(*replies: dict[str, Any], asked: dict[str, Fact] | None = None) -> tuple[PhoneSession, list[str], Script]:
    numbered = [{"id": 2 + at, "ok": reply} for at, reply in enumerate(replies)]
    transport, said = Script(HELLO, *numbered), list[str]()
    made = PhoneSession(
        transport, lambda names: {one: (asked or {})[one] for one in names}, lambda: Fact(value=["ktweak"]), said.append
    )
    return made, said, transport


def test_what_android_says_wins_where_it_has_a_value() -> None:
    told = {"battery.level": {"value": 1}, "power.source": {"value": "mains"}}
    asked = {"battery.level": Fact(value=85), "power.source": Fact(unknown="no"), "phone.screen": Fact(unknown="no")}
    one, _, _ = session({"facts": told}, asked=asked)
    facts = one.facts(("battery.level", "power.source", "phone.screen"))
    assert (facts.value("battery.level"), facts.value("power.source")) == (85, "mains")
    assert facts["phone.screen"].unknown == "no"


def test_the_phone_is_asked_for_root_only_by_the_full_name() -> None:
    asked = dict.fromkeys(names_in(()), Fact(unknown="only root"))
    one, _, _ = session({"facts": {}}, {"facts": {}}, asked=asked)
    assert one.facts(("phone",))["phone.modules"].unknown == "only root"
    assert one.facts(("phone.modules",)).value("phone.modules") == ["ktweak"]


@pytest.mark.parametrize(
    "outcome, after, wanted",
    [
        (
            "refused",
            log(9, AVC, AVC),
            ["SELinux denied write of swappiness (u:r:shell:s0 on u:object_r:proc_dirty:s0)"],
        ),
        ("refused", log(9, "usb 1-1: new device"), []),
        (
            "refused",
            {"unreadable": "cannot read /dev/kmsg: no"},
            ["SELinux may have refused the setting; the kernel's log is unreadable: cannot read /dev/kmsg: no"],
        ),
    ],
)
def test_what_selinux_denied_is_said(outcome: str, after: dict[str, Any], wanted: list[str]) -> None:
    answer = {"state": "rolled-back", "steps": [{"outcome": outcome}]}
    one, said, transport = session(log(8), answer, after)
    assert one.request("apply", plan={}) == answer
    assert said == wanted
    assert [sent["do"] for sent in transport.sent] == ["hello", "kernel_log", "apply", "kernel_log"]


def test_what_worked_needs_no_second_look() -> None:
    one, said, transport = session(log(8), {"state": "applied", "steps": [{"outcome": "set"}]})
    one.request("apply", plan={})
    assert (said, len(transport.sent)) == ([], 3)

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec

from ktrial.machine.facts import FactKind
from ktrial.studies.goals import Candidate, Goal, GoalSetting, Measure
from ktrial.studies.ledger.others import OthersLedger, verdicts_of
from ktrial.studies.suggest import Suggestions, candidates_of, rank, tried_here
from ktrial.studies.suggest_text import suggestions_text
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.knob import Evidence
from ktrial.tuning.knobs.profile import Requirement
from tests.studies.unit.test_model_ledger import entry
from tests.studies.unit.test_others import HERE, trial
from tests.support.knobs import KINDS, KNOBS, catalog, profile
from tests.support.machine import FakeMachine

FILES = {
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/sys/vm/dirty_ratio": "20\n",
    "/proc/sys/net/ipv4/tcp_syncookies": "1\n",
    "/sys/block/sda/queue/scheduler": "none [mq-deadline]\n",
    "/sys/block/loop0/queue/scheduler": "none [mq-deadline]\n",
    "/sys/block/sda/queue/nr_requests": "256\n",
}
FACTS = {
    "os.android": False,
    "block.devices": [
        {"name": "sda", "rotational": True, "hardware_queues": 1, "virtual": False},
        {"name": "loop0", "rotational": False, "hardware_queues": 1, "virtual": True},
    ],
}
VM = Measure(knobs=("vm.*",), suite="memory-pressure", primary="frame-p99")
DISK = Measure(knobs=("queue:*",), suite="disk", primary="bandwidth")


def goal(*profiles: str, **more: Any) -> Goal:
    return Goal(**{"name": "calm", "what": "Calm.", "measure": (VM, DISK), "profiles": profiles, **more})


def known(*profiles: Any) -> Catalog:
    kinds = {**KINDS, "device.virtual": FactKind("device.virtual", "bool", "", of="block.devices", field="virtual")}
    return msgspec.structs.replace(catalog(*profiles), kinds=kinds)


def found(using: Catalog, *goals: Goal) -> Suggestions:
    return candidates_of(goals, FakeMachine(FILES, FACTS), using)


def test_what_would_change_something_here_is_proposed_with_all_who_propose_it() -> None:
    using = known(
        profile("one", ("vm.swappiness", 10), ("vm.dirty_ratio", 20), ("feature:NEXT_BUDDY", True)),
        profile("two", ("vm.swappiness", 10)),
    )
    (only,) = found(using, goal("one", "two")).candidates
    assert only.settings == {"vm.swappiness": "10"}
    assert only.now == {"vm.swappiness": "60"}
    assert only.sources == ("profile one", "profile two")
    assert only.price == KNOBS["vm.swappiness"].price
    assert only.try_line == (
        "ktrial", "try", "vm.swappiness=10", "--suite", "memory-pressure", "--primary", "frame-p99",
    )  # fmt: skip


def test_values_that_differ_are_two_candidates_and_dangerous_ones_are_none() -> None:
    using = known(
        profile("one", ("vm.swappiness", 10)), profile("two", ("vm.swappiness", 90), ("net.ipv4.tcp_syncookies", 0))
    )
    everything = Measure(knobs=("*",), suite="s", primary="p")
    made = found(using, goal("one", "two", measure=(everything,))).candidates
    assert [one.settings for one in made] == [{"vm.swappiness": "10"}, {"vm.swappiness": "90"}]
    everyone = candidates_of(
        [goal("one", "two", measure=(everything,))], FakeMachine(FILES, FACTS), using, allow_dangerous=True
    )
    assert {"net.ipv4.tcp_syncookies": "0"} in [one.settings for one in everyone.candidates]


def test_disks_are_proposed_and_loop_devices_are_not() -> None:
    (only,) = found(known(profile("one", ("queue:scheduler@*", "none"))), goal("one")).candidates
    assert only.settings == {"queue:scheduler@sda": "none"}


def test_the_goal_has_candidates_of_its_own() -> None:
    own = goal(candidate=(GoalSetting(knob="vm.dirty_ratio", value=5, why="Short flushes."),))
    (only,) = found(known(), own).candidates
    assert (only.sources, only.why, only.settings) == (("goal calm",), ("Short flushes.",), {"vm.dirty_ratio": "5"})


def test_a_profile_that_is_not_for_this_machine_is_named() -> None:
    phone = profile("phone", ("vm.swappiness", 10), require=(Requirement(that="os.android == true", why="x"),))
    made = found(known(phone), goal("phone"))
    assert made.candidates == ()
    assert "cannot use profile phone: " in made.not_here["phone"]


def candidate(*statuses: str, **more: Any) -> Candidate:
    claims = tuple(Evidence(source="s", claim="c", conditions="", status=one) for one in statuses)  # type: ignore[arg-type]
    fields: dict[str, Any] = {
        "knob": "vm.swappiness",
        "settings": {"vm.swappiness": "10"},
        "now": {"vm.swappiness": "60"},
        "measure": VM,
        "goal": "calm",
        "sources": ("profile one",),
        "why": ("Because.",),
        "price": "Something.",
        "risk": "safe",
        "evidence": claims,
    }
    return Candidate(**{**fields, **more})


def test_the_safe_and_supported_come_first() -> None:
    order = [
        candidate("refuted", "supported"),
        candidate("claimed", sources=("a", "b")),
        candidate("claimed"),
        candidate(),
        candidate("refuted"),
        candidate("supported", risk="caution"),
    ]
    assert sorted(order, key=rank) == order


def test_own_trials_of_just_this_by_this_measure_are_shown() -> None:
    measured = {"workload": "memory-pressure 0a", "outcome": "pressure.frame-p99"}
    mine = entry(**measured, verdict="equivalent")
    others = [
        entry(**{**measured, "workload": "quick 0a"}),
        entry(**{**measured, "outcome": "pressure.frames"}),
        entry(**measured, changes={"vm.swappiness": "10", "x": "1"}),
        entry(**measured, environment={"A": "1"}),
    ]
    assert tried_here(candidate(), [*others, mine]) == mine
    assert tried_here(candidate(), others) is None
    elsewhere = verdicts_of(OthersLedger(trials=(trial(signer="alice", entries=(entry("c"),)),)), HERE)
    text = suggestions_text(
        [(candidate("refuted"), mine, elsewhere)], {}, {"phone": "no"}, {"vm.page-cluster": "no swap"}, width=80
    )
    here, _, there = text.partition("  elsewhere ")
    assert "equivalent on 1970-01-01: a" in here
    assert there.startswith("better on 1970-01-01: c (signed by alice). Same: CPU model,")
    assert "  refuted   c [s]" in text
    assert "  ktrial try vm.swappiness=10 --suite memory-pressure --primary frame-p99\n" in text
    assert "no effect here: vm.page-cluster: no swap" in text
    assert "not for this machine: phone: no" in text

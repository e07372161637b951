# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.studies.ledger.model import Ledger, LedgerEntry, Now, changed_since, link_entries, of_knob, standing

NOW = Now(machine="m", kernel="6.12", values={"vm.swappiness": "10", "vm.page-cluster": "3"})


def entry(trial: str = "a", **changes: Any) -> LedgerEntry:
    fields: dict[str, Any] = {
        "trial": trial,
        "arm": "case",
        "started_unix_ms": {"a": 1, "b": 2, "c": 3}[trial],
        "machine": "m",
        "kernel": "6.12",
        "scope": "on one boot",
        "control": "control",
        "changes": {"vm.swappiness": "10"},
        "workload": "quick 1",
        "outcome": "tool.time",
        "verdict": "better",
        "over": True,
    }
    return LedgerEntry(**{**fields, **changes})


def test_the_newest_is_first_and_earlier_ones_know_what_came_after() -> None:
    found = link_entries([entry("a"), entry("c", verdict="worse"), entry("b")])
    assert [one.trial for one in found] == ["c", "b", "a"]
    assert [(one.superseded_by, one.refuted) for one in found] == [(None, False), ("c", True), ("b", False)]


@pytest.mark.parametrize(
    "later, expected",
    [
        ({"verdict": "inconclusive"}, None),
        ({"verdict": None}, None),
        ({"verdict": "not comparable"}, None),
        ({"workload": "quick 2"}, None),
        ({"machine": "other"}, None),
        ({"control": "stock"}, None),
        ({"outcome": "tool.rate"}, None),
        ({"changes": {"vm.swappiness": "20"}}, None),
        ({"environment": {"A": "1"}}, None),
        ({"kernel": "7.0"}, "b"),
        ({"verdict": "equivalent"}, "b"),
    ],
)
def test_only_a_decided_trial_of_the_same_stands_in_its_place(later: dict[str, Any], expected: str | None) -> None:
    assert link_entries([entry("a"), entry("b", **later)])[1].superseded_by == expected


def test_what_was_open_is_superseded_and_not_refuted() -> None:
    older = link_entries([entry("a", verdict="inconclusive"), entry("b")])[1]
    assert (older.superseded_by, older.refuted) == ("b", False)


def test_two_arms_of_one_trial_do_not_supersede_each_other() -> None:
    assert all(one.superseded_by is None for one in link_entries([entry("a"), entry("a", arm="again")]))


@pytest.mark.parametrize(
    "changes, told",
    [
        ({}, ()),
        ({"kernel": "6.1"}, ("the kernel was 6.1, now it is 6.12",)),
        ({"kernel": None}, ()),
        ({"machine": "old"}, ("the machine was old",)),
        ({"held": {"vm.page-cluster": "0"}}, ("vm.page-cluster was 0, now it is 3",)),
        ({"held": {"vm.page-cluster": "3"}}, ()),
        ({"held": {"vm.gone": "0"}}, ()),
        ({"held": {"vm.swappiness": "60"}}, ()),
    ],
)
def test_what_changed_since_is_named(changes: dict[str, Any], told: tuple[str, ...]) -> None:
    assert changed_since(entry(**changes), NOW) == told


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, "kept"),
        ({"verdict": "worse"}, "kept"),
        ({"verdict": None}, "untested"),
        ({"changes": {"vm.swappiness": "20"}}, "not applied"),
        ({"changes": {"vm.swappiness": "20"}, "verdict": "equivalent"}, "refused"),
        ({"changes": {"vm.swappiness": "10", "vm.page-cluster": "0"}, "verdict": "inconclusive"}, "refused"),
        ({"changes": {"vm.gone": "1"}}, "unknown"),
        ({"changes": {}, "environment": {"A": "1"}}, "not applied"),
    ],
)
def test_what_came_of_it_is_read_from_the_machine(changes: dict[str, Any], expected: str) -> None:
    assert standing(entry(**changes), NOW) == expected


def test_what_is_about_one_knob_has_the_knob_alone_first() -> None:
    both = entry("b", changes={"queue:scheduler@sda": "none", "vm.swappiness": "1"})
    alone = entry("a", changes={"queue:scheduler@sda": "none"})
    assert of_knob([both, alone, entry("c")], "queue:scheduler") == (alone, both)
    assert of_knob([both, alone], "queue:scheduler@sdb") == ()


def test_many_settings_are_cut_and_a_placebo_is_said() -> None:
    assert entry(changes={f"k{n}": "1" for n in range(9)}).what == "k0=1, k1=1, k2=1, and 6 more"
    assert entry(changes={f"k{n}": "1" for n in range(4)}).what.count("k") == 4
    assert entry(changes={}, placebo=True).what == "nothing (a placebo)"
    assert entry(changes={}).what == "case"


def test_the_file_reads_back_as_it_was() -> None:
    ledger = Ledger(trials={"a": (entry("a"),), "s": ()})
    assert msgspec.json.decode(msgspec.json.encode(ledger), type=Ledger) == ledger


def test_what_a_person_did_is_what_was_tried_and_nobody_knows_whether_it_is_in_force() -> None:
    bore = entry("a", changes={}, manual="boot the BORE kernel", verdict="better")
    assert bore.what == "boot the BORE kernel"
    assert standing(bore, Now(machine=bore.machine, kernel=bore.kernel, values={})) == "unknown"
    other = entry("b", changes={}, manual="boot the EEVDF kernel", verdict="worse")
    assert [one.superseded_by for one in link_entries([bore, other])] == [None, None]

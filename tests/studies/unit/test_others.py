# SPDX-License-Identifier: Apache-2.0
"""Verdicts of others: how alike two machines are, and that each is there once and apart."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import UnknownName
from ktrial.studies.ledger.others import (
    Hardware,
    OthersLedger,
    OthersTrial,
    compare_hardware,
    hardware_from,
    merge,
    verdicts_of,
    without,
)
from ktrial.studies.ledger.others_text import others_lines, others_markdown
from tests.studies.unit.test_model_ledger import entry

SOURCE = Path(__file__).resolve().parents[3] / "src/ktrial"
GIB = 1 << 30
HERE = Hardware(
    cpu="AMD Ryzen 9 7950X 16-Core Processor",
    threads=32,
    memory_bytes=64 * GIB,
    kernel="6.12.3-arch1-1",
    disk="NVMe",
    virtualisation="none",
)


def trial(sha256: str = "1", bundle: str = "b.tar.zst", **fields: Any) -> OthersTrial:
    values: dict[str, Any] = {
        "bundle_sha256": f"of {bundle}",
        "imported_unix_ms": 1,
        "hardware": HERE,
        "entries": (entry("a"),),
    }
    return OthersTrial(sha256=sha256, bundle=bundle, **{**values, **fields})


@pytest.mark.parametrize(
    "changes, score, words",
    [
        ({}, 7, ""),
        ({"cpu": "AMD EPYC 9654"}, 6, "CPU AMD EPYC 9654 (here AMD Ryzen 9 7950X 16-Core Processor)"),
        ({"cpu": "Intel(R) Xeon(R) Gold"}, 5, "CPU Intel(R) Xeon(R) Gold"),
        ({"threads": 16, "memory_bytes": 128 * GIB}, 7, ""),
        ({"threads": 15}, 6, "threads 15 (here 32)"),
        ({"memory_bytes": 129 * GIB}, 6, "memory 129 GiB (here 64 GiB)"),
        ({"kernel": "6.12.60"}, 7, ""),
        ({"kernel": "6.1.2"}, 6, "kernel 6.1.2 (here 6.12.3-arch1-1)"),
        ({"disk": "MMC", "virtualisation": "kvm"}, 5, "disk MMC (here NVMe)"),
    ],
)
def test_how_alike_machines_are(changes: dict[str, Any], score: int, words: str) -> None:
    found = compare_hardware(msgspec.structs.replace(HERE, **changes), HERE)
    assert found.score == score
    assert words in ", ".join(found.differs)
    assert bool(found.differs) == bool(words)
    assert found.unknown == ()


def test_what_nobody_knows_is_neither_the_same_nor_different() -> None:
    found = compare_hardware(Hardware(), HERE)
    assert (found.score, found.same, found.differs) == (0, (), ())
    assert found.unknown == ("CPU", "threads", "memory", "kernel", "disk", "virtualisation")
    assert compare_hardware(Hardware(), Hardware()).score == 0


def test_the_most_alike_are_first_then_the_newest() -> None:
    small = Hardware(cpu="ARM", threads=4, memory_bytes=GIB)
    trials = (
        trial("1", hardware=small, entries=(entry("c"),)),
        trial("2", "x.tar.zst", entries=(entry("a"),)),
        trial("3", "y.tar.zst", entries=(entry("b", changes={"vm.page-cluster": "0"}),)),
    )
    found = verdicts_of(OthersLedger(trials=trials), HERE)
    assert [one.entry.trial for one in found] == ["b", "a", "c"]
    only = verdicts_of(OthersLedger(trials=trials), HERE, lambda one: one.is_about("vm.page-cluster"))
    assert [one.entry.trial for one in only] == ["b"]


def test_a_later_trial_refutes_an_earlier_one_of_the_same_bundle_only() -> None:
    later = entry("b", verdict="worse")
    one = OthersLedger(trials=(trial("1"), trial("2", entries=(later,))))
    two = OthersLedger(trials=(trial("1"), trial("2", "other.tar.zst", entries=(later,))))
    assert [verdict.entry.refuted for verdict in verdicts_of(one, HERE)] == [False, True]
    assert [verdict.entry.refuted for verdict in verdicts_of(two, HERE)] == [False, False]


def test_each_trial_is_there_once_and_a_signature_is_added() -> None:
    first = merge(OthersLedger(), [trial("1"), trial("2")])
    assert (len(first.added), first.known) == (2, ())
    signed = merge(first.ledger, [trial("1", signer="alice"), trial("2")])
    assert ([one.sha256 for one in signed.newly_signed], len(signed.known), signed.added) == (["1"], 1, ())
    again = merge(signed.ledger, [trial("1"), trial("1", signer="mallory")])
    assert again.ledger == signed.ledger
    assert [one.signer for one in again.ledger.trials] == ["alice", None]


def test_those_of_a_signer_or_a_bundle_can_be_forgotten() -> None:
    ledger = OthersLedger(trials=(trial("1", signer="alice"), trial("2", "x.tar.zst")))
    assert [one.sha256 for one in without(ledger, "alice").trials] == ["2"]
    assert [one.sha256 for one in without(ledger, "x.tar.zst").trials] == ["1"]
    assert [one.sha256 for one in without(ledger, "of x.tar.zst").trials] == ["1"]
    with pytest.raises(UnknownName, match="mallory") as no:
        without(ledger, "mallory")
    assert "alice, b.tar.zst, x.tar.zst" in (no.value.hint or "")


def test_they_are_shown_with_author_and_likeness() -> None:
    near = trial("1", signer="alice", hardware=msgspec.structs.replace(HERE, threads=8))
    found = verdicts_of(OthersLedger(trials=(near, trial("2", "x\x1b[2J|.tar.zst"))), HERE)
    text = " ".join("\n".join(others_lines(found, width=100)).split())
    assert text.startswith("tried elsewhere (other machines: no evidence about this one) better vm.swappiness=10")
    assert "signed by alice" in text
    assert "differs: threads 8 (here 32)." in text
    assert "\x1b" not in text
    table = others_markdown(found)
    assert "\x1b" not in table
    assert "\\|" in table
    assert others_markdown(()) == ""
    assert others_lines((), width=80) == []
    assert "and 1 more: `ktrial ledger`" in "\n".join(others_lines(found, width=80, shown=1))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(), one, max_size=3),
    max_leaves=5,
)


@given(JSON, st.lists(st.text(max_size=9), max_size=3), st.none() | st.text())
def test_whatever_a_bundle_tells_can_be_compared_and_stored(fact: Any, disks: list[str], kernel: str | None) -> None:
    found = hardware_from(lambda name: fact, disks, kernel)
    ledger = OthersLedger(trials=(trial(hardware=found),))
    assert len(msgspec.json.encode(found)) < 9000
    assert msgspec.json.decode(msgspec.json.encode(ledger), type=OthersLedger) == ledger
    for one, other in ((found, HERE), (HERE, found)):
        assert 0 <= compare_hardware(one, other).score <= 7
    others_lines(verdicts_of(ledger, HERE), width=80)


def test_only_what_shows_them_reads_them() -> None:
    """`keep`, `export`, `retest`, `fleet`, rules of `suggest` and updates of profiles know nothing of them."""
    modules = {path.relative_to(SOURCE).with_suffix("").as_posix(): path for path in SOURCE.rglob("*.py")}
    imports = re.compile(r"import\s.*\bothers\b|\.others(_text)? import\b")
    readers = {name for name, path in modules.items() if imports.search(path.read_text(encoding="utf-8"))}
    assert readers == {
        "cli/completion",
        "cli/shared/others",
        "cli/shared/overview",
        "cli/verbs/explain",
        "cli/verbs/ledger",
        "cli/verbs/suggest",
        "evidence/others",
        "studies/ledger/others_text",
        "studies/overview_text",
        "studies/suggest_text",
    }

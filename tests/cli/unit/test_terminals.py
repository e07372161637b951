# SPDX-License-Identifier: Apache-2.0
"""Terminals that are narrow, dumb or in another language: the same words, none lost."""

from __future__ import annotations

import pytest

from ktrial.kit.tables import MINIMUM_COLUMNS
from tests.support.tree import FakeRoot

VERBS = (
    ("explain", "vm.swappiness"),
    ("knobs", "vm.swap"),
    ("plan", "vm.swappiness=10", "vm.page-cluster=0"),
    ("why", "vm.swappiness"),
    ("profiles", "stock"),
    ("suggest",),
    ("--help",),
    ("plan", "vm.swapiness=1"),
)


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_other_terminals_show_the_same(root: FakeRoot, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    usual = root.run(*words)
    for name, value in (("TERM", "dumb"), ("LANG", "de_DE.UTF-8"), ("LC_ALL", "de_DE.UTF-8"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    other = root.run(*words)
    assert (other.status, other.out, other.err) == (usual.status, usual.out, usual.err)
    monkeypatch.setenv("COLUMNS", "40")
    narrow = root.run(*words)
    assert narrow.status == usual.status
    # What is to be copied is not broken: commands, and names of knobs.
    long = [line for line in narrow.out.splitlines() if len(line) > MINIMUM_COLUMNS and "ktrial " not in line]
    assert long == []
    assert sorted("".join(narrow.out.split()).replace("─", "")) == sorted("".join(usual.out.split()).replace("─", ""))

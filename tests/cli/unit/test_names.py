# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from ktrial.cli.main import cli
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from tests.support.stores import a_session


def completed(*words: str) -> list[str]:
    *before, incomplete = words
    return [item.value for item in ShellComplete(cli, {}, "ktrial", "_").get_completions(before, incomplete)]


@pytest.mark.parametrize(
    "words, found",
    [
        (("explain", "vm.swappi"), ["vm.swappiness"]),
        (("why", "vm.swappiness", "vm.page-cl"), ["vm.page-cluster"]),
        (("plan", "vm.swappi"), ["vm.swappiness="]),
        (("apply", "micro-stutter-n"), ["micro-stutter-nvme-power", "micro-stutter-nvme-queue"]),
        (("profiles", "arashi-t3"), ["arashi-t3a"]),
        (("bench", "margin"), ["margine"]),
    ],
)
def test_names_are_completed(words: tuple[str, ...], found: list[str]) -> None:
    assert completed(*words) == found


def test_a_users_own_profile_is_completed(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "mine.toml").write_text(
        'name = "mine-own"\nsummary = "Mine."\n[[setting]]\nknob = "vm.swappiness"\nvalue = 10\nwhy = "I like it."\n'
    )
    assert completed("--catalog", str(tmp_path), "plan", "mine-o") == ["mine-own"]


def test_an_unreadable_catalog_completes_nothing(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "mine.toml").write_text("name = [")
    assert completed("--catalog", str(tmp_path), "plan", "vm.sw") == []


def test_labels_and_sessions_of_the_store_are_completed(tmp_path: Path) -> None:
    file = str(tmp_path / "results.db")
    store = Store(Database.open(file))
    for name, label in (("s1", "stock"), ("s2", "stock"), ("s3", "tuned"), ("s4", None)):
        store.begin(a_session(name, label=label))
    store.close()
    assert completed("--store", file, "compare", "st") == ["stock"]
    assert completed("--store", file, "claim", "p50 -5%", "s") == ["s1", "s2", "s3", "s4", "stock"]

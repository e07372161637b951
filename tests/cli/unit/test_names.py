# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from ktrial.cli.main import cli
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from tests.support.stores import a_session
from tests.support.told_trials import messaging_trial


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
        (("try", "vm.swappiness=1", "--suite", "margin"), ["margine"]),
        (("suggest", "--goal", "gam"), ["gaming"]),
        (("tune", "laten"), ["latency"]),
        (("boot", "try", "nohz_f"), ["nohz_full="]),
        (("boot", "try", "-quiet", "thread"), ["threadirqs"]),
        (("boot", "try", "micro-stutter-n"), []),
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
    assert completed("--catalog", str(tmp_path), "boot", "try", "mine-o") == []
    with (tmp_path / "profiles" / "mine.toml").open("a") as file:
        file.write('[[setting]]\nknob = "boot:threadirqs"\nvalue = "on"\nwhy = "I like it."\n')
    assert completed("--catalog", str(tmp_path), "boot", "try", "mine-o") == ["mine-own"]


def test_an_unreadable_catalog_completes_nothing(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "mine.toml").write_text("name = [")
    assert completed("--catalog", str(tmp_path), "explain", "vm.sw") == []


def test_labels_and_sessions_of_the_store_are_completed(tmp_path: Path) -> None:
    file = str(tmp_path / "results.db")
    store = Store(Database.open(file))
    for name, label in (("s1", "stock"), ("s2", "stock"), ("s3", "tuned"), ("s4", None)):
        store.begin(a_session(name, label=label))
    store.close()
    assert completed("--store", file, "compare", "st") == ["stock"]
    assert completed("--store", file, "claim", "p50 -5%", "s") == ["s1", "s2", "s3", "s4", "stock"]


def test_trials_of_the_store_are_completed(tmp_path: Path) -> None:
    file = str(tmp_path / "results.db")
    store = Store(Database.open(file))
    name = messaging_trial(store).trial
    store.close()
    for words in (("trial", "show"), ("trial", "resume"), ("publish",), ("retest",), ("bundle", "out.tar.zst")):
        assert completed("--store", file, *words, name[:5]) == [name]


def test_a_word_that_no_name_fits_is_completed_as_a_file(tmp_path: Path) -> None:
    found = ShellComplete(cli, {}, "ktrial", "_").get_completions(
        ["--store", str(tmp_path / "r.db"), "compare"], "a.js"
    )
    assert [(item.value, item.type) for item in found] == [("a.js", "file")]

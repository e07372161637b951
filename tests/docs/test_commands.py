# SPDX-License-Identifier: Apache-2.0
"""Each command that the documentation or a verb's help names is one that there is, with the options that it has.

Blocks of `console` are run as they stand (`test_examples`); trials are looked over on this machine (`tests/system`).
"""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.suite_files import load_suites
from tests.support.documented import Documented, context_of, documented

COMMANDS = documented()
SUITES = {*all_benchmarks(), *load_suites([], all_benchmarks())}


def test_there_are_many() -> None:
    assert len([one for one in COMMANDS if one.whole]) >= 150
    assert {"try", "blame", "ladder", "tune", "kernel", "watch"} <= {one.words[0] for one in COMMANDS}


@pytest.mark.parametrize("one", COMMANDS, ids=lambda one: " ".join(one.words)[:60])
def test_it_can_be_typed(one: Documented, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FOLDER").mkdir()
    for word in one.words:
        path = tmp_path / word
        if not word.startswith(("/", "-")) and ("." in word or "/" in word) and ".." not in word:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir() if word.endswith("/") else path.touch()
    try:
        context = context_of(tuple(word for word in one.words if word not in {"…", "COMMAND"}))
        suite = context.params.get("suite")
        assert suite is None or not one.whole or suite in SUITES, f"{one.place}: unknown suite or benchmark: {suite}"
    except (click.MissingParameter, click.BadOptionUsage, click.exceptions.NoArgsIsHelpError) as error:
        assert one.mentioned, f"{one.place}: ktrial {' '.join(one.words)}: {error.format_message()}"
    except click.exceptions.Exit as end:
        assert end.exit_code == 0, one.place
    except click.UsageError as error:
        pytest.fail(f"{one.place}: ktrial {' '.join(one.words)}: {error.format_message()}")

# SPDX-License-Identifier: Apache-2.0
"""The overview says what was tried last, and the commands that follow from it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from ktrial.cli.main import main
from ktrial.machine.transactions import Journaled, Lease, Status
from ktrial.studies.ledger.model import Now
from ktrial.studies.overview_text import overview_json, overview_of, overview_text
from tests.studies.unit.test_model_ledger import entry
from tests.support.tree import FakeRoot

NOW = Now(machine="m", kernel="6.12", values={"vm.swappiness": "60"})
IN_FORCE = Now(machine="m", kernel="6.12", values={"vm.swappiness": "10"})


def journal(*states: Any) -> Status:
    return Status(
        transactions=tuple(
            Journaled(number, "x", state, Lease("keep"), 0, True, ()) for number, state in enumerate(states, start=1)
        )
    )


def commands(*given: Any) -> list[str]:
    return [command for command, _ in overview_of(*given).next]


def test_nothing_tried_is_answered_with_how_to_begin() -> None:
    assert commands(Status(), (), NOW) == ["ktrial doctor", "ktrial review FILE", "ktrial suggest"]


def test_what_follows_from_the_state() -> None:
    better = entry("a")
    assert commands(journal("applied"), (), NOW) == ["ktrial revert"]
    assert commands(journal("unfinished"), (), NOW) == ["ktrial recover"]
    assert commands(journal("reverted"), (better,), NOW) == ["ktrial keep a", "ktrial trial show a"]
    assert commands(journal(), (better,), IN_FORCE) == ["ktrial trial show a"]
    assert commands(journal(), (entry("b", verdict="worse"),), NOW) == ["ktrial trial show b"]
    assert commands(journal(), (entry("a", superseded_by="b"),), NOW)[0] == "ktrial doctor"
    assert commands(None, (better,), IN_FORCE, "ktrial --host ssh:web") == [
        "ktrial --host ssh:web status",
        "ktrial --host ssh:web trial show a",
    ]


@pytest.mark.parametrize("manual, command", [(None, "ktrial trial resume c"), ("boot it", "ktrial trial next c")])
def test_a_trial_that_is_not_over_comes_first(manual: str | None, command: str) -> None:
    under_way = entry("c", over=False, verdict=None, blocks=4, manual=manual)
    found = overview_of(Status(), (under_way, entry("a"), entry("a", placebo=True)), NOW)
    assert found.next[0][0] == command
    assert [one.trial for one in found.verdicts] == ["a"]
    shown = overview_text(found, width=80)
    assert shown.startswith("not over    c, 4 blocks\nverdicts    1970-01-01 better: vm.swappiness=10; tool.time")
    assert max(map(len, shown.splitlines())) <= 80
    assert overview_json(found)["open_trials"][0].trial == "c"


def test_status_ends_with_it(root: FakeRoot, tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "results.db"))
    assert "ktrial doctor" in root.run(*store, "status").out
    root.run(*store, "apply", "vm.swappiness=10", "--yes")
    ran = root.run(*store, "status", "--json")
    assert ran.json["next"][0]["command"] == "ktrial revert"
    assert (ran.json["open_trials"], ran.json["verdicts"]) == ([], [])
    assert "next        ktrial revert" in root.run(*store, "status").out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_ktrial_alone_is_an_overview_on_a_terminal_and_help_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    out, err = Terminal(), io.StringIO()
    assert main([], out, err) == 0, err.getvalue()
    assert "next        ktrial " in out.getvalue()
    assert out.getvalue().endswith("`ktrial --help` lists all commands.\n")
    monkeypatch.setattr("ktrial.agent.binary.agent_places", lambda package: (tmp_path / "none",))
    out, err = Terminal(), io.StringIO()
    assert main([], out, err) == 0
    assert "Start here:" in out.getvalue()
    assert "found no agent" in err.getvalue()
    file = io.StringIO()
    assert main([], file, err) == 2
    assert "Start here:" in file.getvalue() + err.getvalue()

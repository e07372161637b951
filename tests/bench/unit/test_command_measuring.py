# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.suite import Between
from ktrial.bench.suite_files import load_suites
from ktrial.cli.app import App
from ktrial.cli.shared.bench import check_output, cpus_here, cpus_left, refuse_around
from ktrial.kit.errors import BadInput
from ktrial.machine.facts import Fact, FactBook


def test_around_runs_in_exact_guests_nothing_is_done() -> None:
    suites = load_suites([], all_benchmarks())
    refuse_around(suites["wakeups-busy"], {"--settle": False})
    with pytest.raises(BadInput, match="--settle: an exact guest cannot wait or restore anything between runs"):
        refuse_around(suites["wakeups-busy"], {"--when-idle": False, "--settle": True})
    resetting = msgspec.structs.replace(suites["wakeups-busy"], between=Between(sync=True))
    with pytest.raises(BadInput, match=f"the suite {resetting.name}: an exact guest cannot"):
        refuse_around(resetting, {"--settle": False})


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


@pytest.mark.parametrize("make", [os.mkfifo, bind, lambda path: path.symlink_to("/dev/null")])
@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_file_is_never_replaced(tmp_path: Path, make: Callable[[Path], None], force: bool) -> None:
    make(tmp_path / "out")
    with pytest.raises(BadInput, match="got a device, pipe or socket"):
        check_output(tmp_path / "out", force=force)


def test_a_file_is_replaced_when_told(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(BadInput, match="file exists"):
        check_output(tmp_path / "out", force=False)
    check_output(tmp_path / "out", force=True)


@pytest.mark.parametrize(
    "online, left, wanted",
    [([0, 1, 2, 3], {0, 1, 2, 3}, None), ([0, 2], {0, 1, 2}, None), ([0, 1, 2, 3], {3, 1}, "1,3"), (None, {1}, None)],
)
def test_cpus_that_were_left_to_it_are_known(
    monkeypatch: pytest.MonkeyPatch, online: list[int] | None, left: set[int], wanted: str | None
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: left)
    assert cpus_left(FactBook({} if online is None else {"cpu.online": Fact(value=online)})) == wanted


@pytest.mark.parametrize(
    "named, host, wanted",
    [(None, None, "1"), ("0-1", None, "0-1"), (None, "guest:x", None)],
    ids=["left", "named", "guest"],
)
def test_cpus_that_were_left_stand_in_for_those_that_were_not_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    named: str | None,
    host: str | None,
    wanted: str | None,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1})
    app = App(may_ask=False, host=host)
    assert cpus_here(app, FactBook({"cpu.online": Fact(value=[0, 1])}), named) == wanted
    assert ("is confined to CPUs 1 (taskset" in capsys.readouterr().err) == (wanted == "1")

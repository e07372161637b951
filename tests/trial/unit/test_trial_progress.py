# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a trial that runs: in place on a terminal, a line for each block elsewhere."""

from __future__ import annotations

import io
import itertools
import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from ktrial.judge.judge import judge
from ktrial.judge.model.log import Protocol
from ktrial.trial.protocol.file import ArmFile, TrialFile
from ktrial.trial.protocol.forecast import TrialForecast
from ktrial.trial.record import ArmSettings
from ktrial.trial.run.events import (
    BlockEnded,
    NoiseBegan,
    TrialEnded,
    TrialEvent,
    VisitBegan,
    VisitEnded,
    VisitWaits,
)
from ktrial.trial.run.prepare import Prepared
from ktrial.trial.run.progress import TrialProgress, _Pace
from tests.support.records import run_record
from tests.support.screen import Screen
from tests.support.trials import TIME, log_of, protocol

ARMS = ("control", "case")


class Tty(io.StringIO):
    """Standard error on a terminal."""

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self.screen = screen
        self.frames: list[list[str]] = []

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2

    def write(self, text: str) -> int:
        self.screen.write(text)
        self.frames.append(self.screen.lines)
        return len(text)


class Seen(NamedTuple):
    """A terminal and what is drawn on it."""

    terminal: Tty
    progress: TrialProgress


def prepared() -> Prepared:
    file = TrialFile(
        name="speeds", suite="wakeup", arms={"control": ArmFile(), "case": ArmFile(set={"vm.swappiness": 1})}
    )
    arms = {"control": ArmSettings(), "case": ArmSettings(changes={"vm.swappiness": "1"})}
    return Prepared(
        file=file,
        suite=None,  # type: ignore[arg-type]
        tasks=(),
        own_tasks={},
        facts=None,  # type: ignore[arg-type]
        plans={},
        arms=arms,
        idle=(),
        root=None,
        settle_s=0.0,
        seed=7,
    )


class Ticking:
    """Half a second goes by between any two looks at the clock."""

    def __init__(self) -> None:
        self._looks = itertools.count()

    def monotonic_ns(self) -> int:
        return next(self._looks) * 500_000_000

    def unix_ms(self) -> int:
        return 0

    def slept_s(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError("who shows something does not wait")


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Called by the test itself: pytest has its own standard error until then."""
    screen = Screen(80, 30)
    terminal = Tty(screen)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: screen.size)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Seen(terminal, TrialProgress(Ticking(), as_json=False))


def events(fixed: Protocol, blocks: int, order: Sequence[str] = ARMS, warm_ups: int = 2) -> Iterator[TrialEvent]:
    """What the course tells: the order of the arms is the same in all blocks."""
    run = 0
    for number in range(1, warm_ups + 1):
        run += 1
        yield VisitBegan(block=None, visit=number, visits=2, left_s=None)
        yield VisitEnded(
            block=None, record=run_record(run, "control", None, {"time": 1.0}), name="", failure=None, void=None
        )
    for block in range(1, blocks + 1):
        for visit, arm in enumerate(order, 1):
            run += 1
            yield VisitBegan(block=block, visit=visit, visits=len(order), left_s=None)
            record = run_record(run, arm, block, {"time": 1.0})
            yield VisitEnded(block=block, record=record, name="", failure=None, void=None)
        scores = {"control": [0.0] * block, "case": [0.05 + 0.01 * (place % 3) for place in range(block)]}
        yield BlockEnded(block=block, judgement=judge(log_of(fixed, {TIME: scores})))


def test_one_picture_is_drawn_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = on_terminal(monkeypatch)
    fixed = protocol()
    seen.progress.announce(prepared(), fixed)
    above = len(seen.terminal.screen.lines)
    for event in events(fixed, 7):
        seen.progress(event)
    lines = seen.terminal.screen.lines
    assert lines[above].startswith("test: tool.time")
    assert sum(line.startswith("test: tool.time") for line in lines) == 1
    assert any(line.startswith("case") and "better" in line for line in lines)
    assert any(line.startswith("ends") for line in lines)


def test_what_failed_is_told_above_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = on_terminal(monkeypatch)
    fixed = protocol()
    seen.progress.announce(prepared(), fixed)
    for event in events(fixed, 2):
        seen.progress(event)
    record = run_record(99, "case", 3, {}, failure="exit status 1")
    seen.progress(VisitBegan(block=3, visit=1, visits=2, left_s=None))
    seen.progress(VisitEnded(block=3, record=record, name="", failure="exit status 1", void=None))
    lines = seen.terminal.screen.lines
    place = lines.index("run discarded: exit status 1")
    assert lines[place + 1].startswith("test: tool.time")


def test_waiting_is_told_in_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = on_terminal(monkeypatch)
    seen.progress.announce(prepared(), protocol())
    seen.progress(VisitWaits(waiting="temperature 71 °C, begins below 60 °C"))
    assert "begins below 60" in seen.terminal.screen.lines[-1]


@pytest.mark.parametrize("live", [True, False])
def test_nothing_tells_the_arm_of_a_visit_before_its_block_is_over(live: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever arm comes first, the same is shown."""
    shown = []
    for order in (ARMS, ARMS[::-1]):
        terminal = Tty(Screen(80, 30))
        monkeypatch.setattr(sys, "stderr", terminal if live else io.StringIO())
        monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((80, 30)))
        monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.5, 0.5))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        progress = TrialProgress(Ticking(), as_json=False)
        progress.announce(prepared(), protocol())
        for event in events(protocol(), 7, order):
            progress(event)
        shown.append(terminal.frames if live else sys.stderr.getvalue())  # type: ignore[union-attr]
    assert shown[0]
    assert shown[0] == shown[1]


def test_nothing_is_drawn_when_a_run_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run begins directly after its event; only the first run, which never counts, may be drawn before."""
    seen = on_terminal(monkeypatch)
    fixed = protocol()
    seen.progress.announce(prepared(), fixed)
    for number, event in enumerate(events(fixed, 3)):
        before = len(seen.terminal.frames)
        seen.progress(event)
        if isinstance(event, VisitBegan) and number:
            assert len(seen.terminal.frames) == before, event


def test_a_log_file_has_one_line_for_each_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    progress = TrialProgress(Ticking(), as_json=False)
    fixed = protocol()
    progress.announce(prepared(), fixed)
    for event in events(fixed, 7):
        progress(event)
    said = sys.stderr.getvalue()  # type: ignore[union-attr]
    assert "\x1b" not in said
    lines = [line for line in said.splitlines() if line.startswith("block ")]
    assert len(lines) == 7
    assert lines[2].startswith("block 3/20: case undecided (about -")
    # Scores of 0.05 to 0.07 more are times of exp(-0.07) to exp(-0.05) of the control's.
    assert lines[6] == "block 7/20: case better (-6.8 % to -4.9 %)"


def test_json_has_every_event_and_the_profile_says_what_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = TrialProgress(Ticking(), as_json=True)
    fixed = protocol()
    progress(NoiseBegan(blocks=10))
    told = list(events(fixed, 2, warm_ups=0))
    for event in told:
        progress(event)
    said = capsys.readouterr()
    assert [json.loads(line)["event"] for line in said.out.splitlines()] == [
        "noise-began",
        *(["visit-began", "visit"] * 2 + ["block-ended"]) * 2,
    ]
    assert "noise profile: block 2 of 10, about 8 s left" in said.err
    judgement = judge(log_of(fixed, {TIME: {"control": [0.0], "case": [0.1]}}))
    progress(TrialEnded(trial="x", judgement=judgement, interrupted=True))
    assert json.loads(capsys.readouterr().out)["interrupted"] is True


def test_json_begins_with_what_is_about_to_be_done(capsys: pytest.CaptureFixture[str]) -> None:
    forecast = TrialForecast(wanted=0.05, smallest_effect=0.1, cap=9, needed=30, affordable=30, expected=9)
    TrialProgress(Ticking(), as_json=True).announce(prepared(), protocol(), forecast=forecast, rules=True)
    said = capsys.readouterr()
    (told,) = [json.loads(line) for line in said.out.splitlines()]
    assert told["event"] == "trial-announced"
    assert told["forecast"]["smallest_effect"] == 0.1
    assert told["forecast"]["cap_s"] is None
    assert told["arms"]["case"]["changes"] == {"vm.swappiness": "1"}
    assert "lost in the noise" in " ".join(said.err.split())


def test_several_benchmarks_of_a_visit_are_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = on_terminal(monkeypatch)
    fixed = protocol()
    seen.progress.announce(prepared(), fixed)
    record = run_record(1, "control", 1, {"time": 1.0})
    for visit in (1, 2):
        seen.progress(VisitBegan(block=1, visit=visit, visits=2, left_s=None))
        for _ in range(3):
            seen.progress(VisitEnded(block=1, record=record, name="", failure=None, void=None))
    assert any("2 of 2 runs" in line for line in seen.terminal.screen.lines)
    seen.progress(VisitBegan(block=2, visit=1, visits=2, left_s=None))
    seen.progress(VisitEnded(block=2, record=record, name="", failure=None, void=None))
    assert any("0 of 2 runs" in line for line in seen.terminal.screen.lines)


class SetClock:
    """A clock that stands where the test put it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)


def test_a_wait_before_each_block_is_part_of_the_time_of_its_visits() -> None:
    clock = SetClock()
    pace = _Pace(clock)  # type: ignore[arg-type]
    for block in (1, 2, 3):
        for visit, takes_s in ((1, 10.0), (2, 50.0)):
            pace.begins(VisitBegan(block=block, visit=visit, visits=2, left_s=None))
            clock.now_s += takes_s
    assert pace.run_s == 30.0

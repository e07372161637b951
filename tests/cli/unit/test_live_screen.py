# SPDX-License-Identifier: Apache-2.0
"""The screen of `ktrial ui`, driven by Textual's own pilot over a state that the test decides."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from textual.pilot import Pilot

from ktrial.cli.app import App
from ktrial.cli.shared import live_state
from ktrial.cli.shared.live_screen import LiveScreen, StopQuestion
from ktrial.cli.shared.live_state import LiveMoment, interrupt, trial_lines
from ktrial.cli.verbs.ui import refuse_terminal, refuse_without_extra
from ktrial.judge.model.log import RunEnded
from ktrial.kit.errors import BadInput, KtrialError, UnknownName
from ktrial.tuning.state.lock import MachineLock, look
from ktrial.tuning.state.lock_holder import Process, told_process
from tests.support.told_trials import a_trial

APPLIED = "no.  what             state    lease          steps\n1    vm.swappiness=10 applied  until a reboot 1"
VERDICTS = "verdicts    2026-11-29 better: vm.swappiness=10; rate +6 %; swappiness-abcdef\n\nnext  ktrial revert"
RUNNING = "process 4711 of ann, since 2026-11-29 12:00:00, `ktrial try vm.swappiness=10`"


class GivenState:
    """A state whose trial has a further block when it is read again."""

    def __init__(self, running: str | None = RUNNING) -> None:
        self.running = running
        self.stopped = 0
        self.reads = 0
        self.fails = False
        self.log = a_trial(ended=False).log

    def read(self, width: int) -> LiveMoment:
        if self.fails:
            raise KtrialError("the store is gone")
        self.reads += 1
        log = self.log[: 70 if self.reads == 1 else None]
        return LiveMoment(
            applied=APPLIED, trial="\n".join(trial_lines(log, width=width)), verdicts=VERDICTS, running=self.running
        )

    def why(self, knob: str, width: int) -> str:
        if knob != "vm.swappiness":
            raise UnknownName("knob", knob, ["vm.swappiness"])
        return "vm.swappiness = 10\n  set by /etc/sysctl.d/99-desk.conf:3"

    def stop(self, shown: str) -> str:
        assert shown == RUNNING
        self.stopped += 1
        return "Interrupted process 4711."


class GivenWatch:
    """A watch that shows one picture, and counts its ends."""

    def __init__(self) -> None:
        self.begun = self.ended = 0

    def start(self, shown: Callable[[str], None], width: Callable[[], int]) -> GivenWatch:
        self.begun += 1
        shown("cpu            ▁▂▃▄▅▆▇█   12.0%")
        return self

    def end(self) -> None:
        self.ended += 1


def text_of(screen: LiveScreen) -> str:
    """What a person sees, line by line."""
    strips = screen.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def settle(pilot: Pilot[None]) -> None:
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    await pilot.pause()


def drive(
    state: GivenState,
    does: Callable[[Pilot[None], LiveScreen], Awaitable[None]],
    watch: GivenWatch | None = None,
    size: tuple[int, int] = (80, 24),
) -> None:
    async def run() -> None:
        screen = LiveScreen(state, (watch or GivenWatch()).start)
        async with screen.run_test(size=size) as pilot:
            await settle(pilot)
            await does(pilot, screen)

    asyncio.run(run())


def test_it_shows_all_in_80_columns_and_24_lines() -> None:
    async def look(pilot: Pilot[None], screen: LiveScreen) -> None:
        text = text_of(screen)
        lines = text.split("\n")
        assert len(lines) == 24
        assert "swappiness: tool.rate, higher is better" in text
        assert "sw180" in text
        assert "Applied and kept" in text
        assert "vm.swappiness=10 applied" in text
        assert "q quit   w watch" in lines[-1]
        assert "┤" in text, "an interval"

    drive(GivenState(), look)


def test_the_interval_is_there_as_soon_as_the_trial_has_it() -> None:
    async def look(pilot: Pilot[None], screen: LiveScreen) -> None:
        (before,) = (line for line in text_of(screen).split("\n") if line.startswith(" sw180"))
        await pilot.press("r")
        await settle(pilot)
        (after,) = (line for line in text_of(screen).split("\n") if line.startswith(" sw180"))
        assert "open" in before
        assert "├" not in before
        assert "├•┤" in after
        assert "worse" in after

    state = GivenState()
    drive(state, look)
    assert state.reads == 2


def test_why_of_a_knob_and_of_none() -> None:
    async def ask(pilot: Pilot[None], screen: LiveScreen) -> None:
        for typed, said in (("vm.swappiness", "99-desk.conf:3"), ("vm.nosuch", "vm.nosuch")):
            await pilot.press("y", *typed, "enter")
            await settle(pilot)
            assert said in text_of(screen)
        await pilot.press("escape")
        await pilot.pause()
        assert "vm.nosuch" not in text_of(screen)
        await pilot.press("y", "q", "escape")
        assert screen.is_running, "a letter in the field is no key"

    drive(GivenState(), ask)


@pytest.mark.parametrize("key, stopped", [("y", 1), ("n", 0), ("escape", 0)])
def test_stop_asks_first(key: str, stopped: int) -> None:
    state = GivenState()

    async def stop(pilot: Pilot[None], screen: LiveScreen) -> None:
        await pilot.press("s")
        await pilot.pause()
        assert isinstance(screen.screen, StopQuestion)
        assert "process 4711" in text_of(screen)
        assert not state.stopped
        reads = state.reads
        state.running = "the process of another trial"
        screen.action_read()
        await settle(pilot)
        assert state.reads == reads + 1, "the state is read while the question is open"
        await pilot.press(key)
        await settle(pilot)
        assert not isinstance(screen.screen, StopQuestion)

    drive(state, stop)
    assert state.stopped == stopped


def test_without_a_trial_there_is_nothing_to_stop() -> None:
    state = GivenState(running=None)

    async def stop(pilot: Pilot[None], screen: LiveScreen) -> None:
        await pilot.press("s")
        await pilot.pause()
        assert not isinstance(screen.screen, StopQuestion)
        assert "No trial runs here" in text_of(screen)

    drive(state, stop)


def test_a_watch_is_begun_and_ended_by_the_same_key_and_by_quitting() -> None:
    watch = GivenWatch()

    async def look(pilot: Pilot[None], screen: LiveScreen) -> None:
        await pilot.press("w")
        await settle(pilot)
        assert "▁▂▃▄▅▆▇█" in text_of(screen)
        await pilot.press("w")
        await settle(pilot)
        assert "▁▂▃▄▅▆▇█" not in text_of(screen)
        assert (watch.begun, watch.ended) == (1, 1)
        await pilot.press("w", "q")

    drive(GivenState(), look, watch)
    assert (watch.begun, watch.ended) == (2, 2)


def test_what_cannot_be_read_is_said() -> None:
    state = GivenState()
    state.fails = True

    async def look(pilot: Pilot[None], screen: LiveScreen) -> None:
        assert "cannot read the state: the store is gone" in text_of(screen)

    drive(state, look)


def test_a_trial_without_a_run_has_no_interval() -> None:
    log = a_trial(ended=False).log
    begun = log[: next(place for place, one in enumerate(log) if isinstance(one, RunEnded))]
    (line,) = (one for one in trial_lines(begun, width=80) if "blocks done" in one)
    assert line.startswith("0 of at most 20 blocks done; 0 of ")


def test_a_stop_reaches_the_process_that_was_shown_and_no_other() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"], stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()
        shown = look(child.pid)
        with pytest.raises(KtrialError, match="it has ended"):
            interrupt(msgspec.structs.replace(shown, started="2001-01-01 00:00:00"))
        assert child.poll() is None
        interrupt(shown)
        assert child.wait(30) == -signal.SIGINT
    with pytest.raises(KtrialError, match="it has ended"):
        interrupt(shown)


def test_where_no_screen_can_be_drawn_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(getattr(sys, stream), "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    refuse_terminal()
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(BadInput, match="TERM is dumb"):
        refuse_terminal()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    with pytest.raises(BadInput, match="not a terminal"):
        refuse_terminal()


def test_without_the_extra_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_without_extra()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(KtrialError, match="the extra `ui`"):
        refuse_without_extra()


def test_no_other_verb_imports_textual() -> None:
    source = Path(__file__).resolve().parents[3] / "src/ktrial"
    texts = {str(path.relative_to(source)): path.read_text(encoding="utf-8") for path in source.rglob("*.py")}
    assert [name for name, text in texts.items() if "from textual" in text] == ["cli/shared/live_screen.py"]
    assert [name for name, text in texts.items() if "shared.live_screen" in text] == ["cli/verbs/ui.py"]


class GivenLock(MachineLock):
    """A lock that a process of this store, or of another one, holds."""

    def __init__(self, *words: str) -> None:
        super().__init__()
        self.words = words

    def trying(self) -> tuple[Process, ...]:
        return (Process(pid=1, words=self.words),) if self.words else ()


@pytest.mark.parametrize(
    "words, has_intervals, said",
    [
        ((), True, "Not running now: `ktrial trial resume swappiness-abcdef`"),
        (("/usr/bin/ktrial", "--store", "/mine.db", "try"), True, "Running: process 1"),
        (("/usr/bin/ktrial", "--store", "/other.db", "try"), False, "Running: process 1"),
    ],
)
def test_a_trial_of_another_store_is_not_taken_for_one_of_this(
    words: tuple[str, ...], has_intervals: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Process(pid=2, words=("/usr/bin/ktrial", "--store", "/mine.db", "ui"))
    kept = a_trial(ended=False)
    entry = SimpleNamespace(open=(SimpleNamespace(trial=kept.stored.trial),), verdicts=(), next=(("ktrial x", "y"),))
    monkeypatch.setattr(live_state, "look", lambda _: own)
    monkeypatch.setattr(live_state, "gather_overview", lambda *_, **__: (None, None, entry))
    monkeypatch.setattr(live_state, "overview_text", lambda *_, **__: "next")
    app = cast("App", SimpleNamespace(trials=SimpleNamespace(log=lambda _: kept.log)))
    moment = live_state.LiveState(app, GivenLock(*words)).read(80)
    assert ("sw180" in moment.trial) is has_intervals
    assert said in moment.trial
    assert "Only root can read what is applied" in moment.applied
    assert moment.running == (None if not words else told_process(Process(pid=1, words=words)))

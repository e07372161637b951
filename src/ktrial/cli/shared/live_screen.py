# SPDX-License-Identifier: Apache-2.0
"""The screen of `ktrial ui`. Only this module imports Textual, which is an optional dependency."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import ClassVar, Protocol

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from ktrial.cli.shared.live_state import LiveMoment
from ktrial.kit.errors import KtrialError
from ktrial.kit.tables import paragraph

#: Seconds between two reads; each read takes some milliseconds of a CPU from a running trial.
_EVERY_S = 5.0
_KEYS = "q quit   w watch   y why of a knob   s stop   r read again   arrows scroll"
_PARTS = {"trial": "Trial under way", "applied": "Applied and kept", "verdicts": "Verdicts and what next"}
_ON_REQUEST = {"watch": "Watch", "why": "Why"}


class ShownState(Protocol):
    """The data that the screen shows, and the actions of its keys."""

    def read(self, width: int) -> LiveMoment: ...

    def why(self, knob: str, width: int) -> str: ...

    def stop(self, shown: str) -> str: ...


class EndsWatch(Protocol):
    """A running watch that the screen can end."""

    def end(self) -> None: ...


StartsWatch = Callable[[Callable[[str], None], Callable[[], int]], EndsWatch]


class StopQuestion(ModalScreen[bool]):
    """Asks whether to interrupt the trial."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "stop it"),
        Binding("n,escape,q", "dismiss(False)", "go on"),
    ]

    def __init__(self, running: str) -> None:
        super().__init__()
        self._process = running

    def compose(self) -> ComposeResult:
        text = f"Stop this trial?\n\n{self._process}\n\nIt keeps its finished runs.   y stop it   n go on"
        yield Static(text, id="question", markup=False)


class LiveScreen(App[None]):
    """One screen of text, updated every few seconds and controlled by keys alone."""

    CSS = """
    LiveScreen, VerticalScroll, Static, Input { background: ansi_default; color: ansi_default; }
    #head, #keys { height: 1; text-style: reverse; }
    #said { height: auto; padding: 0 1; text-style: bold; }
    #body { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    .title { text-style: bold; margin-top: 1; }
    .title.first { margin-top: 0; }
    .off { display: none; }
    #knob { height: 1; border: none; padding: 0 1; display: none; }
    StopQuestion { align: center middle; background: ansi_default; }
    #question { width: 76; height: auto; border: ascii ansi_default; padding: 1 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "quit"),
        Binding("w", "watch", "watch"),
        Binding("y", "ask_why", "why"),
        Binding("s", "stop", "stop"),
        Binding("r", "read", "read again"),
        Binding("escape", "leave", "leave", show=False),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, state: ShownState, start_watch: StartsWatch) -> None:
        super().__init__(ansi_color=True)
        self._state = state
        self._start_watch = start_watch
        self._watch: EndsWatch | None = None
        self._reading = threading.Lock()
        self._process: str | None = None

    def compose(self) -> ComposeResult:
        yield Static("ktrial ui", id="head", markup=False)
        with VerticalScroll(id="body"):
            for number, (name, title) in enumerate((_PARTS | _ON_REQUEST).items()):
                off = " off" if name in _ON_REQUEST else ""
                first = "" if number else " first"
                yield Static(title, id=f"{name}-title", classes=f"title{first}{off}", markup=False)
                yield Static("reading …", id=name, classes=f"part{off}", markup=False)
        yield Input(placeholder="knob, for example vm.swappiness; Enter asks, Esc leaves", id="knob")
        yield Static("", id="said", classes="off", markup=False)
        yield Static(_KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        self._part("#body").focus()
        self.action_read()
        self.set_interval(_EVERY_S, self.action_read)

    def on_resize(self) -> None:
        self._show("keys", self._bar(_KEYS))

    def _bar(self, text: str) -> str:
        """Return a line in reverse video over the whole width."""
        return f" {text}".ljust(self.size.width)

    def on_unmount(self) -> None:
        self._end_watch()

    @property
    def columns(self) -> int:
        """The width of the text in columns, without scroll bar and margins."""
        return max(40, self.size.width - 3)

    def action_read(self) -> None:
        self.run_worker(self._read, thread=True, group="read")

    def _read(self) -> None:
        """Read the state in a thread of its own; do nothing if another thread is reading."""
        if not self._reading.acquire(blocking=False):
            return
        try:
            moment = self._state.read(self.columns)
        except KtrialError as error:
            self.call_from_thread(self._show, "trial", f"cannot read the state: {error.message}")
            return
        finally:
            self._reading.release()
        self.call_from_thread(self._show_moment, moment)

    def _show_moment(self, moment: LiveMoment) -> None:
        self._process = moment.running
        for name in _PARTS:
            self._show(name, getattr(moment, name))
        self._show("head", self._bar(f"ktrial ui   read at {time.strftime('%H:%M:%S')}"))

    def _part(self, selector: str) -> Widget:
        """Return a part of this screen, also while a question is above it."""
        return self.screen_stack[0].query_one(selector)

    def _text(self, name: str) -> Static:
        return self.screen_stack[0].query_one(f"#{name}", Static)

    def _show(self, name: str, text: str) -> None:
        self._text(name).update(text)

    def _show_part(self, name: str, *, on: bool) -> None:
        for one in (f"#{name}", f"#{name}-title"):
            self._part(one).set_class(not on, "off")
        if on:
            self._part(f"#{name}").scroll_visible(animate=False)

    def action_watch(self) -> None:
        if self._watch is not None:
            self._end_watch()
            self._show_part("watch", on=False)
            return
        self._show("watch", "starting …")
        self._show_part("watch", on=True)
        self._watch = self._start_watch(self._tell_watch, lambda: self.columns)

    def _tell_watch(self, text: str) -> None:
        """Show the lines of a watch; the thread of the watch does not wait for the screen."""
        self.call_later(self._show_watch, text)

    def _show_watch(self, text: str) -> None:
        begins = self._text("watch").size.height < 2
        self._show("watch", text)
        if begins:
            self.call_after_refresh(self._part("#watch").scroll_visible, animate=False)

    def _end_watch(self) -> None:
        if self._watch is not None:
            watch, self._watch = self._watch, None
            watch.end()

    def action_ask_why(self) -> None:
        field = self.screen_stack[0].query_one("#knob", Input)
        field.value = ""
        field.display = True
        self.set_focus(field)

    def _say(self, text: str) -> None:
        """Show a sentence above the keys until Escape or the next sentence."""
        self._show("said", text)
        self._part("#said").set_class(not text, "off")

    def action_leave(self) -> None:
        self._say("")
        self._part("#knob").display = False
        self._show_part("why", on=False)
        self._part("#body").focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        knob = event.value.strip()
        self.action_leave()
        if knob:
            self._show("why", f"{knob}: looking …")
            self._show_part("why", on=True)
            self.run_worker(lambda: self._ask(knob), thread=True, group="why")

    def _ask(self, knob: str) -> None:
        with self._reading:
            try:
                text = self._state.why(knob, self.columns)
            except KtrialError as error:
                text = told_error(error, self.columns)
        self.call_from_thread(self._show_answer, text)

    def _show_answer(self, text: str) -> None:
        self._show("why", text)
        self.call_after_refresh(self._part("#why").scroll_visible, animate=False)

    def action_stop(self) -> None:
        if self._process is None:
            self._say("No trial runs here.")
            return
        shown = self._process
        self.push_screen(StopQuestion(shown), lambda agreed: self._stop(shown) if agreed else None)

    def _stop(self, shown: str) -> None:
        try:
            text = self._state.stop(shown)
        except KtrialError as error:
            text = told_error(error, self.columns)
        self._say(text)
        self.action_read()


def told_error(error: KtrialError, width: int) -> str:
    hint = f"\n{paragraph(f'next: {error.hint}', width=width)}" if error.hint else ""
    return f"{paragraph(error.message, width=width)}{hint}"

# SPDX-License-Identifier: Apache-2.0
"""Starts the program of a watch, or ktrial's frame loop, on this machine or on another host."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ktrial.agent.binary import find_agent
from ktrial.bench.guest_tools import guest_path
from ktrial.bench.run.tail import LineTail
from ktrial.cli.shared.bench import not_in_guest, program_of
from ktrial.cli.shared.command_environment import named_variables, started_environment
from ktrial.guests.program import CAPTURE_BYTES, GuestProgram
from ktrial.kit.errors import BadInput
from ktrial.kit.streams import pass_on
from ktrial.recordings.frame_loop import GUEST_RESERVE_BYTES, LINES, loop_arguments
from ktrial.recordings.frames.lines import FrameLine
from ktrial.watch.record.held_program import HeldProgram

if TYPE_CHECKING:
    from ktrial.bench.benchmark import RawOutput
    from ktrial.cli.app import App

_FRAME = re.compile(LINES)
#: Size limit of a reply with frame lines, which are plain ASCII: 3 MiB are half an hour at 60 frames per second.
_FRAME_BYTES = 3 << 20


class Loop(NamedTuple):
    """A running frame loop of ktrial, and the reader of its lines."""

    program: HeldProgram | GuestProgram
    tail: LineTail | LinesAtEnd


class LinesAtEnd:
    """Frame lines that arrive all at once when the loop ends; each keeps the time at which the loop printed it."""

    def __init__(self) -> None:
        self._lines: list[FrameLine] = []
        #: Minimum number of lines that did not fit into the reply.
        self.lost = 0

    def put(self, raw: RawOutput) -> None:
        pass_on(sys.stderr, raw.stderr)
        matches = [_FRAME.fullmatch(line) for line in raw.stdout.decode(errors="replace").split("\n")]
        self._lines += [FrameLine(math.ceil(float(one["at"]) * 1e9), one[0]) for one in matches if one is not None]
        self.lost += raw.cut

    def take(self) -> list[FrameLine]:
        lines, self._lines = self._lines, []
        return lines

    def stop(self) -> None: ...


def watched_program(
    app: App, words: Sequence[str], limit_s: float, *, variables: Sequence[str], clean: bool, as_json: bool
) -> HeldProgram | GuestProgram:
    """Return the user's program, stopped until the watch starts it. Raise BadInput if it cannot start.

    On another host the program gets only the variables that the user names.
    """
    if app.host is None:
        return HeldProgram(words, environment=started_environment(variables, clean=clean))
    is_guest = app.host.guest_tools is not None
    program = str(program_of(words[0]) if is_guest else app.host.program_of(words[0]))
    app.host.give({program: program})
    try:
        return GuestProgram(
            app.host.connect("user"),
            (guest_path(program) if is_guest else program, *words[1:]),
            limit_s,
            lambda raw: _pass_on(app, raw, as_json),
            CAPTURE_BYTES,
            {**app.host.environment, **named_variables(variables)},
            app.host.home,
        )
    except BadInput as error:
        if not is_guest:
            raise
        raise not_in_guest(program, f": {error.message}") from None


def frame_loop(app: App, kind: str, limit_s: float) -> Loop:
    """Start a frame loop, and return it with the reader of its lines. The loop ends when nobody reads the lines."""
    if app.host is not None:
        lines = LinesAtEnd()
        argv = (app.host.agent, *loop_arguments(kind, limit_s, {"reserve_bytes": GUEST_RESERVE_BYTES}))
        return Loop(GuestProgram(app.host.connect("user"), argv, limit_s, lines.put, _FRAME_BYTES, {}), lines)

    reading, writing = os.pipe()
    try:
        tail = LineTail(Path(f"/proc/self/fd/{reading}"))
        program = HeldProgram((str(find_agent()), *loop_arguments(kind, limit_s)), stdout=writing)
    finally:
        os.close(reading)
        os.close(writing)
    return Loop(program, tail)


def _pass_on(app: App, raw: RawOutput, as_json: bool) -> None:
    """Print the output of a program in a guest: to stdout, or to stderr with --json, when stdout is for events."""
    pass_on(sys.stderr if as_json else sys.stdout, raw.stdout)
    pass_on(sys.stderr, raw.stderr)
    if raw.cut:
        app.say("the program printed too much; only the first 300 KiB of each stream are above")
    if raw.failed is not None:
        app.say(raw.failed)

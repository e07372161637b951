# SPDX-License-Identifier: Apache-2.0
"""The program that a watch starts, on this machine or in a guest, and the lines of ktrial's own frame loop there."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
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
    from ktrial.cli.app_guest import GuestHost

_FRAME = re.compile(LINES)
#: Where the agent lies in every guest.
_AGENT_THERE = "/init"
#: Lines of frames are plain ASCII: a reply holds 3 MiB of them, half an hour at 60 frames a second.
_FRAME_BYTES = 3 << 20


class Loop(NamedTuple):
    """ktrial's own frame loop, and its lines."""

    program: HeldProgram | GuestProgram
    tail: LineTail | LinesAtEnd


class LinesAtEnd:
    """Lines of the frame loop that are all there at once, when it has ended; each counts as read at its own moment."""

    def __init__(self) -> None:
        self._lines: list[FrameLine] = []
        #: Those that did not fit into the answer: it holds whole lines alone, so at least one.
        self.lost = 0

    def put(self, raw: RawOutput) -> None:
        pass_on(sys.stderr, raw.stderr)
        told = [_FRAME.fullmatch(line) for line in raw.stdout.decode(errors="replace").split("\n")]
        self._lines += [FrameLine(math.ceil(float(one["at"]) * 1e9), one[0]) for one in told if one is not None]
        self.lost += raw.cut

    def take(self) -> list[FrameLine]:
        """Return the lines that came since they were taken last."""
        taken, self._lines = self._lines, []
        return taken

    def stop(self) -> None: ...


def watched_program(
    app: App, words: Sequence[str], limit_s: float, *, variables: Sequence[str], clean: bool, as_json: bool
) -> HeldProgram | GuestProgram:
    """Return a program of the user's, stopped until it is let go; a guest has nothing of the shell's variables.

    Raises BadInput.
    """
    if app.host is None:
        return HeldProgram(words, environment=started_environment(variables, clean=clean))

    program = str(program_of(words[0]))
    app.host.give({program: program})
    try:
        return _start_in_guest(
            app.host,
            (guest_path(program), *words[1:]),
            limit_s,
            lambda raw: _pass_on(app, raw, as_json),
            variables=named_variables(variables),
        )
    except BadInput as error:
        raise not_in_guest(program, f": {error.message}") from None


def frame_loop(app: App, kind: str, limit_s: float) -> Loop:
    """Return a loop that draws, and its lines; it ends when nobody reads them. Raises BadInput."""
    if app.host is not None:
        lines = LinesAtEnd()
        argv = (_AGENT_THERE, *loop_arguments(kind, limit_s, {"reserve_bytes": GUEST_RESERVE_BYTES}))
        return Loop(_start_in_guest(app.host, argv, limit_s, lines.put, _FRAME_BYTES), lines)

    there, told = os.pipe()
    try:
        tail = LineTail(Path(f"/proc/self/fd/{there}"))
        program = HeldProgram((str(find_agent()), *loop_arguments(kind, limit_s)), stdout=told)
    finally:
        os.close(there)
        os.close(told)
    return Loop(program, tail)


def _start_in_guest(
    host: GuestHost,
    argv: Sequence[str],
    limit_s: float,
    take: Callable[[RawOutput], None],
    capture_bytes: int | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> GuestProgram:
    return GuestProgram(host.connect("user"), argv, limit_s, take, capture_bytes or CAPTURE_BYTES, variables)


def _pass_on(app: App, raw: RawOutput, as_json: bool) -> None:
    """What a program in a guest printed, as if it had printed it here; with --json standard output is for events."""
    pass_on(sys.stderr if as_json else sys.stdout, raw.stdout)
    pass_on(sys.stderr, raw.stderr)
    if raw.cut:
        app.say("the program printed more than can be handed over: its first 300 KiB of each stream are above")
    if raw.failed is not None:
        app.say(raw.failed)

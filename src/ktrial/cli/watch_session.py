# SPDX-License-Identifier: Apache-2.0
"""One watch from its begin to the sum at its end, for a person or for a program."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from ktrial.cli.options import write_json
from ktrial.cli.watching import FRAMES, Shown, write_frames
from ktrial.domain.frame_lines import FramePattern
from ktrial.domain.frame_loop import LINES, loop_arguments
from ktrial.host.disk_of import disk_of
from ktrial.host.find_agent import find_agent
from ktrial.host.held_program import HeldProgram
from ktrial.host.line_tail import LOOK_S, LineTail
from ktrial.services.watch import Shows, Wanted, crowded_disk, read_back, watch

if TYPE_CHECKING:
    from ktrial.cli.wiring import App


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says. `live`: to draw in place; None: as it fits."""

    wanted: Wanted
    words: tuple[str, ...] | None
    file: Path
    frames_from: Path | None
    pattern: str | None
    loop: str | None
    every_s: float
    live: bool | None
    as_json: bool


class _Looks(Shows, Protocol):
    """Shows until the end."""

    def ended(self) -> None:
        """The watch is over."""


def watch_session(app: App, asked: Asked) -> None:
    """Watch, and tell the sum. Raises BadInput, AgentError."""
    pattern = None if asked.pattern is None else FramePattern(asked.pattern)
    rates = dict(asked.wanted.rates)
    watching = app.watching(asked.file, rates.pop("nvidia", None))
    tail = None if asked.frames_from is None else LineTail(asked.frames_from)
    program = None if asked.words is None else HeldProgram(asked.words)
    if asked.loop is not None:
        pattern = FramePattern(LINES)
        program, tail = _frame_loop(asked.loop, asked.wanted.limit_s)
    shows = _shows(app, asked, pattern, tail)
    wanted = msgspec.structs.replace(asked.wanted, rates=rates)
    if program is not None:
        wanted = msgspec.structs.replace(wanted, process=program.pid)
    cpu_s = time.process_time()
    try:
        with app.interrupts:
            ended, status = watch(watching, wanted, shows, program=program)
        shows.ended()
    finally:
        if program is not None:
            program.close()
        lines = [] if tail is None else tail.stop()
    cpu_s = time.process_time() - cpu_s
    told_by = str(asked.frames_from) if asked.loop is None else "the frame loop"
    frames = None if pattern is None else (lines, pattern, told_by, LOOK_S)
    file = asked.file
    recording, findings = read_back(file.read_bytes(), str(file), ended, frames)
    findings = (*findings, *crowded_disk(recording, disk_of(file.parent), ended.bytes))
    if pattern is not None and recording.frames is not None:
        write_frames(recording.frames, recording.unix_at_zero_s or 0.0, file.parent / FRAMES)
    if asked.as_json:
        told = {"event": "ended", "file": str(file), "exit_status": status, "head_cpu_s": cpu_s}
        write_json({**told, "ended": msgspec.to_builtins(ended), "findings": msgspec.to_builtins(findings)})
    else:
        from ktrial.report.terminal import columns
        from ktrial.report.watching import summary

        sys.stdout.write(summary(ended, str(file), findings, cpu_s, columns()))


def _frame_loop(kind: str, limit_s: float) -> tuple[HeldProgram, LineTail]:
    """A loop that draws, and its lines; it ends when nobody reads them."""
    lines, told = os.pipe()
    try:
        tail = LineTail(Path(f"/proc/self/fd/{lines}"))
        program = HeldProgram((str(find_agent()), *loop_arguments(kind, limit_s)), stdout=told)
    finally:
        os.close(lines)
        os.close(told)
    return program, tail


def _shows(app: App, asked: Asked, pattern: FramePattern | None, tail: LineTail | None) -> _Looks:
    from ktrial.cli.watch_drawing import Drawn, draws

    shares = asked.words is not None and (sys.stdout.isatty() or sys.stderr.isatty())
    if not draws(asked.live, as_json=asked.as_json, shares_terminal=shares):
        return Shown(asked.every_s, as_json=asked.as_json)
    from ktrial.catalog.symptoms import load_symptoms

    process = asked.wanted.process
    title = " ".join(asked.words) if asked.words else "the machine" if process is None else f"process {process}"
    if asked.loop is not None:
        title = f"frames of ktrial's own, {asked.loop}"
    return Drawn(
        title,
        load_symptoms(app.catalog),
        program=asked.words is not None or process is not None or asked.loop is not None,
        pattern=pattern,
        lines_since=None if tail is None else tail.since,
    )

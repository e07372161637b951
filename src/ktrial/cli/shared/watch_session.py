# SPDX-License-Identifier: Apache-2.0
"""Runs one watch from its start to the summary, for a person or a program.

On a terminal it draws a live view of what it records.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ktrial.bench.run.tail import LineTail
from ktrial.cli.options import write_json
from ktrial.cli.shared.watch import WatchShown, untraced
from ktrial.cli.shared.watched_programs import LinesAtEnd, frame_loop, watched_program
from ktrial.kit.console import LiveLines, is_live
from ktrial.kit.streams import draw
from ktrial.kit.tables import columns
from ktrial.machine.disks import disk_of
from ktrial.recordings.frame_loop import LINES
from ktrial.recordings.frames.lines import FramePattern
from ktrial.watch.diagnosis.symptoms import load_symptoms
from ktrial.watch.record.frames import KeptFrames, Looks, TellsFrames
from ktrial.watch.record.live import LiveWatch
from ktrial.watch.record.live_view import watch_view
from ktrial.watch.record.text import summary
from ktrial.watch.record.watch import WatchRequest, crowded_disk, lost_lines, read_back, watch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ktrial.cli.app import App
    from ktrial.recordings.watching import MachineView
    from ktrial.watch.diagnosis.symptoms import Symptom


def draws(wanted: bool | None, *, as_json: bool, shares_terminal: bool) -> bool:
    """Return whether to draw in place: never with --json or without a terminal, otherwise as `wanted` says.

    If `wanted` is None, draw unless the started program writes to the same terminal.
    """
    can = is_live(sys.stderr, os.environ) and not as_json
    return can and (wanted if wanted is not None else not shares_terminal)


class LivePicture:
    """Draws the live view of a watch on stderr, once a second; `frames_told` is true if a log reports the frames."""

    def __init__(
        self, title: str, symptoms: Mapping[str, Symptom], *, program: bool, frames_told: bool = False
    ) -> None:
        self._title = title
        self._has_warned = False
        self._live = LiveWatch(symptoms, program=program, frames_told=frames_told)
        self._view = LiveLines(lambda text: draw(sys.stderr, text), lambda: os.get_terminal_size(sys.stderr.fileno()))
        self._cpu_s = time.process_time()

    def seen(self, seen: MachineView) -> None:
        self._live.seen(seen)
        self._draw()

    def handed(self, data: bytes) -> None:
        self._live.handed(data)
        if not self._has_warned and self._live.why_untraced is not None:
            self._has_warned = True
            self._view.say(untraced(self._live.why_untraced))

    def ended(self) -> None:
        """Draw the last picture, which stays on the terminal."""
        self._draw()

    def frames(self, frames: Sequence[tuple[int, float]]) -> None:
        self._live.frames([end_ns / 1e9 for end_ns, _ in frames], [took_s for _, took_s in frames])

    def _draw(self) -> None:
        moment = self._live.moment(time.process_time() - self._cpu_s)
        if moment is not None:
            self._view.draw(watch_view(moment, title=self._title, width=self._view.columns))


class WatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `ktrial watch`. `live` states whether to draw in place; with None ktrial decides."""

    wanted: WatchRequest
    words: tuple[str, ...] | None
    variables: tuple[str, ...]
    clean_env: bool
    file: Path
    frames_from: Path | None
    pattern: str | None
    loop: str | None
    every_s: float
    live: bool | None
    as_json: bool


def watch_session(app: App, options: WatchOptions) -> None:
    """Watch until the program ends, the time is over or the user presses Ctrl-C; then print the summary."""
    rates = dict(options.wanted.rates)
    nvidia_hz, limit_s = rates.pop("nvidia", None), options.wanted.limit_s
    pattern = None if options.pattern is None else FramePattern(options.pattern)
    tail: LineTail | LinesAtEnd | None = None if options.frames_from is None else LineTail(options.frames_from)
    program = None
    if options.words is not None:
        program = watched_program(
            app, options.words, limit_s, variables=options.variables, clean=options.clean_env, as_json=options.as_json
        )
    told_by = str(options.frames_from)
    if options.loop is not None:
        pattern, told_by = FramePattern(LINES), "the frame loop"
        program, tail = frame_loop(app, options.loop, limit_s)
    drawing = _shows(app, options, frames_told=pattern is not None)
    kept = None
    if tail is not None and pattern is not None:
        kept = KeptFrames(tail, pattern, told_by, options.file.parent, drawing)
    shows: Looks = kept or drawing
    request = msgspec.structs.replace(options.wanted, rates=rates)
    if program is not None:
        request = msgspec.structs.replace(request, process=program.pid, command=program.command)
    cpu_s = time.process_time()
    try:
        watching = app.watching(options.file, nvidia_hz)
        with app.interrupts:
            ended, status = watch(watching, request, shows, program=program)
        shows.ended()
    finally:
        if program is not None:
            program.close()
        if kept is not None:
            kept.stop()
    head_cpu_s = time.process_time() - cpu_s if app.host is None else None
    file = options.file
    stream, error_s = (None, 0.0) if kept is None else (kept.stream, kept.error_s)
    recording, findings = read_back(file.read_bytes(), str(file), ended, stream, error_s)
    findings = (*findings, *crowded_disk(recording, disk_of(file.parent) if app.host is None else None, ended.bytes))
    if kept is not None:
        findings = (*findings, *lost_lines(kept.lost))
    if options.as_json:
        event = {"event": "ended", "file": str(file), "exit_status": status, "head_cpu_s": head_cpu_s}
        write_json({**event, "ended": msgspec.to_builtins(ended), "findings": msgspec.to_builtins(findings)})
    else:
        sys.stdout.write(summary(ended, str(file), findings, head_cpu_s, columns()))


def _shows(app: App, options: WatchOptions, *, frames_told: bool) -> TellsFrames:
    shares = options.words is not None and (sys.stdout.isatty() or sys.stderr.isatty())
    if not draws(options.live, as_json=options.as_json, shares_terminal=shares):
        return WatchShown(options.every_s, as_json=options.as_json)

    process = options.wanted.process
    title = " ".join(options.words) if options.words else "the machine" if process is None else f"process {process}"
    if options.loop is not None:
        title = f"ktrial's frame loop, {options.loop}"
    return LivePicture(
        title,
        load_symptoms(app.catalog),
        program=options.words is not None or process is not None or options.loop is not None,
        frames_told=frames_told,
    )

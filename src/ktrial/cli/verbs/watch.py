# SPDX-License-Identifier: Apache-2.0
"""`ktrial watch`: record what a machine or a program goes through."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrial.cli.measuring import TakesCommand, own_words
from ktrial.cli.options import json_option, seconds, write_json
from ktrial.cli.wiring import App
from ktrial.domain.errors import BadInput, Refused

if TYPE_CHECKING:
    from ktrial.services.watch import Wanted


@click.command(cls=TakesCommand, short_help="Record what a machine or a program goes through: pressures, stalls.")
@click.option("--pid", type=click.IntRange(min=1), metavar="P", help="Watch this process and what it starts.")
@click.option("--thread", type=click.IntRange(min=1), metavar="T", help="The thread of the frames; else the first one.")
@click.option("--for", "length", metavar="TIME", help="End after this time; else with the program, or at Ctrl-C.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Keep the recording in DIR.")
@click.option("--rate", "rate_words", multiple=True, metavar="SOURCE=HZ", help="Read a source so often; 0: not at all.")
@click.option("--above", multiple=True, metavar="KIND=TIME", help="Tell events of a kind from this length on.")
@click.option("--no-trace", is_flag=True, help="Trace no events.")
@click.option("--frames-from", type=click.Path(path_type=Path), metavar="FILE", help="A log or pipe that tells frames.")
@click.option(
    "--pattern",
    metavar="REGEX",
    help="How a line tells one: a group s, ms, us, ns or fps; `at`: when it ended.",
)
@click.option("--every", default="5s", show_default=True, metavar="TIME", help="A line of text for so long.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    pid: int | None,
    thread: int | None,
    length: str | None,
    output: Path | None,
    rate_words: tuple[str, ...],
    above: tuple[str, ...],
    no_trace: bool,
    frames_from: Path | None,
    pattern: str | None,
    every: str,
    as_json: bool,
) -> int:
    """Record counters, pressures and what the kernel does, with the time it takes, until a program or a time ends.

    Events (direct reclaim, slow disk requests, delays of threads) need root; without it there are samples alone. The
    recording is written as it goes: what a kill -9 leaves can be read.

    \b
    ktrial watch -- ./game
    ktrial watch --pid 4711 --for 10m -o stutter
    ktrial watch --frames-from game.log --pattern 'frame (?P<ms>[\\d.]+) ms' --pid 4711
    """
    from ktrial.cli.watching import RECORDING, Shown, least, new_folder, rates
    from ktrial.services.watch import LONGEST_S, Wanted

    app: App = ctx.obj
    words = own_words(ctx)
    if words is not None and (pid is not None or not words):
        raise BadInput("give either --pid or a program after --", hint="ktrial watch -- PROGRAM")
    if (frames_from is None) != (pattern is None):
        raise BadInput("--frames-from and --pattern go together")
    if not app.on_this_machine:
        raise Refused("this machine only can be watched", hint="leave --machine-root out")
    wanted = Wanted(
        limit_s=LONGEST_S if length is None else seconds(length, "--for"),
        process=pid,
        frame_thread=thread,
        rates=rates(rate_words),
        least_s=least(above),
        trace=not no_trace,
    )
    file = new_folder(output) / RECORDING
    return _watch(
        app, wanted, words, file, frames_from, pattern, Shown(seconds(every, "--every"), as_json=as_json), as_json
    )


def _watch(
    app: App,
    wanted: Wanted,
    words: tuple[str, ...] | None,
    file: Path,
    frames_from: Path | None,
    pattern: str | None,
    shown: object,
    as_json: bool,
) -> int:
    import msgspec

    from ktrial.cli.watching import FRAMES, Shown, write_frames
    from ktrial.domain.frame_lines import FramePattern
    from ktrial.host.held_program import HeldProgram
    from ktrial.host.line_tail import LOOK_S, LineTail
    from ktrial.services.watch import read_back, watch

    assert isinstance(shown, Shown)
    compiled = None if pattern is None else FramePattern(pattern)
    watching = app.watching(file)
    tail = None if frames_from is None else LineTail(frames_from)
    program = None if words is None else HeldProgram(words)
    if program is not None:
        wanted = msgspec.structs.replace(wanted, process=program.pid)
    cpu_s = time.process_time()
    try:
        with app.interrupts:
            ended, status = watch(watching, wanted, shown, program=program)
    finally:
        if program is not None:
            program.close()
        lines = [] if tail is None else tail.stop()
    cpu_s = time.process_time() - cpu_s
    frames = None if compiled is None else (lines, compiled, str(frames_from), LOOK_S)
    recording, findings = read_back(file.read_bytes(), str(file), ended, frames)
    if compiled is not None and recording.frames is not None:
        write_frames(recording.frames, recording.unix_at_zero_s or 0.0, file.parent / FRAMES)
    if as_json:
        told = {"event": "ended", "file": str(file), "exit_status": status, "head_cpu_s": cpu_s}
        write_json({**told, "ended": msgspec.to_builtins(ended), "findings": msgspec.to_builtins(findings)})
    else:
        from ktrial.report.terminal import columns
        from ktrial.report.watching import summary

        sys.stdout.write(summary(ended, str(file), findings, cpu_s, columns()))
    return 0

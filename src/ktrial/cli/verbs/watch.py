# SPDX-License-Identifier: Apache-2.0
"""`ktrial watch`: record pressure, stalls and kernel events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, seconds
from ktrial.cli.shared.bench import TakesCommand, own_words
from ktrial.cli.shared.command_environment import clean_env_option, refuse_without_command
from ktrial.kit.errors import BadInput, Refused
from ktrial.recordings.frame_loop import KINDS


@click.command(cls=TakesCommand, short_help="Show and record pressure, stalls and kernel events.")
@click.option("--pid", type=click.IntRange(min=1), metavar="P", help="Process to watch, with its child processes.")
@click.option(
    "--thread",
    type=click.IntRange(min=1),
    metavar="T",
    help="Thread of process P that draws frames.  [the first thread]",
)
@click.option(
    "--for", "length", metavar="TIME", help="Stop after TIME.  [when the program ends, at Ctrl-C, or after 7 days]"
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder for the recording.  [a new folder; ktrial prints its name at the end]",
)
@click.option(
    "--rate",
    "rate_words",
    multiple=True,
    metavar="SOURCE=HZ",
    help="Rate from 1Hz to 100Hz at which to read a source (cpu, memory, disks, …), such as cpu=50Hz; 0 disables the"
    " source. Repeatable.  [chosen per source]",
)
@click.option(
    "--above",
    multiple=True,
    metavar="KIND=TIME",
    help="Record only events of KIND (block-io, direct-reclaim, irq, …) that last longer than TIME, such as"
    " block-io=10ms. Repeatable.",
)
@click.option("--no-trace", is_flag=True, help="Do not trace kernel events.")
@click.option(
    "--frames-from", type=click.Path(path_type=Path), metavar="FILE", help="Log or pipe with a line for each frame."
)
@click.option(
    "--pattern",
    metavar="REGEX",
    help="Regular expression for a frame's line. Group s, ms, us or ns holds the frame time, group fps the frame rate, "
    "and group `at` the time at which the frame ended.",
)
@click.option(
    "--frame-loop",
    "loop",
    type=click.Choice(list(KINDS)),
    help="Built-in loop of 60 frames a second to watch instead of a program: alone (calm) or under memory pressure.",
)
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Environment variable to set for CMD. Without VALUE, ktrial takes the shell's value. Repeatable.",
)
@clean_env_option
@click.option(
    "--every",
    default="5s",
    show_default=True,
    metavar="TIME",
    help="Interval between two lines, if ktrial prints lines.",
)
@click.option(
    "--live/--plain",
    "live",
    default=None,
    help="Draw in place, or print lines.  [in place on a terminal, unless CMD writes to it]",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    pid: int | None,
    thread: int | None,
    length: str | None,
    output: Path | None,
    rate_words: tuple[str, ...],
    above: tuple[str, ...],
    no_trace: bool,
    frames_from: Path | None,
    pattern: str | None,
    loop: str | None,
    every: str,
    **passed: Any,
) -> int:
    """Record counters, pressure and kernel events until a program ends, --for is over, or you press Ctrl-C.

    Only kernel events (direct reclaim, slow disk requests, delayed threads) need root; without root, ktrial still
    records counters and pressure. The recording survives a kill -9. `ktrial diagnose FOLDER` evaluates the recording.

    On a terminal ktrial draws pressure, the phase (warm-up, ramp-up or steady state) and the latest stutters in place.
    If the program writes to the same terminal, ktrial draws only with --live.

    \b
    ktrial watch -o flight -- ./game
    ktrial watch --pid 4711 --for 10m -o stutter
    ktrial watch --frames-from game.log --pattern 'frame (?P<ms>[\\d.]+) ms' --pid 4711
    """
    from ktrial.cli.shared.watch import RECORDING, least, new_folder, rates, refuse_on_host
    from ktrial.cli.shared.watch_session import WatchOptions, watch_session
    from ktrial.watch.record.watch import LONGEST_S, WatchRequest

    app: App = ctx.obj
    if (words := own_words(ctx)) is None:
        refuse_without_command(passed["variables"], clean=passed["clean_env"])
    _refuse_contradictions(pid, words, frames_from, pattern, loop)
    refuse_on_host(app.host, frames_from, rates(rate_words), ends=length is not None or words is not None)
    if not app.may_run_trials:
        raise Refused("cannot watch a folder", hint="leave out --machine-root")
    request = WatchRequest(
        limit_s=LONGEST_S if length is None else seconds(length, "--for"),
        process=pid,
        frame_thread=thread,
        rates=rates(rate_words),
        least_s=least(above),
        trace=not no_trace,
    )
    watch_options = WatchOptions(
        wanted=request,
        words=words,
        file=new_folder(output, words, pid, here=app.host is None) / RECORDING,
        frames_from=frames_from,
        pattern=pattern,
        loop=loop,
        every_s=seconds(every, "--every"),
        **passed,
    )
    watch_session(app, watch_options)
    return 0


def _refuse_contradictions(
    pid: int | None, words: tuple[str, ...] | None, frames_from: Path | None, pattern: str | None, loop: str | None
) -> None:
    if words is not None and (pid is not None or not words):
        raise BadInput("expected either --pid or a program after --", hint="ktrial watch -- PROGRAM")
    if loop is not None and (pid is not None or words is not None or frames_from is not None):
        raise BadInput(
            "cannot combine --frame-loop with --pid, --frames-from or a program",
            hint="leave out --pid, --frames-from and the program after --",
        )
    if (frames_from is None) != (pattern is None):
        if frames_from is None:
            raise BadInput("--pattern requires --frames-from", hint="add --frames-from FILE")
        raise BadInput("--frames-from requires --pattern", hint="add --pattern REGEX")

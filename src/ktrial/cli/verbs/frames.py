# SPDX-License-Identifier: Apache-2.0
"""`ktrial frames`: compute statistics of frame logs, or run a game and log its frames."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.options import frame_logs_option, idle_option, json_option, output_option, seconds
from ktrial.cli.shared.bench import TakesCommand, check_output, own_words
from ktrial.cli.shared.command_environment import clean_env_option, env_option, refuse_without_command
from ktrial.cli.shared.games import game_here, game_there, play_here, play_there, show_frames
from ktrial.kit.errors import BadInput, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command(cls=TakesCommand, short_help="Show frame statistics of a log or of a game.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE…|-- CMD…]")
@click.option("--label", metavar="NAME", help="Name of the configuration, stored with the run.")
@output_option("Also write the run as JSON to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@click.option("--duration", metavar="TIME", help="Stop logging after TIME; MangoHud before 0.7 needs this option.")
@click.option("--program", metavar="NAME", help="Name of the process whose log to use, if there are several logs.")
@click.option(
    "--captures",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Also look for the log in FOLDER. Repeatable.",
)
@env_option
@clean_env_option
@frame_logs_option
@idle_option("Wait until the machine is otherwise idle, then start CMD.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[Path, ...],
    label: str | None,
    output: Path | None,
    force: bool,
    duration: str | None,
    program: str | None,
    captures: tuple[Path, ...],
    variables: tuple[str, ...],
    clean_env: bool,
    below_fps: float | None,
    as_json: bool,
) -> int:
    """Show frame statistics of MangoHud, X-Plane and MSI Afterburner logs, with the definition of each figure.

    \b
    ktrial frames capture.csv
    ktrial frames --label stock -- %command%
    ktrial frames -- ./X-Plane-x86_64 --fps_test=3

    With CMD, ktrial runs the game under MangoHud, logs every frame, stores the run, and ends with the game's exit
    status. Put `ktrial frames --` before the game in the launch options of Steam, Lutris or Flatpak. For a CMD
    with --fps_test=N (X-Plane's own test), ktrial reads Log.txt instead.

    If a log only samples the frame rate (MangoHud, MSI Afterburner, X-Plane telemetry), ktrial shows the mean, but no
    quantiles, lows or stutters.
    """
    app: App = ctx.obj
    words = own_words(ctx)
    if bool(files) == (words is not None):
        raise BadInput(
            "no log file and no command given" if not files else "cannot combine files with a command after --",
            hint="name either log files, or a command after --",
        )
    if words is None:
        others = {"label": label, "output": output, "duration": duration, "program": program, "captures": captures}
        refuse_without_command(variables, clean=clean_env, when_idle=app.when_idle, **others)
        return _read(files, below_fps, as_json)
    if not app.on_this_machine and (app.host is None or app.host.guest_tools is not None):
        option = "--machine-root" if app.host is None else "--host"
        raise Refused("games run on real machines only", hint=f"leave out {option}")
    check_output(output, force=force)
    limit_s = None if duration is None else max(1, math.ceil(seconds(duration, "--duration")))
    more = {"label": label, "program": program, "duration_s": limit_s, "below_fps": below_fps}
    if app.host is not None:
        return play_there(app, app.host, game_there(app.host, words, variables, captures, **more), output, as_json)
    return play_here(app, game_here(words, variables, clean=clean_env, **more), captures, output, as_json)


def _read(files: Sequence[Path], below_fps: float | None, as_json: bool) -> int:
    from ktrial.kit.files import read_file
    from ktrial.kit.formats.tool_output import with_hint
    from ktrial.results.import_file import LIMIT_BYTES
    from ktrial.watch.frames import read_log

    with with_hint("log the frames again"):
        reports = [read_log(read_file(file, LIMIT_BYTES), str(file), below_fps) for file in files]
    show_frames(reports, as_json)
    return 0

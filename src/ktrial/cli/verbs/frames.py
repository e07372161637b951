# SPDX-License-Identifier: Apache-2.0
"""`ktrial frames`: compute statistics of frame logs, or run a game and log its frames."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import below_fps_option, json_option, output_option, seconds, write_answer
from ktrial.cli.shared.bench import TakesCommand, check_output, own_words, program_of, write_result
from ktrial.cli.shared.command_environment import (
    clean_env_option,
    env_option,
    named_variables,
    refuse_without_command,
    started_environment,
)
from ktrial.kit.errors import BadInput, BadRun, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrial.recordings.frames.statistics import FrameReport
    from ktrial.watch.frames import Game

EXIT_BY_SIGNAL = 128


@click.command(cls=TakesCommand, short_help="Show frame statistics of logs, or of a game.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE…|-- CMD…]")
@click.option("--label", metavar="NAME", help="Name of the configuration, stored with the run.")
@output_option("Also write the run as JSON to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--duration", metavar="TIME", help="Stop logging after TIME; needed before MangoHud 0.7.")
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
@below_fps_option
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
    """Show frame time statistics of MangoHud and X-Plane logs, with the definition of each figure.

    \b
    ktrial frames capture.csv
    ktrial frames --label stock -- %command%
    ktrial frames -- ./X-Plane-x86_64 --fps_test=3

    With a command, ktrial runs the game under MangoHud, logs every frame, and stores the run. Use it as a launch option
    of Steam, Lutris or Flatpak. For a command with --fps_test=N (X-Plane's own test) ktrial reads Log.txt instead.

    If a log only samples the frame rate (MangoHud, MSI Afterburner, X-Plane telemetry), ktrial shows only the mean.
    """
    words = own_words(ctx)
    if bool(files) == (words is not None):
        raise BadInput(
            "nothing to read" if not files else "cannot combine files with a command after --",
            hint="ktrial frames capture.csv, or: ktrial frames -- GAME",
        )
    if words is None:
        refuse_without_command(variables, clean=clean_env)
        return _read(files, below_fps, as_json)
    app: App = ctx.obj
    if not app.on_this_machine:
        raise Refused("games run on this machine only", hint="leave out --machine-root")
    check_output(output, force=force)
    limit_s = None if duration is None else max(1, math.ceil(seconds(duration, "--duration")))
    game = _game(
        words, variables, clean=clean_env, label=label, program=program, duration_s=limit_s, below_fps=below_fps
    )
    return _play(app, game, captures, output, as_json)


def _game(words: Sequence[str], variables: Sequence[str], *, clean: bool, **more: Any) -> Game:
    from ktrial.watch.frames import Game

    if not words:
        raise BadInput("no command after --", hint="ktrial frames -- glxgears")
    return Game(
        argv=(str(program_of(words[0])), *words[1:]),
        environment=started_environment(variables, clean=clean),
        named=frozenset(named_variables(variables)),
        directory=str(Path.cwd()),
        own_test=any(word.startswith("--fps_test=") for word in words),
        **more,
    )


def _read(files: Sequence[Path], below_fps: float | None, as_json: bool) -> int:
    from ktrial.kit.files import read_file
    from ktrial.results.import_file import LIMIT_BYTES
    from ktrial.watch.frames import read_log

    _show([read_log(read_file(file, LIMIT_BYTES), str(file), below_fps) for file in files], as_json)
    return 0


def _show(reports: Sequence[FrameReport], as_json: bool) -> None:
    from ktrial.watch.frames_text import frames_document, frames_text

    write_answer(as_json, lambda: frames_document(reports), lambda width: frames_text(reports, width=width))


def _play(app: App, game: Game, folders: Sequence[Path], output: Path | None, as_json: bool) -> int:
    from ktrial.bench.run.foreground import AttachedLauncher, Captures, FreshLog
    from ktrial.watch.frames import Arena, how_it_ended, play, result_of

    app.lock_runs()
    arena = Arena(
        launcher=AttachedLauncher(),
        store=app.run_store,
        clock=app.clock,
        captures=app.close_at_end(Captures(app.measuring_place.work, folders)),
        facts=app.executor.facts(),
        agent_version=app.executor.agent_version,
        mangohud=shutil.which("mangohud"),
        log=FreshLog(Path(game.argv[0]).parent / "Log.txt") if game.own_test else None,
    )
    ended, played = play(game, arena, quiet=as_json)
    if isinstance(played, BadRun):
        raise BadRun(f"{played.message}; the game {how_it_ended(ended)}", hint=played.hint)
    _show([played.report], as_json)
    app.say(f"saved as {played.name}")
    if output is not None:
        write_result(output, result_of(played), [played.record])
    return ended.status if ended.status is not None else EXIT_BY_SIGNAL + (ended.signal or 0)

# SPDX-License-Identifier: Apache-2.0
"""Runs games under MangoHud, here or on another machine, and stores their frames as runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktrial.cli.options import write_answer
from ktrial.cli.shared.bench import program_of, write_result
from ktrial.cli.shared.command_environment import named_variables, started_environment
from ktrial.kit.errors import BadInput, BadRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrial.bench.run.ports import CaptureFolder, Launcher, WrittenLog
    from ktrial.cli.app import App
    from ktrial.cli.hosts import Host
    from ktrial.recordings.frames.statistics import FrameReport
    from ktrial.watch.frames import Game

EXIT_BY_SIGNAL = 128


def game_here(words: Sequence[str], variables: Sequence[str], *, clean: bool, **more: Any) -> Game:
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


def game_there(
    host: Host, words: Sequence[str], variables: Sequence[str], captures: Sequence[Path], **more: Any
) -> Game:
    from ktrial.watch.frames import Game

    if not words:
        raise BadInput("no command after --", hint="ktrial --host ssh:NAME frames --env DISPLAY=:0 -- glxgears")
    if captures or any(word.startswith("--fps_test=") for word in words):
        what = "--captures" if captures else "--fps_test (X-Plane's own test)"
        raise BadInput(f"{what} works on this machine only", hint="run ktrial on the other machine itself")
    named = named_variables(variables)
    return Game(
        argv=(str(host.program_of(words[0])), *words[1:]),
        environment={**host.environment, **named},
        named=frozenset(named),
        directory=host.home,
        **more,
    )


def show_frames(reports: Sequence[FrameReport], as_json: bool) -> None:
    from ktrial.watch.frames_text import frames_document, frames_text

    write_answer(as_json, lambda: frames_document(reports), lambda width: frames_text(reports, width=width))


def play_there(app: App, host: Host, game: Game, output: Path | None, as_json: bool) -> int:
    from ktrial.bench.run.game_there import GameThere

    app.lock_runs()
    there = app.close_at_end(GameThere(app.user_session, host.home, app.interrupts))
    mangohud = app.executor.programs(["mangohud"])["mangohud"]
    return _play_in(app, game, there, there, mangohud, None, output, as_json)


def play_here(app: App, game: Game, folders: Sequence[Path], output: Path | None, as_json: bool) -> int:
    from ktrial.bench.run.foreground import AttachedLauncher, Captures, FreshLog

    app.lock_runs()
    folder = app.close_at_end(Captures(app.measuring_place.work, folders))
    log = FreshLog(Path(game.argv[0]).parent / "Log.txt") if game.own_test else None
    return _play_in(app, game, AttachedLauncher(), folder, shutil.which("mangohud"), log, output, as_json)


def _play_in(
    app: App,
    game: Game,
    launcher: Launcher,
    captures: CaptureFolder,
    mangohud: str | None,
    log: WrittenLog | None,
    output: Path | None,
    as_json: bool,
) -> int:
    """Play the game, show its frames and store the run; return the game's exit status."""
    from ktrial.watch.frames import Arena, how_it_ended, play, result_of

    _wait_for_start(app)
    app.say(_length_of(app, game))
    arena = Arena(
        launcher=launcher,
        store=app.run_store,
        clock=app.clock,
        captures=captures,
        facts=app.executor.facts(),
        agent_version=app.executor.agent_version,
        mangohud=mangohud,
        log=log,
    )
    ended, played = play(game, arena, quiet=as_json)
    if isinstance(played, BadRun):
        raise BadRun(f"{played.message}; the game {how_it_ended(ended)}", hint=played.hint)
    show_frames([played.report], as_json)
    app.say(f"saved as {played.name}")
    if output is not None:
        write_result(output, result_of(played), [played.record])
    return ended.status if ended.status is not None else EXIT_BY_SIGNAL + (ended.signal or 0)


def _wait_for_start(app: App) -> None:
    """Report what disturbs the machine; with --when-idle, wait until nothing does."""
    from ktrial.bench.around.idle import IdleWatch
    from ktrial.cli.app_here import say_load
    from ktrial.tuning.doctor.confounders import load_now

    machine = app.user_session
    say_load(machine, app.say, when_idle=app.when_idle)
    if app.when_idle:
        watch = IdleWatch(app.executor, app.clock, lambda: next((one.found for one in load_now(machine)), None))
        watch.wait(lambda used: app.say(f"waiting for an idle machine; in use: {used}"))


def _length_of(app: App, game: Game) -> str:
    """Return a phrase that says how long ktrial logs frames; the newest run of the command shows what to expect."""
    from ktrial.bench.text import duration

    if game.duration_s is not None:
        return f"logs frames for {duration(game.duration_s)}"
    for session in app.store.sessions():
        for run in app.store.runs(session.session) if session.suite == "frames" else ():
            record = run.document
            if record is not None and tuple(record["argv"])[-len(game.argv) :] == game.argv:
                took_s = record["resources"]["wall_ns"] / 1e9
                return f"logs frames until the game ends, which took {duration(took_s)} the last time"
    return "logs frames until the game ends"

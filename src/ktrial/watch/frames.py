# SPDX-License-Identifier: Apache-2.0
"""Frame statistics of logs, and games that run under MangoHud and are stored as runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from ktrial.bench.adapters.xplane.output import NO_FRAMES, STAGES, XPlaneLog, is_xplane, read_xplane, stage_outcome
from ktrial.bench.benchmark import ParsedRun, check_measurements
from ktrial.bench.events import Result
from ktrial.bench.measure import session_of
from ktrial.bench.record import Artefact, Exit, KeptMeasurement, Resources, RunRecord, Session, summarise
from ktrial.bench.run.ports import CaptureFolder, Launcher, RunStore, WrittenLog
from ktrial.bench.schedule import Order
from ktrial.kit.errors import BadInput, BadRun, KtrialError
from ktrial.kit.outcome import Measurement
from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Clock
from ktrial.recordings.frames.mangohud import SampledLog, is_mangohud, read_mangohud
from ktrial.recordings.frames.samples import is_afterburner, is_telemetry, read_afterburner, read_telemetry
from ktrial.recordings.frames.statistics import (
    BELOW_FPS,
    CAPTURE_OPTIONS,
    FRAME_OUTCOMES,
    ONLY_SAMPLES,
    SAMPLED_FPS,
    SLOW_SAMPLES,
    Capture,
    FrameOutcome,
    FrameReport,
    FrameSamples,
    frame_statistics,
    sampled_statistics,
)

#: Environment variables that may affect frames and are recorded with a run; others may hold secrets.
KEPT_VARIABLES = re.compile(
    r"(?:MANGOHUD|MESA|RADV|ANV|NVK|LIBGL|GALLIUM|__GL|__GLX|__NV|__VK|VK|DXVK|VKD3D|PROTON|WINE|SDL|STEAM_COMPAT|ENABLE"
    r"|DISABLE|GAMEMODE|GAMESCOPE|LP|OBS_VKCAPTURE)_?[A-Z0-9_]*|LD_PRELOAD|vblank_mode|mesa_glthread|DISPLAY"
    r"|WAYLAND_DISPLAY|XDG_SESSION_TYPE|XDG_CURRENT_DESKTOP|DRI_PRIME|LANG|LC_[A-Z]+"
)
#: The suffix that MangoHud appends to the name of the process.
_STAMP = re.compile(r"_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d\.csv$")
NO_CAPTURE_HINT = (
    "set MANGOHUD_DLSYM=1 (OpenGL), add --duration 60s (MangoHud before 0.7), or name the log's folder with --captures"
)


class Game(msgspec.Struct, frozen=True, kw_only=True):
    """The game to run: path and arguments, and the whole environment except MangoHud's variables.

    `program` selects captures by the name of the process. `duration_s` ends the log before the game ends. With
    `own_test` the game tests its frame rate itself and writes the result to a log. ktrial records the values of the
    variables `named`. `below_fps` replaces the default rate below which frames are slow.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    named: frozenset[str] = frozenset()
    directory: str
    label: str | None = None
    program: str | None = None
    duration_s: int | None = None
    own_test: bool = False
    below_fps: float | None = None

    def __post_init__(self) -> None:
        if self.own_test and self.below_fps is not None:
            raise BadInput(
                "cannot use --below-fps: X-Plane's own test does not log single frames", hint="omit --below-fps"
            )


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """A finished game: its record, stored as `name` in `where`, and the report from which the record was made."""

    record: RunRecord
    name: str
    where: str
    report: FrameReport


def read_log(data: bytes, file: str, below_fps: float | None = None) -> FrameReport:
    """Return the statistics of a log of frames or samples in any format that ktrial knows."""
    if is_afterburner(data):
        return _sampled(read_afterburner(data, file), file, below_fps)
    if is_telemetry(data):
        return _sampled(read_telemetry(data, file), file, below_fps)
    try:
        return read_frames(data, file, below_fps)
    except SampledLog as sampled:
        return _sampled(sampled.samples, file, below_fps)


def _sampled(samples: FrameSamples, file: str, below_fps: float | None) -> FrameReport:
    measurements = sampled_statistics(samples, below_fps)
    return FrameReport(
        file=file,
        kind="samples",
        version=samples.version,
        frames=len(samples.fps),
        logged_s=sum(samples.stood_s),
        measurements=measurements,
        outcomes=(SAMPLED_FPS, SLOW_SAMPLES)[: len(measurements)],
        details={"made_by": samples.made_by, **samples.attributes},
        notes=(ONLY_SAMPLES, *samples.notes),
    )


def read_frames(data: bytes, file: str, below_fps: float | None = None) -> FrameReport:
    """Return the statistics of a log of frames in any known format. Raise BadRun for other files."""
    if is_mangohud(data):
        return _mangohud(data, file, BELOW_FPS if below_fps is None else below_fps)
    if is_xplane(data) and below_fps is not None:
        why = "cannot use --below-fps: X-Plane does not log single frames"
        raise BadInput(why, file=file, hint="omit --below-fps")
    if is_xplane(data):
        return _xplane(read_xplane(data, file), file)
    raise BadRun(
        f"{file}: expected a log of MangoHud or MSI Afterburner, or X-Plane's Log.txt or telemetry",
        hint="look for PROGRAM_DATE_TIME.csv in MangoHud's output_folder, or for Log.txt in the folder of X-Plane",
    )


def _mangohud(data: bytes, file: str, below_fps: float) -> FrameReport:
    log = read_mangohud(data, file)
    statistics = frame_statistics(log.frame_times_s, below_fps)
    notes = ("the last line was cut off and is left out",) if log.cut_off else ()
    details = {
        "system": dict(log.system) if log.system else {"row": log.system_row},
        "frame_time_unit": log.frame_time_unit,
        "frames": statistics.frames,
        "logged_s": statistics.logged_s,
    }
    return FrameReport(
        file=file,
        kind="mangohud",
        version=log.version,
        frames=statistics.frames,
        logged_s=statistics.logged_s,
        measurements=statistics.measurements,
        outcomes=FRAME_OUTCOMES,
        left_out=statistics.left_out,
        details=details,
        notes=notes,
    )


def _xplane(log: XPlaneLog, file: str) -> FrameReport:
    stages = STAGES.get(len(log.stages))
    if stages is None:
        raise BadRun(
            f"{file}: expected three stages of the frame rate test, or one stage of a .fdr replay,"
            f" got {len(log.stages)}",
            hint="run the test again until X-Plane exits",
        )
    return FrameReport(
        file=file,
        kind="xplane",
        version=log.version,
        frames=sum(stage.frames for stage in log.stages),
        logged_s=sum(stage.time.value for stage in log.stages),
        measurements=tuple(
            Measurement(outcome=name, value=stage.frames / stage.time.value, original=stage.fps.original)
            for (name, _), stage in zip(stages, log.stages, strict=True)
        ),
        outcomes=tuple(
            FrameOutcome(
                outcome=stage_outcome(name), definition=f"X-Plane's own: frames over time, in {what}.", needs_frames=1
            )
            for name, what in stages
        ),
        details={"stages": msgspec.to_builtins(log.stages)},
        notes=(NO_FRAMES,),
    )


def capture_environment(environment: Mapping[str, str], folder: str, duration_s: int | None) -> dict[str, str]:
    """Return the environment in which MangoHud captures every frame into `folder`.

    Raise KtrialError if the path of the folder contains a comma.
    """
    if "," in folder:
        raise KtrialError(
            f"MangoHud cannot write to {folder}: the path contains a comma",
            hint="set XDG_STATE_HOME to a path without a comma",
        )
    own = environment.get("MANGOHUD_CONFIG", "")
    ends = f",log_duration={duration_s if duration_s is not None else 0}"
    options = f"{CAPTURE_OPTIONS}{ends},output_folder={folder}"
    return {**environment, "MANGOHUD": "1", "MANGOHUD_CONFIG": f"{own},{options}" if own else options}


def captured_argv(argv: Sequence[str], mangohud: str | None, folder: str, variables: Mapping[str, str]) -> list[str]:
    """Return the command with MangoHud in front. Raise KtrialError if MangoHud is not installed.

    A Flatpak, which has its own MangoHud, gets the variables and the folder.
    """
    program = argv[0].rpartition("/")[2]
    if program == "flatpak" and "run" in argv:
        at = argv.index("run") + 1
        given = [f"--env={name}={variables[name]}" for name in ("MANGOHUD", "MANGOHUD_CONFIG")]
        return [*argv[:at], f"--filesystem={folder}", *given, *argv[at:]]
    if program == "mangohud":
        return list(argv)
    if mangohud is None:
        raise KtrialError(
            "cannot log frames: mangohud is not installed",
            hint="install the package mangohud (Flatpak: org.freedesktop.Platform.VulkanLayer.MangoHud)",
        )
    return [mangohud, *argv]


class Arena(msgspec.Struct, frozen=True, kw_only=True):
    """What runs and records a game. MangoHud writes to `captures`; a game that tests itself writes to `log`."""

    launcher: Launcher
    store: RunStore
    clock: Clock
    captures: CaptureFolder
    facts: FactBook
    agent_version: str
    mangohud: str | None = None
    log: WrittenLog | None = None


def play(game: Game, arena: Arena, *, quiet: bool = False) -> tuple[Exit, Played | BadRun]:
    """Run the game to its end and store the run. Return how the game ended, and the run.

    If the log has no usable frames, return a BadRun instead of the run. With `quiet`, the game's standard output goes
    to standard error.
    """
    environment = dict(game.environment)
    argv = list(game.argv)
    if not game.own_test:
        folder = arena.captures.folder
        environment = capture_environment(environment, folder, game.duration_s)
        argv = captured_argv(argv, arena.mangohud, folder, environment)
    started = (arena.clock.monotonic_ns(), arena.clock.unix_ms())
    ended = arena.launcher.run(argv, environment, quiet=quiet)
    wall_ns = arena.clock.monotonic_ns() - started[0]
    captures = _captures(game, arena, started[1])
    failure, report = BadRun(""), None
    try:
        capture, report = _choose_capture(game, captures)
        captures = (capture,)
    except BadRun as error:
        failure = error
    order = Order(suite="frames", tasks=(), rounds=1, seed=0, label=game.label)
    record = _record(
        session_of(order, arena.facts, arena.agent_version, arena.store.new_name()),
        game,
        argv,
        {name: value for name, value in environment.items() if name in game.named or KEPT_VARIABLES.fullmatch(name)},
        started,
        wall_ns,
        ended,
        report,
        None if report is not None else failure.message,
        captures,
    )
    arena.store.begin(record.session, "")
    name = arena.store.save(record, {f"files/{one.name}": one.data for one in captures})
    if report is None:
        return ended, failure
    return ended, Played(record=record, name=name, where=arena.store.where(record.session.session), report=report)


def _captures(game: Game, arena: Arena, started_unix_ms: int) -> tuple[Capture, ...]:
    if not game.own_test:
        found = arena.captures.found(started_unix_ms)
        return tuple(one for one in found if game.program is None or one.name.startswith(f"{game.program}_"))
    data = arena.log.read(started_unix_ms) if arena.log is not None else None
    return () if data is None else (Capture("Log.txt", data),)


def _choose_capture(game: Game, captures: Sequence[Capture]) -> tuple[Capture, FrameReport]:
    if not captures:
        if game.own_test:
            raise BadRun(
                "X-Plane has not written Log.txt since it was started", hint="give the path of the installed X-Plane"
            )
        meant = f" of {game.program}" if game.program is not None else ""
        raise BadRun(f"MangoHud wrote no log{meant}", hint=NO_CAPTURE_HINT)
    reports: list[tuple[Capture, FrameReport]] = []
    errors: list[BadRun] = []
    for capture in captures:
        try:
            reports.append((capture, read_frames(capture.data, capture.name, game.below_fps)))
        except BadRun as error:
            errors.append(error)
    if not reports:
        raise errors[0]
    capture, report = max(reports, key=lambda one: one[1].frames)
    check_measurements(tuple(one.outcome for one in report.outcomes), ParsedRun(measurements=report.measurements))
    others = [one.name for one in captures if one is not capture]
    if others:
        text = f"ktrial used the capture with the most frames; others: {', '.join(others)} (select with --program NAME)"
        report = msgspec.structs.replace(report, notes=(*report.notes, text))
    return capture, report


def _record(  # noqa: PLR0913, PLR0917 (the parts of a record)
    session: Session,
    game: Game,
    argv: Sequence[str],
    environment: Mapping[str, str],
    started: tuple[int, int],
    wall_ns: int,
    ended: Exit,
    report: FrameReport | None,
    failure: str | None,
    captures: Sequence[Capture],
) -> RunRecord:
    outcomes = {one.outcome.name: one.outcome for one in report.outcomes} if report is not None else {}
    rate = {} if game.below_fps is None else {"below_fps": game.below_fps}
    notes = report.notes if report is not None else ()
    if report is not None and ended.status != 0:
        notes = (*notes, f"the game {how_it_ended(ended)}")
    program = _STAMP.sub("", captures[0].name) if report is not None and not game.own_test else game.argv[0]
    name = re.sub(r"[^a-z0-9]+", "-", program.rpartition("/")[2].lower()).strip("-") or "game"
    return RunRecord(
        session=session,
        run=1,
        benchmark=name,
        tool="frames" if report is None else f"frames-{report.kind}",
        tool_version=report.version if report is not None else None,
        argv=tuple(argv),
        steps=(),
        built=None,
        container=None,
        agent_load=None,
        environment=environment,
        directory=game.directory,
        parameters={"program": game.program, "duration_s": game.duration_s, **rate},
        cpus=None,
        round=1,
        position=1,
        started_monotonic_ns=started[0],
        started_unix_ms=started[1],
        measurements=tuple(
            KeptMeasurement.of(one, outcomes[one.outcome]) for one in (report.measurements if report else ())
        ),
        details=report.details if report is not None else {},
        notes=notes,
        exit=ended,
        resources=Resources(wall_ns=wall_ns, user_us=None, system_us=None, max_rss_bytes=None),
        failure=failure,
        background=None,
        raw={f"files/{one.name}": Artefact.of(one.data) for one in captures},
    )


def how_it_ended(ended: Exit) -> str:
    if ended.signal is not None:
        return f"was killed by signal {ended.signal}"
    return f"ended with status {ended.status}"


def result_of(played: Played) -> Result:
    """Convert the run to a result of `ktrial bench`."""
    record = played.record
    headlines = [one.outcome.name for one in played.report.outcomes if one.outcome.headline]
    return Result(
        session=record.session,
        where=played.where,
        wanted=1,
        complete=1,
        holes=(),
        interrupted=False,
        summaries=summarise([record], {record.benchmark: headlines}),
    )

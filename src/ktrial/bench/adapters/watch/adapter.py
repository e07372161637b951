# SPDX-License-Identifier: Apache-2.0
"""Sessions of a program, or of the machine for a given time, recorded like those of `ktrial watch`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from ktrial.bench.adapters._tool import Program, ToolBenchmark, command_line, everywhere, flag, whole
from ktrial.bench.benchmark import PHASES, RECORDING, RECORDING_FAILED, Invocation, Parameters, ParsedRun, RawOutput
from ktrial.kit.errors import BadInput, BadRun
from ktrial.recordings.figures import PHASES as PREFIXES
from ktrial.recordings.figures import WATCH_OUTCOMES, Span, WatchFigures, wanted_series, watch_figures
from ktrial.recordings.frame_loop import KINDS, LINES, LONGEST_S, loop_arguments
from ktrial.recordings.frames.lines import FrameLine, FramePattern, frames_of, with_frames
from ktrial.recordings.frames.statistics import BELOW_FPS, below_rate
from ktrial.recordings.ktrial import read_recording, started_ns
from ktrial.recordings.model import Frames, Recording

#: File with the process id of the program, which is also that of its first thread; the shell becomes the program by
#: exec.
_PID = "pid"
_START = f'echo $$ >{_PID}; exec "$0" "$@"'
#: File for the output of a program that reports frames, which may be longer than the usual capture.
_FRAMES = "frames"
_START_TOLD = f"{_START} >{_FRAMES}"
#: The frame loop is part of the agent, which is also the parent process of the run.
_START_LOOP = f'echo $$ >{_PID}; exec /proc/$PPID/exe "$0" "$@" >{_FRAMES}'
_LONGEST_S = 86_400.0
_PRINT_FRAMES = (
    "let the program print a line for each frame that the pattern matches, with seconds of CLOCK_MONOTONIC in `at`"
)


class _Phase(msgspec.Struct, array_like=True):
    name: str
    begin_s: float
    end_s: float


def _command(parameters: Parameters) -> Invocation:
    _limit_s(parameters)
    below_rate(parameters["below_fps"], "parameter below_fps")
    flag(parameters, "per_phase")
    skipped = whole(parameters, "skip_s", low=0, high=86_400)
    words, loop = command_line(parameters), parameters["frame_loop"]
    if loop and words:
        raise BadInput("cannot combine the parameters frame_loop and program", hint="leave out frame_loop or program")
    if _pattern(parameters) is not None and not (words or loop):
        raise BadInput("parameter pattern needs a program whose output it matches", hint="set the parameter program")
    if words:
        script, files = (_START_TOLD, (_PID, _FRAMES)) if parameters["pattern"] else (_START, (_PID,))
        return Invocation(argv=("sh", "-c", script, *words), limit_s=_LONGEST_S, files=files, records=True)
    seconds = whole(parameters, "duration_s", low=2, high=int(LONGEST_S) if loop else 86_000)
    if skipped >= seconds:
        raise BadInput(
            f"skip_s = {skipped} leaves nothing to measure in {seconds} seconds",
            hint="choose a smaller skip_s",
        )
    if loop:
        return Invocation(
            argv=("sh", "-c", _START_LOOP, *_loop_arguments(loop, seconds)),
            limit_s=seconds + 60.0,
            expected_s=float(seconds),
            files=(_PID, _FRAMES),
            # The program's output must not wait for a disk.
            in_memory=True,
            records=True,
        )
    return Invocation(argv=("sleep", str(seconds)), limit_s=seconds + 60.0, expected_s=float(seconds), records=True)


def _loop_arguments(loop: object, seconds: int) -> tuple[str, str]:
    try:
        return loop_arguments(str(loop), seconds)
    except ValueError:
        raise BadInput(
            f"parameter frame_loop: expected {' or '.join(KINDS)}, or parameters of the load pressure (except its "
            f'duration) as JSON, such as {{"file_bytes": 12884901888}}, got {loop!r}',
            hint="for example -p frame_loop=calm",
        ) from None


def _pattern(parameters: Parameters) -> FramePattern | None:
    """Return the pattern of printed frames, if any. Raise BadInput unless the pattern finds when frames ended."""
    text = LINES if parameters["frame_loop"] else parameters["pattern"]
    if not text:
        return None
    option = "the pattern of the frame loop" if parameters["frame_loop"] else "parameter pattern"
    pattern = FramePattern(text, option)
    if not pattern.tells_end:
        raise BadInput(
            f"parameter pattern {text!r} has no group `at`",
            hint=r"match the time of CLOCK_MONOTONIC in seconds: frame (?P<at>[\d.]+) (?P<ms>[\d.]+)",
        )
    return pattern


def _limit_s(parameters: Parameters) -> float | None:
    limit_ms = parameters["limit_ms"]
    if isinstance(limit_ms, bool) or not isinstance(limit_ms, int | float) or not 0 <= limit_ms <= 60_000:
        raise BadInput(
            f"parameter limit_ms: expected 0 (outliers only) to 60000 milliseconds, got {limit_ms!r}",
            hint="for example -p limit_ms=50",
        )
    return limit_ms / 1e3 if limit_ms else None


def _read(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    if RECORDING_FAILED in raw.files:
        why = raw.files[RECORDING_FAILED].decode("utf-8", "replace")
        raise BadRun(f"the recording failed: {why}", hint="run the benchmark again")
    if RECORDING not in raw.files:
        raise BadRun("ktrial recorded nothing during the run", hint="run the benchmark again")
    recording = read_recording(raw.files[RECORDING], RECORDING, wanted_series)
    if recording.ended != "whole":
        raise BadRun(
            f"the recording is incomplete: {'; '.join(recording.notes) or 'it was cut off'}",
            hint="run the benchmark again",
        )
    pattern = _pattern(parameters)
    if pattern is not None:
        recording = with_frames(recording, _frames_of_lines(raw, recording, pattern, parameters))
    skipped_s = float(parameters["skip_s"])
    if skipped_s >= recording.length_s:
        raise BadRun(
            f"skip_s = {skipped_s:g} leaves nothing to measure in a session of {recording.length_s:.1f} s",
            hint="choose a smaller skip_s",
        )
    thread = _frame_thread(raw)
    begin_s = recording.begin_s + skipped_s
    below_fps = below_rate(parameters["below_fps"], "parameter below_fps")
    figures_of = partial(
        watch_figures, recording, limit_s=_limit_s(parameters), below_fps=below_fps, frame_thread=thread
    )
    found = [figures_of([(begin_s, recording.end_s)])]
    if parameters["per_phase"]:
        found += _by_phase(figures_of, raw, begin_s)
    notes = [f"{one.outcome}: left out: {one.why}" for figures in found for one in figures.left_out]
    notes += recording.notes
    logged = recording.frames
    frames: dict[str, object] = {} if logged is None else {"kind": logged.kind, "count": len(logged.ends_s)}
    return ParsedRun(
        measurements=tuple(one for figures in found for one in figures.measurements),
        details={"length_s": recording.length_s, "frames": frames, "events": len(recording.events)},
        notes=tuple(notes),
    )


def _frames_of_lines(raw: RawOutput, recording: Recording, pattern: FramePattern, parameters: Parameters) -> Frames:
    zero_ns = started_ns(raw.files[RECORDING], RECORDING)
    # The program may end after the recording's last sample.
    end_ns = zero_ns + round((recording.end_s + 60) * 1e9)
    lines = [FrameLine(end_ns, line) for line in raw.files.get(_FRAMES, b"").decode("utf-8", "replace").splitlines()]
    try:
        return frames_of(lines, pattern, zero_ns, 0.0, "stdout", within_ns=end_ns - zero_ns + 60 * 10**9)
    except BadInput as error:
        hint = "run the benchmark again" if parameters["frame_loop"] else _PRINT_FRAMES
        raise BadRun(error.message, hint=hint) from None


def _by_phase(figures_of: Callable[..., WatchFigures], raw: RawOutput, begin_s: float) -> list[WatchFigures]:
    phases = msgspec.json.decode(raw.files.get(PHASES, b"[]"), type=list[_Phase])
    found = []
    for name, prefix in PREFIXES.items():
        spans: list[Span] = [
            (max(begin_s, one.begin_s), one.end_s) for one in phases if one.name == name and one.end_s > begin_s
        ]
        if spans:
            found.append(figures_of(spans, prefix=prefix))
    return found


def _frame_thread(raw: RawOutput) -> int | None:
    text = raw.files.get(_PID, b"").decode("ascii", "replace").strip()
    return int(text) if text.isdigit() and len(text) < 12 else None


BENCHMARK = ToolBenchmark(
    name="watch",
    what="A session of a program, or of the machine for a time, recorded as `ktrial watch` does: stutters, stalls, "
    "slow I/O.",
    program=Program(needs=("sh", "sleep"), packages=everywhere("coreutils")),
    outcomes=WATCH_OUTCOMES,
    parameters={
        "program": "",
        "pattern": "",
        "frame_loop": "",
        "duration_s": 600,
        "skip_s": 0,
        "limit_ms": 0.0,
        "below_fps": BELOW_FPS,
        "per_phase": False,
    },
    command=_command,
    reader=_read,
    root_reason="it traces the kernel",
)

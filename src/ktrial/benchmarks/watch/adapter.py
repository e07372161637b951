# SPDX-License-Identifier: Apache-2.0
"""A session that is recorded as `ktrial watch` does: of a program of the user's, or of the machine for a time."""

from __future__ import annotations

import shlex

import msgspec

from ktrial.benchmarks.tool import Program, ToolBenchmark, flag, whole
from ktrial.domain.benchmark import PHASES, RECORDING, RECORDING_FAILED, Invocation, Parameters, ParsedRun, RawOutput
from ktrial.domain.errors import BadInput, BadRun
from ktrial.domain.recording import Recording
from ktrial.domain.watch_figures import PHASES as PREFIXES
from ktrial.domain.watch_figures import WATCH_OUTCOMES, Span, WatchFigures, wanted_series, watch_figures
from ktrial.formats.ktrial_recording import read_recording

#: The program's number, which is that of its first thread; it stays when the shell becomes the program.
_PID = "pid"
_START = f'echo $$ >{_PID}; exec "$0" "$@"'
_LONGEST_S = 86_400.0


class _Phase(msgspec.Struct, array_like=True):
    name: str
    begin_s: float
    end_s: float


def _command(parameters: Parameters) -> Invocation:
    _limit_s(parameters)
    flag(parameters, "per_phase")
    skipped = whole(parameters, "skip_s", low=0, high=86_400)
    words = _words(parameters)
    if words:
        return Invocation(argv=("sh", "-c", _START, *words), limit_s=_LONGEST_S, files=(_PID,), records=True)
    seconds = whole(parameters, "duration_s", low=2, high=86_000)
    if skipped >= seconds:
        raise BadInput(f"skip_s is {skipped} of {seconds} seconds", hint="nothing would be left to measure")
    return Invocation(argv=("sleep", str(seconds)), limit_s=seconds + 60.0, expected_s=float(seconds), records=True)


def _words(parameters: Parameters) -> list[str]:
    program = parameters["program"]
    if not isinstance(program, str):
        raise BadInput(f"parameter program is {program!r}: it must be a command line")
    try:
        return shlex.split(program)
    except ValueError as error:
        raise BadInput(f"parameter program is {program!r}: {error}") from None


def _limit_s(parameters: Parameters) -> float | None:
    limit_ms = parameters["limit_ms"]
    if isinstance(limit_ms, bool) or not isinstance(limit_ms, int | float) or not 0 <= limit_ms <= 60_000:
        raise BadInput(f"parameter limit_ms is {limit_ms!r}: milliseconds from 0 (what stands out) to 60000")
    return limit_ms / 1e3 if limit_ms else None


def _read(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    if RECORDING_FAILED in raw.files:
        raise BadRun(f"the recording failed: {raw.files[RECORDING_FAILED].decode('utf-8', 'replace')}")
    if RECORDING not in raw.files:
        raise BadRun("nothing was recorded beside the run")
    recording = read_recording(raw.files[RECORDING], RECORDING, wanted_series)
    if recording.ended != "whole":
        raise BadRun(f"the recording is not whole: {'; '.join(recording.notes) or 'it was cut off'}")
    skipped_s = float(parameters["skip_s"])
    if skipped_s >= recording.length_s:
        raise BadRun(f"skip_s is {skipped_s:g}, and the session took {recording.length_s:.1f} s")
    thread = _frame_thread(raw)
    limit_s = _limit_s(parameters)
    begin_s = recording.begin_s + skipped_s
    found = [watch_figures(recording, [(begin_s, recording.end_s)], limit_s=limit_s, frame_thread=thread)]
    if parameters["per_phase"]:
        found += _by_phase(recording, raw, begin_s, limit_s, thread)
    notes = [f"{one.outcome}: left out: {one.why}" for figures in found for one in figures.left_out]
    notes += recording.notes
    return ParsedRun(
        measurements=tuple(one for figures in found for one in figures.measurements),
        details={"length_s": recording.length_s, "frames": _frames(recording), "events": len(recording.events)},
        notes=tuple(notes),
    )


def _by_phase(
    recording: Recording, raw: RawOutput, begin_s: float, limit_s: float | None, thread: int | None
) -> list[WatchFigures]:
    phases = msgspec.json.decode(raw.files.get(PHASES, b"[]"), type=list[_Phase])
    found = []
    for name, prefix in PREFIXES.items():
        spans: list[Span] = [
            (max(begin_s, one.begin_s), one.end_s) for one in phases if one.name == name and one.end_s > begin_s
        ]
        if spans:
            found.append(watch_figures(recording, spans, limit_s=limit_s, frame_thread=thread, prefix=prefix))
    return found


def _frame_thread(raw: RawOutput) -> int | None:
    text = raw.files.get(_PID, b"").decode("ascii", "replace").strip()
    return int(text) if text.isdigit() and len(text) < 12 else None


def _frames(recording: Recording) -> dict[str, object]:
    frames = recording.frames
    return {} if frames is None else {"kind": frames.kind, "count": len(frames.ends_s)}


BENCHMARK = ToolBenchmark(
    name="watch",
    what="A session of a program, or of the machine for a time, recorded as `ktrial watch` does: stutters, stalls, "
    "slow I/O.",
    program=Program(needs=("sh", "sleep"), packages=dict.fromkeys(("apt", "dnf", "pacman", "zypper"), "coreutils")),
    outcomes=WATCH_OUTCOMES,
    parameters={"program": "", "duration_s": 600, "skip_s": 0, "limit_ms": 0.0, "per_phase": False},
    command=_command,
    reader=_read,
    root_reason="tracing what the kernel does",
)

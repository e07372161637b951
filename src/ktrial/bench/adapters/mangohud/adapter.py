# SPDX-License-Identifier: Apache-2.0
"""Frames of a program that runs without a player, logged by MangoHud; suites and trials can repeat such a run."""

from __future__ import annotations

import re

from ktrial.bench.adapters._tool import Program, ToolBenchmark, command_line, everywhere, matching, whole
from ktrial.bench.benchmark import DIRECTORY, Invocation, Parameters, ParsedRun, RawOutput
from ktrial.kit.errors import BadInput, BadRun
from ktrial.recordings.frames.mangohud import MangoHudLog, read_mangohud
from ktrial.recordings.frames.statistics import BELOW_FPS, CAPTURE_OPTIONS, FRAME_OUTCOMES, below_rate, frame_statistics

#: Ends the program some time after its log if it does not end by itself, which is not a failure.
_SCRIPT = """\
[ "$1" != 0 ] || { shift; exec mangohud "$@"; }
ends=$1
shift
timeout --signal=INT --kill-after=10 "$ends" mangohud "$@"
status=$?
[ "$status" = 124 ] || exit "$status"
"""
_CAPTURES = "*.csv"
_SUMMARY = "_summary.csv"
_GRACE_S = 5
_LIMIT_S = 4 * 3600.0


def _command(parameters: Parameters) -> Invocation:
    words, seconds = command_line(parameters), whole(parameters, "seconds", 0, 3600)
    if not words:
        raise BadInput("parameter program is empty", hint="name a program, such as -p program='vkcube --c 3000'")
    below_rate(parameters["below_fps"], "parameter below_fps")
    ends = seconds + _GRACE_S if seconds else 0
    directory = matching(parameters, "directory", r"(?:/[^\x00-\x1f]*)?", "/games/one")
    return Invocation(
        argv=("sh", "-c", _SCRIPT, "frames", str(ends), *words),
        environment={
            **_environment(parameters),
            "MANGOHUD": "1",
            "MANGOHUD_CONFIG": f"{CAPTURE_OPTIONS},log_duration={seconds},output_folder={DIRECTORY}",
        },
        directory=directory or None,
        limit_s=ends + 60.0 if seconds else _LIMIT_S,
        expected_s=float(ends) or None,
        files=(_CAPTURES,),
    )


def _environment(parameters: Parameters) -> dict[str, str]:
    given = parameters["environment"]
    found: dict[str, str] = {}
    for word in given if isinstance(given, list | tuple) else (given,):
        if not isinstance(word, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=[^\x00]*", word):
            hint = "for example -p environment=DISPLAY=:0"
            raise BadInput(f"parameter environment: expected NAME=VALUE, got {word!r}", hint=hint)
        name, _, value = word.partition("=")
        found[name] = value
    return found


def _read(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    name, log, others = _choose_capture(raw)
    statistics = frame_statistics(log.frame_times_s, below_rate(parameters["below_fps"], "parameter below_fps"))
    notes = [f"{one.outcome}: left out: {one.why}" for one in statistics.left_out]
    if log.cut_off:
        notes.append("the last line is cut off, so it is left out")
    if others:
        notes.append(f"used the capture with the most frames; others: {', '.join(others)}")
    return ParsedRun(
        measurements=statistics.measurements,
        tool_version=log.version,
        details={
            "capture": name,
            "frames": statistics.frames,
            "logged_s": statistics.logged_s,
            "system": dict(log.system) if log.system else {"row": log.system_row},
        },
        notes=tuple(notes),
    )


def _choose_capture(raw: RawOutput) -> tuple[str, MangoHudLog, tuple[str, ...]]:
    """Return the capture with the most frames and the names of the others, such as a launcher's."""
    captures = {name: data for name, data in raw.files.items() if not name.endswith(_SUMMARY)}
    if not captures:
        raise BadRun(
            "MangoHud wrote no log",
            hint="try -p environment=MANGOHUD_DLSYM=1 (OpenGL) or -p seconds=60 (MangoHud before 0.7)",
        )
    found: dict[str, MangoHudLog] = {}
    errors: list[BadRun] = []
    for name, data in captures.items():
        try:
            found[name] = read_mangohud(data, name)
        except BadRun as error:
            errors.append(error)
    if not found:
        raise errors[0]
    chosen = max(found, key=lambda name: len(found[name].frame_times_s))
    return chosen, found[chosen], tuple(name for name in captures if name != chosen)


BENCHMARK = ToolBenchmark(
    name="mangohud",
    what="Frame times of a program that runs unattended, logged by MangoHud frame by frame.",
    program=Program(needs=("mangohud", "sh", "timeout"), packages=everywhere("mangohud")),
    outcomes=tuple(one.outcome for one in FRAME_OUTCOMES),
    parameters={"program": "", "seconds": 0, "environment": (), "directory": "", "below_fps": BELOW_FPS},
    command=_command,
    reader=_read,
)

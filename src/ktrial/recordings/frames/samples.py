# SPDX-License-Identifier: Apache-2.0
"""Read logs with samples of the frame rate: MSI Afterburner (.hml), and telemetry of X-Plane as a table.

Afterburner writes records of comma-separated cells. A record begins with its kind and a time in whole seconds. Kind
`00` names the log, `01` the graphics card, `02` the columns. `80` holds the values, `N/A` if nothing is drawn.

The telemetry recorder polls X-Plane over UDP and writes the time of the current frame. Frames of a paused simulator are
meaningless.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tidy_csv import TidyTable, read_tidy_csv
from ktrial.kit.formats.tool_output import number, unreadable
from ktrial.recordings.frames.statistics import FrameSamples

_AFTERBURNER = re.compile(rb"(?:\xef\xbb\xbf)?00\s*,[^,\n]{0,40},\s*Hardware monitoring log")
_VERSION = re.compile(r"Hardware monitoring log (v[\d.]+)")
_NAMES = "02"
_CLOCK = re.compile(r"(\d\d?):(\d\d):(\d\d)\s*$", re.ASCII)
_DAY_S = 86_400
_RATE = "Framerate"
_NOT_THERE = "N/A"
_TELEMETRY = (b"timestamp", b"rel_s", b"fps", b"frame_time_ms", b"paused")
_MOMENT, _FRAME_MS, _PAUSED = "rel_s", "frame_time_ms", "paused"


def is_afterburner(head: bytes) -> bool:
    return _AFTERBURNER.match(head) is not None


def is_telemetry(head: bytes) -> bool:
    columns = head.partition(b"\n")[0].strip().split(b",")
    return all(name in columns for name in _TELEMETRY)


def read_afterburner(data: bytes, source: str = "HardwareMonitoring.hml") -> FrameSamples:
    """Return the rates of one log. Raise BadRun with instructions if it has no frame rate."""
    # Units are in the machine's code page; this reads only ASCII.
    lines = data.decode("latin-1").split("\n")
    names: list[str] | None = None
    card: str | None = None
    fps: list[float] = []
    moments: list[int] = []
    again: int | None = None
    for line, text in enumerate(lines, 1):
        kind, _, rest = text.partition(",")
        cells = [cell.strip() for cell in rest.split(",")[1:]]
        match kind.strip():
            case "00" if moments:
                again = again or line
            case "00":
                names = card = None  # Afterburner appends to the file; the previous log ended before its first sample.
            case "80" if again is not None:
                raise BadRun(f"{source}:{again}: a second log begins here", hint=f"split the file before line {again}")
            case _ if again is not None:
                pass
            case "01":
                card = card or ", ".join(cells).strip(", ")
            case "02":
                names = _with_rate(cells, source, line)
            case "80":
                rate = _sample(cells, names, source, line)
                moments.append(_moment(rest, source, line))
                fps += [] if rate is None else [rate]
    if names is None:
        raise unreadable(source, None, "", f"a log of Afterburner: no line {_NAMES} names its columns")
    idle = len(moments) - len(fps)
    notes = (f"{idle} of {len(moments)} samples without a frame rate are left out",) if idle else ()
    passed_s = sum((after - before) % _DAY_S for before, after in pairwise(moments))
    version = _VERSION.search(lines[0])
    return FrameSamples(
        made_by="MSI Afterburner",
        version=version[1] if version else None,
        fps=tuple(fps),
        stood_s=(passed_s / max(1, len(moments) - 1) or 1.0,) * len(fps),
        attributes={"gpu": card} if card else {},
        notes=notes,
    )


def _moment(rest: str, source: str, line: int) -> int:
    """Return the second of the day of a record. The date is ignored: its format depends on the machine's region."""
    found = _CLOCK.search(rest.partition(",")[0])
    if found is None:
        raise unreadable(source, line, rest, "a record with a time of day")
    return int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])


def _with_rate(cells: list[str], source: str, line: int) -> list[str]:
    if _RATE not in cells:
        raise BadRun(
            f"{source}:{line}: the log has no frame rates, because the column {_RATE} is missing",
            hint="log Framerate (Afterburner: Settings > Monitoring) while RivaTuner Statistics Server runs",
        )
    return cells


def _sample(cells: Sequence[str], names: Sequence[str] | None, source: str, line: int) -> float | None:
    if names is None or len(cells) < len(names):
        wanted = "a record of values: its columns are not named yet" if names is None else f"{len(names)} values"
        raise unreadable(source, line, ",".join(cells), wanted)
    text = cells[names.index(_RATE)]
    if text == _NOT_THERE or not text:
        return None
    return number(text, source, line, "frames per second") or None


def read_telemetry(data: bytes, source: str = "xplane_telemetry.csv") -> FrameSamples:
    """Return the sampled frames; skip samples of a paused simulator, and samples without a frame."""
    table = read_tidy_csv(data, source)
    moments = _column(table, _MOMENT, source)
    if any(after < before for before, after in pairwise(moments)):
        raise BadRun(
            f"{source}: {_MOMENT} goes backwards, because the file contains two logs",
            hint=f"split the file where {_MOMENT} goes backwards",
        )
    frames_s = [one / 1e3 for one in _column(table, _FRAME_MS, source)]
    paused = _column(table, _PAUSED, source)
    stood_s = [after - before for before, after in pairwise(moments)]
    stood_s.append(sorted(stood_s)[len(stood_s) // 2] if stood_s else 1.0)
    kept = [
        (1 / frame_s, stood)
        for frame_s, is_paused, stood in zip(frames_s, paused, stood_s, strict=True)
        if not is_paused and frame_s and stood
    ]
    left_out = len(frames_s) - len(kept)
    return FrameSamples(
        made_by="telemetry of X-Plane",
        fps=tuple(fps for fps, _ in kept),
        stood_s=tuple(stood for _, stood in kept),
        of_frames=True,
        notes=(f"{left_out} of {len(frames_s)} samples left out: paused, or no frame",) if left_out else (),
    )


def _column(table: TidyTable, name: str, source: str) -> list[float]:
    if name not in table.columns:
        raise unreadable(source, 1, ",".join(table.columns), f"telemetry of X-Plane: it lacks the column {name!r}")
    place = table.columns.index(name)
    return [number(row.cells[place], source, row.line, name) for row in table.rows]

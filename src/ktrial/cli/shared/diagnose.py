# SPDX-License-Identifier: Apache-2.0
"""What `ktrial diagnose` reads and writes: recordings out of files and folders, reports by the ending of their name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ktrial.cli.shared.bench import check_output
from ktrial.kit.errors import BadInput, UnreadableOutput
from ktrial.kit.files import read_file
from ktrial.recordings.atop import is_atop_raw
from ktrial.recordings.atop_program import print_raw_log
from ktrial.recordings.formats import read_recording_file
from ktrial.recordings.merge import together, with_offset
from ktrial.reports.charts.drawing import Style
from ktrial.reports.charts.svg import png_bytes, svg_bytes
from ktrial.watch.diagnosis.page import diagnosis_page
from ktrial.watch.diagnosis.timeline_chart import timeline_chart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ktrial.recordings.model import Recording
    from ktrial.watch.diagnosis.model import Diagnosis

_LIMIT_BYTES = 2**30
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)", re.ASCII)


def check(output: Path | None, runs: Path | None, for_runs: Mapping[str, object], count: int, *, force: bool) -> None:
    """Refuse a name that no report of so many recordings can have, and files that are there."""
    if runs is None and (given := [name for name, value in for_runs.items() if value is not None]):
        raise BadInput(f"{', '.join(given)}: for what --runs writes", hint="add  --runs FILE.csv")
    check_output(runs, force=force)
    if output is None:
        return
    suffix = output.suffix.lower()
    if suffix not in {".html", ".svg", ".png"}:
        raise BadInput(f"-o {output}: no kind of report", hint="end its name in .html, .svg or .png")
    if count > 1 and suffix != ".html":
        raise BadInput(f"-o {output}: a picture shows one recording", hint="an .html shows several")
    check_output(output, force=force)


def report(found: Sequence[tuple[Diagnosis, Sequence[str]]], suffix: str) -> bytes:
    """Return a page, or the picture of the one recording."""
    if suffix == ".html":
        return diagnosis_page(found).encode()
    return (svg_bytes if suffix == ".svg" else png_bytes)(timeline_chart(found[0][0], Style(width=900)))


def recording(
    path: Path, as_format: str | None, interval_s: float | None, offset_s: float | None, began_s: float | None
) -> Recording:
    """Return a file, or all files of a folder, on one clock."""
    if path.is_dir():
        parts, left_out = _parts_of(path, as_format, interval_s)
    else:
        parts, left_out = [_part(path, as_format, interval_s)], []
    if began_s is not None:
        parts = [
            part if part.frames is None else msgspec.structs.replace(part, unix_at_zero_s=began_s) for part in parts
        ]
    if offset_s is not None:
        parts = [part if part.unix_at_zero_s is not None else with_offset(part, parts, offset_s) for part in parts]
    whole, misplaced = _together(str(path), parts, may_leave_out=path.is_dir())
    return msgspec.structs.replace(whole, notes=(*whole.notes, *left_out, *misplaced))


def _part(file: Path, as_format: str | None, interval_s: float | None) -> Recording:
    try:
        return read_recording_file(_content(file), str(file), as_format=as_format, interval_s=interval_s)
    except UnreadableOutput as error:
        # What a person names is input: no run has failed.
        raise BadInput(error.message, hint="--format says what it is, where that was guessed wrongly") from None


def _parts_of(folder: Path, as_format: str | None, interval_s: float | None) -> tuple[list[Recording], list[str]]:
    """Return what can be read of a folder, and a sentence on each file that cannot."""
    parts: list[Recording] = []
    left_out: list[str] = []
    for file in sorted(folder.iterdir()):
        if file.is_dir():
            left_out.append(f"skipped: {file.name}: a folder: name it too, for a recording of its own")
            continue
        try:
            parts.append(_part(file, as_format, interval_s))
        except BadInput as error:
            left_out.append(_left_out(file.name, error, str(file)))
    if not parts:
        told = "no file in it" if not left_out else f"none of the {len(left_out)} in it can be read: {left_out[0]}"
        raise BadInput(told, file=str(folder), hint="name a recording; ktrial diagnose --help lists what it reads")
    return parts, left_out


def _together(name: str, parts: Sequence[Recording], *, may_leave_out: bool) -> tuple[Recording, list[str]]:
    """Return the parts on one clock; of a folder without those that cannot be placed on it, and a sentence on each.

    Frames are what it is all about: they are never left out.
    """
    left = list(parts)
    left_out: list[str] = []
    while True:
        try:
            return together(name, left), left_out
        except BadInput as error:
            wrong = next((part for part in left if part.name == error.file), None)
            if not may_leave_out or wrong is None or wrong.frames is not None or len(left) == 1:
                raise
            left.remove(wrong)
            left_out.append(_left_out(Path(wrong.name).name, error, wrong.name))


def _left_out(name: str, error: BadInput, file: str) -> str:
    why = error.message.removeprefix(file).lstrip(": ")
    return f"skipped: {name}: {why}"


def _content(file: Path) -> bytes:
    """Return what is in it; of a raw log of atop what atop prints of it."""
    data = read_file(file, _LIMIT_BYTES)
    return print_raw_log(file) if is_atop_raw(data) else data


def offset(text: str) -> float:
    """Return seconds east of UTC."""
    match = _OFFSET.fullmatch(text.strip())
    if match is None or int(match[2]) > 14 or int(match[3]) > 59:
        raise BadInput(f"--utc-offset {text}: no offset", hint="write for example +02:00")
    return (int(match[2]) * 3600.0 + int(match[3]) * 60) * (1 if match[1] == "+" else -1)

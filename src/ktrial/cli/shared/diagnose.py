# SPDX-License-Identifier: Apache-2.0
"""Reads the recordings of `ktrial diagnose` from files and folders, and makes its reports."""

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
from ktrial.recordings.formats import detect_format, read_recording_file
from ktrial.recordings.merge import together, with_offset, with_start
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
    """Raise BadInput for a file name that does not fit the report, or without `force` for an existing file.

    Also raise BadInput if an option in `for_runs` is set without `runs`: these options require --runs.
    """
    if runs is None and (given := [name for name, value in for_runs.items() if value is not None]):
        raise BadInput(f"{' and '.join(given)} require{'s'[: len(given) == 1]} --runs", hint="add --runs FILE.csv")
    check_output(runs, force=force)
    if output is None:
        return
    suffix = output.suffix.lower()
    if suffix not in {".html", ".svg", ".png"}:
        raise BadInput(f"-o {output}: unknown report format", hint="name a file that ends in .html, .svg or .png")
    if count > 1 and suffix != ".html":
        raise BadInput(
            f"-o {output}: cannot draw several recordings in one picture", hint="name a file that ends in .html"
        )
    check_output(output, force=force)


def report(found: Sequence[tuple[Diagnosis, Sequence[str]]], suffix: str) -> bytes:
    if suffix == ".html":
        return diagnosis_page(found).encode()
    return (svg_bytes if suffix == ".svg" else png_bytes)(timeline_chart(found[0][0], Style(width=900)))


def recording(
    path: Path, as_format: str | None, interval_s: float | None, offset_s: float | None, began_s: float | None
) -> Recording:
    """Read a file, or all files of a folder, as one recording with one clock."""
    if path.is_dir():
        parts, left_out = _parts_of(path, as_format, interval_s)
    else:
        parts, left_out = [_part(path, as_format, interval_s)], []
    if began_s is not None:
        parts = [with_start(part, began_s) for part in parts]
    if offset_s is not None:
        parts = [part if part.unix_at_zero_s is not None else with_offset(part, parts, offset_s) for part in parts]
    whole, misplaced = _together(str(path), parts, may_leave_out=path.is_dir())
    return msgspec.structs.replace(whole, notes=(*whole.notes, *left_out, *misplaced))


def check_began(unix_s: float | None) -> None:
    """Raise BadInput unless frames may have begun at this time, in seconds since 1970."""
    if unix_s is not None and not 1e9 <= unix_s <= 4.1e9:
        raise BadInput(
            f"--frames-began: expected seconds since 1970 in the years 2001 to 2099, got {unix_s:.15g}",
            hint="give the seconds as `date +%s` prints them",
        )


def _part(file: Path, as_format: str | None, interval_s: float | None) -> Recording:
    data = _content(file)
    try:
        return read_recording_file(data, str(file), as_format=as_format, interval_s=interval_s)
    except UnreadableOutput as error:
        # The user named this file, so this is bad input and not a failed run.
        raise BadInput(error.message, hint=error.hint or _next_step(data, file, as_format)) from None


def _next_step(data: bytes, file: Path, as_format: str | None) -> str:
    """Return what to do about an unreadable file: another format can help only if the content shows another one."""
    detected = detect_format(data, str(file))
    if as_format is None or detected == as_format or not data.strip():
        return "record again, or correct the file"
    return "name the right format with --format" if detected is None else f"use --format {detected}"


def _parts_of(folder: Path, as_format: str | None, interval_s: float | None) -> tuple[list[Recording], list[str]]:
    """Return the recordings in a folder, and one sentence for each skipped file.

    Raise BadInput if ktrial can read no file.
    """
    parts: list[Recording] = []
    left_out: list[str] = []
    for file in sorted(folder.iterdir()):
        if file.is_dir():
            left_out.append(f"skipped: {file.name} is a folder; name that folder to read another recording")
            continue
        try:
            parts.append(_part(file, as_format, interval_s))
        except BadInput as error:
            left_out.append(_left_out(file.name, error, str(file)))
    if not parts:
        why = "the folder is empty"
        if left_out:
            first = left_out[0].removeprefix("skipped: ")
            why = f"cannot read any of the {len(left_out)} files in this folder, for example {first}"
        raise BadInput(why, file=str(folder), hint="name a recording in a format that `ktrial diagnose --help` lists")
    return parts, left_out


def _together(name: str, parts: Sequence[Recording], *, may_leave_out: bool) -> tuple[Recording, list[str]]:
    """Merge the parts on one clock; skip files of a folder that do not fit, with one sentence for each.

    Files with frames are never skipped, because a diagnosis is about frames.
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
    """Return the file's content; for a raw log of atop, what atop prints from it."""
    data = read_file(file, _LIMIT_BYTES)
    return print_raw_log(file) if is_atop_raw(data) else data


def offset(text: str) -> float:
    match = _OFFSET.fullmatch(text.strip())
    if match is None or int(match[2]) > 14 or int(match[3]) > 59:
        why = f"--utc-offset: expected ±HH:MM, at most 14:59, got {text}"
        raise BadInput(why, hint="for example  --utc-offset +02:00")
    return (int(match[2]) * 3600.0 + int(match[3]) * 60) * (1 if match[1] == "+" else -1)

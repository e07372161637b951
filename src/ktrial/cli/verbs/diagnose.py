# SPDX-License-Identifier: Apache-2.0
"""`ktrial diagnose`: what the kernel was doing when it stuttered."""

from __future__ import annotations

import re
import sys
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrial.cli.options import json_option, seconds, write_json
from ktrial.cli.wiring import App
from ktrial.domain.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrial.domain.diagnosis import Diagnosis
    from ktrial.domain.recording import Recording

_LIMIT_BYTES = 2**30
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)", re.ASCII)


@click.command(short_help="What the kernel was doing when it stuttered.")
@click.argument("recordings", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RECORDING…")
@click.option(
    "--limit", metavar="TIME", help="What takes longer is late: 50ms. Else what stands out among its neighbours."
)
@click.option("--format", "as_format", metavar="FORMAT", help="Read the files as this.")
@click.option("--interval", metavar="TIME", help="vmstat without -t: the time between two rows.")
@click.option("--utc-offset", metavar="±HH:MM", help="Zone of files that tell the time of day only.")
@click.option(
    "--frames-began",
    type=click.FloatRange(1e9, 4.1e9),
    metavar="SECONDS",
    help="When a log of frames began, since 1970.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="A report too: .html, .svg, .png."
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@json_option
@click.pass_obj
def command(
    app: App,
    recordings: tuple[Path, ...],
    limit: str | None,
    as_format: str | None,
    interval: str | None,
    utc_offset: str | None,
    frames_began: float | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Phases, stutters, and causes that fall together with them beyond chance; what could be tried. Or: none of these.

    \b
    ktrial diagnose flight/            # all files of a folder are one recording
    ktrial diagnose sar.json
    ktrial diagnose --interval 1s vmstat.log

    Reads vmstat, sadf -j, MangoHud logs, and the tables and reclaim lines of the micro-stutter suite.
    """
    from ktrial.catalog.symptoms import load_symptoms
    from ktrial.cli.comparison_file import write_file
    from ktrial.report.diagnose import diagnosis_text
    from ktrial.report.terminal import columns
    from ktrial.services.diagnose import diagnose
    from ktrial.services.diagnose_proposals import with_proposals

    if frames_began is not None and isnan(frames_began):
        raise BadInput("--frames-began nan: no moment", hint="seconds since 1970, for example 1760000000.5")
    if output is not None:
        _check(output, len(recordings), force=force)
    limit_s = None if limit is None else seconds(limit, "--limit")
    interval_s = None if interval is None else seconds(interval, "--interval")
    offset_s = None if utc_offset is None else _offset(utc_offset)
    symptoms = load_symptoms(app.catalog)
    clocks = (interval_s, offset_s, frames_began)
    read = [_recording(path, as_format, *clocks) for path in recordings]
    found = []
    for recording in read:
        diagnosis = diagnose(recording, symptoms, limit_s)
        found.append(with_proposals(diagnosis, symptoms, recording, app.user_session, app.catalog))
    if output is not None:
        write_file(output, _report(found, output.suffix.lower()))
        app.say(f"written: {output}")
    if as_json:
        told = [{"diagnosis": one, "not_proposed": left_out} for one, left_out in found]
        write_json({"schema": "ktrial.diagnosis/1", "recordings": told})
        return
    sys.stdout.write("\n".join(diagnosis_text(one, left_out, width=columns()) for one, left_out in found))


def _check(output: Path, count: int, *, force: bool) -> None:
    from ktrial.cli.measuring import check_output

    suffix = output.suffix.lower()
    if suffix not in {".html", ".svg", ".png"}:
        raise BadInput(f"-o {output}: no kind of report", hint="end its name in .html, .svg or .png")
    if count > 1 and suffix != ".html":
        raise BadInput(f"-o {output}: a picture shows one recording", hint="an .html shows several")
    check_output(output, force=force)


def _report(found: Sequence[tuple[Diagnosis, Sequence[str]]], suffix: str) -> bytes:
    from ktrial.report.charts.drawing import Style
    from ktrial.report.charts.svg import png_bytes, svg_bytes
    from ktrial.report.charts.timeline import timeline_chart
    from ktrial.report.diagnose_page import diagnosis_page

    if suffix == ".html":
        return diagnosis_page(found).encode()
    return (svg_bytes if suffix == ".svg" else png_bytes)(timeline_chart(found[0][0], Style(width=900)))


def _recording(
    path: Path, as_format: str | None, interval_s: float | None, offset_s: float | None, began_s: float | None
) -> Recording:
    import msgspec

    from ktrial.cli.input_file import read_file
    from ktrial.domain.recording_parts import together, with_offset
    from ktrial.formats.recordings import read_recording_file

    files = sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]
    if not files:
        raise BadInput("no file in it", file=str(path), hint="name a recording")
    parts = [
        read_recording_file(read_file(file, _LIMIT_BYTES), str(file), as_format=as_format, interval_s=interval_s)
        for file in files
    ]
    if began_s is not None:
        parts = [
            part if part.frames is None else msgspec.structs.replace(part, unix_at_zero_s=began_s) for part in parts
        ]
    if offset_s is not None:
        parts = [part if part.unix_at_zero_s is not None else with_offset(part, parts, offset_s) for part in parts]
    return together(str(path), parts)


def _offset(text: str) -> float:
    match = _OFFSET.fullmatch(text.strip())
    if match is None or int(match[2]) > 14 or int(match[3]) > 59:
        raise BadInput(f"--utc-offset {text}: no offset", hint="write for example +02:00")
    return (int(match[2]) * 3600.0 + int(match[3]) * 60) * (1 if match[1] == "+" else -1)

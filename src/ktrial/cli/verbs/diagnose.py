# SPDX-License-Identifier: Apache-2.0
"""`ktrial diagnose`: find what the kernel was doing during stutters."""

from __future__ import annotations

from pathlib import Path

import click

from ktrial.cli.app import App
from ktrial.cli.options import below_fps_option, json_option, output_option, seconds, write_answer


@click.command(short_help="Find causes of stutters in a recording; propose settings.")
@click.argument("recordings", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RECORDING…")
@click.option(
    "--limit",
    metavar="TIME",
    help="Count every frame slower than TIME (such as 50ms) as a stutter.  [outliers only]",
)
@click.option("--format", "as_format", metavar="FORMAT", help="Input format, such as sadf or vmstat.  [detected]")
@click.option("--interval", metavar="TIME", help="Time between rows, for vmstat output without -t.")
@click.option("--utc-offset", metavar="±HH:MM", help="UTC offset of files that contain only the time of day.")
@click.option(
    "--frames-began",
    type=float,
    metavar="SECONDS",
    help="Start time of a frame log, in seconds since 1970 (see date +%s).",
)
@output_option("Also write a report to FILE: .html, .svg or .png.")
@click.option(
    "--runs",
    type=click.Path(path_type=Path),
    metavar="CSV",
    help="Also write the figures of each recording to CSV, for `ktrial compare`.",
)
@below_fps_option("With --runs: count the frames below N fps.  [25]")
@click.option("--all", "everything", is_flag=True, help="Show everything, not only one screen.")
@click.option("--label", metavar="NAME", help="Name of the configuration, for --runs.  [name of CSV]")
@click.option("--force", is_flag=True, help="Overwrite FILE and CSV if they exist.")
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
    runs: Path | None,
    below_fps: float | None,
    everything: bool,
    label: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Find what the kernel did more often during stutters than by chance, and propose settings to try.

    One screen shows the causes, how certain each is, the worst example and what to try; --all shows the rest.

    \b
    ktrial diagnose flight/            # all files of a folder are one recording
    ktrial diagnose sar.json
    ktrial diagnose vmstat.log         # output of `vmstat -t 1`; without -t, add --interval 1s
    ktrial diagnose --runs stock.csv monday/ tuesday/      # a file for `ktrial compare`

    Make a recording with `ktrial watch -o FOLDER`. ktrial also reads logs of vmstat -t, sadf -j, atop and MangoHud, and
    the tables and reclaim traces of the micro-stutter scripts.
    """
    from ktrial.cli.shared.diagnose import check, check_began, offset, recording, report
    from ktrial.compare.files import write_file
    from ktrial.watch.diagnosis.diagnose import diagnose
    from ktrial.watch.diagnosis.proposals import with_proposals
    from ktrial.watch.diagnosis.symptoms import load_symptoms
    from ktrial.watch.diagnosis.text import diagnoses_text

    check_began(frames_began)
    check(output, runs, {"--label": label, "--below-fps": below_fps}, len(recordings), force=force)
    limit_s = None if limit is None else seconds(limit, "--limit")
    interval_s = None if interval is None else seconds(interval, "--interval")
    offset_s = None if utc_offset is None else offset(utc_offset)
    symptoms = load_symptoms(app.catalog)
    clocks = (interval_s, offset_s, frames_began)
    read = [recording(path, as_format, *clocks) for path in recordings]
    if runs is not None:
        from ktrial.watch.diagnosis.diagnose_runs import RunLimits, write_runs

        write_runs(runs, read, label or runs.stem, RunLimits(limit_s, below_fps), app.say)
    pairs = [(one, diagnose(one, symptoms, limit_s)) for one in read]
    found = [with_proposals(diagnosis, symptoms, one, app.user_session, app.catalog) for one, diagnosis in pairs]
    if output is not None:
        write_file(output, report(found, output.suffix.lower()))
        app.say(f"wrote {output}")
    documents = [{"diagnosis": one, "not_proposed": left_out} for one, left_out in found]
    write_answer(
        as_json,
        lambda: {"schema": "ktrial.diagnosis/1", "recordings": documents},
        lambda width: diagnoses_text(found, width=width, everything=everything),
    )

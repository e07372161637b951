# SPDX-License-Identifier: Apache-2.0
"""`ktrial import`: import results of other tools into the store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json
from ktrial.cli.shared.compare import table_options


@click.command(short_help="Import results of other tools.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option("--label", metavar="NAME", help="Name of the configuration that was measured.")
@table_options
@click.option("--again", is_flag=True, help="Import a file even if it was imported before.")
@click.option("--dry-run", is_flag=True, help="Show what ktrial would import; store nothing.")
@json_option
@click.pass_obj
def command(
    app: App,
    /,
    files: tuple[Path, ...],
    as_format: str | None,
    label: str | None,
    again: bool,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Store result files of other tools as sessions, one for each group of runs in a file.

    \b
    ktrial import --label stock before.json
    ktrial import results.csv --value 'time(sec)' --by march --block hostname --direction lower

    ktrial reads hyperfine, Go benchmarks, Google Benchmark, pyperf, fio, pgbench, schbench, Phoronix, mmtests, lkp and
    margine. Other inputs are logs of MangoHud and MSI Afterburner, telemetry of X-Plane, CSV, and ktrial's own results
    and bundles. ktrial detects the format from the content. Files may be compressed with gzip.
    """
    from ktrial.cli.shared.evidence import import_bundle, is_bundle
    from ktrial.judge.model.query import ImportOptions
    from ktrial.kit.files import read_file
    from ktrial.kit.tables import columns
    from ktrial.results.import_file import LIMIT_BYTES, ForeignFile, ImportRequest, bring_in
    from ktrial.results.text import imported_text

    importing = ImportOptions.given({"label": label, **options})
    request = ImportRequest(options=importing, as_format=as_format, again=again, dry_run=dry_run)
    imported = []
    bundles = {}
    try:
        for path in files:
            if is_bundle(path):
                bundles[str(path)] = import_bundle(app, path, dry_run=dry_run)
                continue
            file = ForeignFile(str(path), read_file(path, LIMIT_BYTES))
            imported.append(bring_in(file, request, app.importers, app.store, app.clock.unix_ms))
    finally:
        if as_json and (imported or bundles):
            write_json({"schema": "ktrial.imported/1", "dry_run": dry_run, "files": imported, "bundles": bundles})
        elif imported:
            sys.stdout.write(imported_text(imported, dry_run=dry_run, width=columns()))
        for name, back in bundles.items():
            trials = f", with {', '.join(back.trials)}" if back.trials else ""
            sessions = f"{len(back.imported)} session{'s'[: len(back.imported) != 1]}"
            app.say(f"{name}: imported {sessions}{trials}; {len(back.skipped)} already in the store")
    return 0

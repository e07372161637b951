# SPDX-License-Identifier: Apache-2.0
"""`ktrial import`: results of other tools into the store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json
from ktrial.cli.shared.compare import table_options


@click.command(short_help="Bring in results of other tools.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option("--label", metavar="NAME", help="Name of the configuration that was measured.")
@table_options
@click.option("--again", is_flag=True, help="Import a file again that is stored already.")
@click.option("--dry-run", is_flag=True, help="Show what would be imported; store nothing.")
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
    **told: Any,
) -> int:
    """Import result files of other tools, one session for each group in a file.

    \b
    ktrial import --label stock before.json
    ktrial import results.csv --value 'time(sec)' --by march --block hostname --direction lower

    Formats: hyperfine, Go benchmarks, Google Benchmark, pyperf, fio, pgbench, schbench, MangoHud, Phoronix,
    mmtests, lkp, margine, CSV, and bundles of ktrial. ktrial detects the format from the content; files may be
    packed with gzip.
    """
    from ktrial.cli.shared.evidence import import_bundle, is_bundle
    from ktrial.judge.model.query import ImportOptions
    from ktrial.kit.files import read_file
    from ktrial.kit.tables import columns
    from ktrial.results.import_file import LIMIT_BYTES, ForeignFile, ImportRequest, bring_in
    from ktrial.results.import_text import imported_text

    options = ImportOptions.given({"label": label, **told})
    wanted = ImportRequest(options=options, as_format=as_format, again=again, dry_run=dry_run)
    brought = []
    bundles = {}
    try:
        for path in files:
            if is_bundle(path):
                bundles[str(path)] = import_bundle(app, path, dry_run=dry_run)
                continue
            file = ForeignFile(str(path), read_file(path, LIMIT_BYTES))
            brought.append(bring_in(file, wanted, app.importers, app.store, app.clock.unix_ms))
    finally:
        if as_json and (brought or bundles):
            write_json({"schema": "ktrial.imported/1", "dry_run": dry_run, "files": brought, "bundles": bundles})
        elif brought:
            sys.stdout.write(imported_text(brought, dry_run=dry_run, width=columns()))
        for name, back in bundles.items():
            trials = f", with {', '.join(back.trials)}" if back.trials else ""
            app.say(
                f"{name}: {len(back.imported)} sessions brought back{trials}, {len(back.skipped)} were there already"
            )
    return 0

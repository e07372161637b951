# SPDX-License-Identifier: Apache-2.0
"""`ktrial recheck`: recompute every number of a report from its raw data."""

from __future__ import annotations

from pathlib import Path

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_answer

EXIT_DIFFERS = 1


@click.command(short_help="Check that a published result follows from its data.")
@click.argument("path", type=click.Path(path_type=Path), metavar="BUNDLE|FOLDER")
@json_option
@click.pass_obj
def command(app: App, path: Path, as_json: bool) -> int:
    """Parse the raw output in BUNDLE again, recompute its trials and its comparison, and show the differences.

    FOLDER is a folder that `ktrial publish --data` wrote. ktrial stores nothing and uses none of this machine's
    results. The exit status is 1 if anything differs.

    \b
    ktrial bundle found.tar.zst TRIAL
    ktrial recheck found.tar.zst
    """
    from ktrial.cli.shared.recheck import recheck_path
    from ktrial.evidence.differences import rechecked_text

    found = recheck_path(app, path)
    write_answer(as_json, lambda: found, lambda width: rechecked_text(found, width=width))
    return EXIT_DIFFERS if found.differences else 0

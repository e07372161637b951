# SPDX-License-Identifier: Apache-2.0
"""`ktrial recheck`: every number of a report computed again from its raw data."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json

EXIT_DIFFERS = 1


@click.command(short_help="Compute a report again from its raw data and compare.")
@click.argument("path", type=click.Path(path_type=Path), metavar="BUNDLE|FOLDER")
@json_option
@click.pass_obj
def command(app: App, path: Path, as_json: bool) -> int:
    """Read the raw output in BUNDLE again, compute its comparison again, and show every difference.

    FOLDER is one that `ktrial publish --data` wrote. ktrial stores nothing and uses none of this machine's results.
    It names each difference by run, or by outcome, arm and field, and ends with status 1 if there is one.

    \b
    ktrial bundle --comparison found.json found.tar.zst
    ktrial recheck found.tar.zst
    """
    from ktrial.cli.shared.recheck import recheck_path
    from ktrial.evidence.differences import rechecked_text
    from ktrial.kit.tables import columns

    found = recheck_path(app, path)
    if as_json:
        write_json(found)
    else:
        sys.stdout.write(rechecked_text(found, width=columns()))
    return EXIT_DIFFERS if found.differences else 0

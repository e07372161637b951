# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel fragments`: list groups of symbols that belong together."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json


@click.command(short_help="List configuration fragments, or print one.")
@click.argument("name", required=False)
@json_option
@click.pass_obj
def command(app: App, name: str | None, as_json: bool) -> None:
    """List the configuration fragments, or print fragment NAME as a file for merge_config.sh."""
    from ktrial.kernels.config.fragments import load_fragments
    from ktrial.kernels.config.text import fragment_text, fragments_json, fragments_text
    from ktrial.kernels.request import with_extended
    from ktrial.kit.tables import columns

    known = load_fragments()
    chosen = known if name is None else {one.name: one for one in with_extended([name], known)}
    if as_json:
        write_json(fragments_json(chosen))
    elif name is None:
        sys.stdout.write(fragments_text(known, width=columns()))
    else:
        sys.stdout.write("".join(map(fragment_text, chosen.values())))

# SPDX-License-Identifier: Apache-2.0
"""`ktrial bundle`: pack sessions with all their data into one file."""

from __future__ import annotations

from pathlib import Path

import click

from ktrial.cli.app import App
from ktrial.cli.completion import bundle_names
from ktrial.cli.options import json_option, write_json
from ktrial.cli.shared.bench import check_output
from ktrial.kit.errors import BadInput


@click.command(short_help="Pack sessions into one file that others can check.")
@click.argument("output", type=click.Path(path_type=Path), metavar="OUT.tar.zst")
@click.argument("sessions", nargs=-1, shell_complete=bundle_names, metavar="[SESSION|TRIAL…]")
@click.option(
    "--comparison",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Comparison to add with its data, for `ktrial recheck`.",
)
@click.option("--keep-identity", is_flag=True, help="Keep names of hosts and users, serial numbers and MAC addresses.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@json_option
@click.pass_obj
def command(
    app: App,
    output: Path,
    sessions: tuple[str, ...],
    comparison: Path | None,
    keep_identity: bool,
    force: bool,
    as_json: bool,
) -> int:
    """Pack sessions with all their data into one file, OUT.tar.zst, that others can check.

    Without names ktrial packs every session. A session includes its records, raw output, machine states and trials.
    Name a trial to pack its session.

    ktrial replaces names of hosts and users, serial numbers and MAC addresses with placeholders, in raw output too.
    It does not change numbers. `ktrial import OUT.tar.zst` adds the sessions to another store.

    With --comparison ktrial also packs a comparison, after recomputing it from the packed data.
    """
    from ktrial.cli.shared.evidence import pack_comparison, scrubbing_of, sessions_named, tell
    from ktrial.evidence.pack import make_bundle

    check_output(output, force=force)
    if comparison is not None:
        from ktrial.compare.files import as_json as encoded
        from ktrial.compare.files import read_comparison
        from ktrial.evidence.model import COMPARISON

        writer, made, found = pack_comparison(app, read_comparison(comparison), sessions, keep_identity=keep_identity)
        writer.member(COMPARISON, [encoded(found)])
        writer.write(output, made.sessions)
    else:
        store = app.store
        chosen = sessions_named(app, sessions)
        if not chosen:
            raise BadInput(f"{store.shown} is empty", hint="run `ktrial bench` to measure something")
        scrubbing = None if keep_identity else scrubbing_of(app)
        made = make_bundle(output, chosen, store, app.bundles.new(), scrubbing, app.trials)
    if as_json:
        write_json({"schema": "ktrial.bundled/1", "file": str(output), "made": made})
    tell(app, output, made, kept=keep_identity)
    return 0

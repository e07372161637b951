# SPDX-License-Identifier: Apache-2.0
"""`ktrial bundle`: sessions with all that is kept of them, as one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrial.cli.measuring import check_output
from ktrial.cli.names import session_names
from ktrial.cli.options import json_option, write_json
from ktrial.cli.wiring import App
from ktrial.domain.errors import BadInput

if TYPE_CHECKING:
    from ktrial.services.bundles import Made


@click.command(short_help="Pack sessions into one file that others can check.")
@click.argument("output", type=click.Path(path_type=Path), metavar="OUT.tar.zst")
@click.argument("sessions", nargs=-1, shell_complete=session_names, metavar="[SESSION…]")
@click.option("--keep-identity", is_flag=True, help="Leave names of hosts and users, serial numbers and MACs in.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@json_option
@click.pass_obj
def command(app: App, output: Path, sessions: tuple[str, ...], keep_identity: bool, force: bool, as_json: bool) -> int:
    """Pack all sessions, or those named, with records, order, raw output, states and versions, into OUT.tar.zst.

    Names of hosts and users, serial numbers and MAC addresses are replaced by placeholders, in raw output too; numbers
    stay as they are. `ktrial import OUT.tar.zst` brings the sessions into another store.
    """
    from ktrial.cli.bundling import scrubbing_of
    from ktrial.services.bundles import make_bundle

    check_output(output, force=force)
    store = app.store
    chosen = {one.session: one for one in (map(store.session, sessions) if sessions else store.sessions())}
    if not chosen:
        raise BadInput(f"nothing is in {store.shown} yet", hint="`ktrial bench` measures")
    scrubbing = None if keep_identity else scrubbing_of(app)
    made = make_bundle(output, list(chosen.values()), store, app.bundles.new(), scrubbing)
    if as_json:
        write_json({"schema": "ktrial.bundled/1", "file": str(output), "made": made})
    _tell(app, output, made, kept=keep_identity)
    return 0


def _tell(app: App, output: Path, made: Made, *, kept: bool) -> None:
    sessions = "1 session" if len(made.sessions) == 1 else f"{len(made.sessions)} sessions"
    app.say(f"{output}: {sessions}")
    counts: dict[str, int] = {}
    for one in made.sessions:
        for kind, times in (one.replaced or {}).items():
            counts[kind] = counts.get(kind, 0) + times
    told = ", ".join(f"{kind} {times}" for kind, times in sorted(counts.items()))
    if kept:
        app.say("names of hosts and users, serial numbers and MAC addresses are in it")
    else:
        app.say(f"replaced, times: {told or 'nothing'}; look through labels and own commands before you publish it")
    if made.left:
        app.say(f"could be another word, so replaced only where its place tells: {', '.join(made.left)}")
    if made.spoiled:
        app.say(f"raw output that cannot be read again without the names in it: {', '.join(made.spoiled)}")

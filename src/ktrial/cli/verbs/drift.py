# SPDX-License-Identifier: Apache-2.0
"""`ktrial drift`: compare what is kept with what is live."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_answer

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.tuning.lasting.drift import DriftReport


@click.command(short_help="Check kept settings and their files for changes.")
@json_option
@click.pass_obj
def command(app: App, as_json: bool) -> int:
    """Compare kept settings (see `ktrial keep`) with the live values, and check their files for changes.

    The exit status is 3 if a value has changed or is missing or unreadable, or if somebody edited a file. For a
    changed value, ktrial names the file or service that set it, if known.

    ktrial also lists verdicts that were reached on another kernel, and what an update of ktrial changed in kept
    profiles. `ktrial keep --accept` writes the changes of an update.
    """
    from msgspec import to_builtins

    from ktrial.cli.shared.kept_state import read_drift
    from ktrial.cli.shared.profile_updates import profile_updates
    from ktrial.tuning.lasting.drift_text import drift_json, drift_text, updates_text

    session = app.root_session("comparing what is kept with what is live")
    status, kept, drift = read_drift(app, session)
    if any(one.state == "differs" for one in drift.settings):
        drift = _with_writers(app, session, drift)
    updates = profile_updates(app, session, status, kept)
    write_answer(
        as_json,
        lambda: {**drift_json(drift), "profiles": to_builtins(updates)},
        lambda width: drift_text(drift, width=width) + updates_text(updates, width=width),
    )
    return 3 if drift.has_drifted else 0


def _with_writers(app: App, session: AgentSession, drift: DriftReport) -> DriftReport:
    """Return the drift with the file or service that set each changed value, if known."""
    from msgspec.structs import replace

    from ktrial.tuning.origin.why import origins
    from ktrial.tuning.origin.why_text import who

    unlike = [one for one in drift.settings if one.state == "differs"]
    names = dict.fromkeys(one.address.partition("@")[0] for one in unlike)
    # Removed kernel arguments and the default kernel are not knobs.
    knobs = [app.catalog.knobs[name] for name in names if name in app.catalog.knobs]
    selectors = [one.address.partition("@")[2] or None for one in unlike]
    found = {one.address: one for one in origins(session, app.catalog, knobs, meant=selectors)}
    writers = {address: who(one) for address, one in found.items() if one.set_by is not None}
    settings = [
        replace(one, written_by=writers.get(one.address)) if one.state == "differs" else one for one in drift.settings
    ]
    return replace(drift, settings=tuple(settings))

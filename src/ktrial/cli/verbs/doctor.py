# SPDX-License-Identifier: Apache-2.0
"""`ktrial doctor`: check what is tuned, what would disturb measurements, and what is unavailable."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_answer, write_json

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession


@click.command(short_help="Check what is tuned, by whom, and what disturbs runs.")
@click.option(
    "--bundle",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Archive (.tar.gz) to write for a bug report, without names of hosts and users, serial numbers and MAC"
    " addresses.",
)
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@json_option
@click.pass_obj
def command(app: App, bundle: Path | None, force: bool, as_json: bool) -> None:
    """Show which settings were changed and by whom, and what would disturb or prevent a measurement.

    ktrial compares each setting with its default, if ktrial knows the default. As root, ktrial also reads debugfs and
    its own journal of changes.

    \b
    ktrial doctor
    ktrial doctor --bundle report.tar.gz      # for a bug report
    """
    from ktrial.tuning.doctor.examine import examine
    from ktrial.tuning.doctor.text import doctor_json, doctor_text

    session = app.best_session("examining the machine")
    if bundle is not None:
        _write_bundle(app, session, bundle, force=force, as_json=as_json)
        return
    examination = examine(session, app.catalog)
    write_answer(as_json, lambda: doctor_json(examination), lambda width: doctor_text(examination, width=width))


def _write_bundle(app: App, session: AgentSession, file: Path, *, force: bool, as_json: bool) -> None:
    from ktrial.cli.shared.bench import check_output
    from ktrial.cli.shared.report_bundle import report_bundle
    from ktrial.compare.files import write_file
    from ktrial.tuning.doctor.examine import examine

    check_output(file, force=force, option="--bundle")
    made = report_bundle(app, session, examine(session, app.catalog))
    write_file(file, made.data)
    names = sum(made.replaced.values())
    if as_json:
        found = {"file": str(file), "members": made.members, "replaced": made.replaced}
        write_json({"schema": "ktrial.report-bundle/1", **found})
    app.say(f"wrote {file}: {len(made.members)} files, {names} name{'s'[: names != 1]} replaced")
    app.say(f"look through the bundle before you send it: `tar -xOf {shlex.quote(str(file))} | less`")

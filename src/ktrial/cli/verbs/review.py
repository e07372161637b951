# SPDX-License-Identifier: Apache-2.0
"""`ktrial review`: report what each line of a list of tweaks would do on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, output_option, write_answer
from ktrial.cli.shared.foreign_settings import check_free, read_content, write_profile


@click.command(short_help="Review a list of tweaks from the web, line by line.")
@click.argument("file", metavar="FILE|-")
@output_option("Write the settings that would change something, without dangerous ones, as a profile to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@json_option
@click.pass_obj
def command(app: App, file: str, output: Path | None, force: bool, as_json: bool) -> None:
    """Say what each setting of a list, script, settings file or saved web page would do on this machine.

    \b
    ktrial review blog.md
    ktrial review page.html -o rest.toml
    ktrial review - < tweaks.sh

    For each setting, ktrial shows the effect, the value here (or why the setting cannot matter), dangers, evidence,
    and a command that tries the setting. ktrial reads the list and never runs any of it.
    """
    from ktrial.cli.hosts import again
    from ktrial.cli.shared.ledger import kept_ledger
    from ktrial.studies.ledger.model import of_knob
    from ktrial.studies.review.review import remaining_profile, review
    from ktrial.studies.review.text import review_json, review_text

    check_free(output, force=force)
    program = again(app.host)
    ledger = kept_ledger(app)
    entries = () if ledger is None else ledger.entries
    machine = app.best_session("reading all values")
    found = review(
        read_content(file),
        file,
        machine,
        app.catalog,
        lambda knob: of_knob(entries, knob),
        user=app.user_session,
        program=program,
    )
    write_answer(as_json, lambda: review_json(found), lambda width: review_text(found, width=width))
    if output is not None:
        write_profile(output, remaining_profile(found, file, app.catalog))
        count = len(found.remaining)
        app.say(f"{output}: {count} setting{'s'[: count != 1]}; see the changes with `{program} plan {output}`")
        if found.left_out:
            app.say(f"left out as dangerous: {', '.join(found.left_out)}")

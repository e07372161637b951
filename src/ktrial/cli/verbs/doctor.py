# SPDX-License-Identifier: Apache-2.0
"""`ktrial doctor`: check what is tuned, what would disturb measurements, and what is unavailable."""

from __future__ import annotations

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_answer


@click.command(short_help="Check what is tuned, by whom, and what disturbs tests.")
@json_option
@click.pass_obj
def command(app: App, as_json: bool) -> None:
    """Show which settings were changed and by whom, and what would disturb or prevent a measurement.

    It compares all settings with the kernel's defaults, and needs no root. As root it also reads debugfs and ktrial's
    journal of changes.
    """
    from ktrial.tuning.doctor.examine import examine
    from ktrial.tuning.doctor.text import doctor_json, doctor_text

    examination = examine(app.best_session("examining the machine"), app.catalog)
    write_answer(as_json, lambda: doctor_json(examination), lambda width: doctor_text(examination, width=width))

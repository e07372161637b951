# SPDX-License-Identifier: Apache-2.0
"""`ktrial doctor`: what is tuned here, what disturbs measuring, what cannot be done."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json


@click.command(short_help="Check what is tuned, by whom, and what disturbs measuring.")
@json_option
@click.pass_obj
def command(app: App, as_json: bool) -> None:
    """Show what differs from kernel defaults and who set it, what disturbs measuring now, and what cannot be done here.

    It needs no root; as root it also sees debugfs and ktrial's own journal.
    """
    from ktrial.kit.tables import columns
    from ktrial.tuning.doctor.examine import examine
    from ktrial.tuning.doctor.text import doctor_json, doctor_text

    examination = examine(app.best_session("examining the machine"), app.catalog)
    if as_json:
        write_json(doctor_json(examination))
    else:
        sys.stdout.write(doctor_text(examination, width=columns()))

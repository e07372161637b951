# SPDX-License-Identifier: Apache-2.0
"""`ktrial retest`: repeat a trial on the machine as it is now."""

from __future__ import annotations

import click

from ktrial.cli.app import App
from ktrial.cli.completion import retest_names
from ktrial.cli.options import dangerous_option, json_option, long_option, when_idle_option
from ktrial.cli.shared.fail_on import fail_on_option
from ktrial.cli.shared.trial_options import no_profile_option


@click.command(short_help="Repeat a past trial with new runs.")
@click.argument("what", required=False, shell_complete=retest_names, metavar="[KNOB|TRIAL]")
@no_profile_option
@when_idle_option
@long_option
@fail_on_option
@dangerous_option
@json_option
@click.pass_obj
def command(app: App, what: str | None, no_profile: bool, yes_dangerous: bool, as_json: bool) -> int:
    """Repeat TRIAL, or the newest trial that changed only KNOB, in a new random order.

    If no trial changed only KNOB, ktrial repeats the newest trial that changed KNOB and other settings. Without an
    argument, ktrial repeats the newest outdated trial that no later one supersedes. A trial is outdated if the kernel,
    the machine or an interacting setting has changed since.

    The earlier trial stays; `ktrial ledger` shows whether the new trial supersedes or refutes the earlier one.
    """
    from ktrial.cli.shared.ledger import ledger_of
    from ktrial.cli.shared.run_trial import run_file
    from ktrial.studies.ledger.ledger import again, choose_trial
    from ktrial.studies.ledger.ledger_now import now_of

    entries = ledger_of(app).entries
    now = now_of(app.user_session, entries, app.catalog.knobs)
    stored = app.trials.find(choose_trial(what, entries, now))
    app.say(f"repeating {stored.trial}")
    file = again(stored.file)
    return run_file(app, file, allow_dangerous=yes_dangerous, profile=not no_profile, as_json=as_json, anyway=True)

# SPDX-License-Identifier: Apache-2.0
"""Measures noise profiles for `ktrial noise`, and lists the stored ones."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ktrial.cli.shared.long_runs import TimedTrial, refuse_idle, run_seconds
from ktrial.cli.shared.trial_options import template_file
from ktrial.cli.shared.trial_start import prepare
from ktrial.kit import plain_json
from ktrial.kit.errors import BadInput
from ktrial.kit.tables import columns
from ktrial.machine.facts import machine_of
from ktrial.trial.outcome.noise_text import ProfileState, profile_text, state_of
from ktrial.trial.protocol.file import CONTROL, ArmFile
from ktrial.trial.protocol.from_words import pairs
from ktrial.trial.protocol.protocol import outcomes_around, protocol_of
from ktrial.trial.protocol.read import check_trial_file
from ktrial.trial.run.conduct import measure_noise
from ktrial.trial.run.prepare import order_of, rig_of
from ktrial.trial.run.progress import TrialProgress

if TYPE_CHECKING:
    from ktrial.cli.app import App


def measure(app: App, suite: str | None, own: tuple[str, ...] | None, options: dict[str, Any]) -> int:
    """Measure the noise of a benchmark or command, store the profile and show it."""
    arms = {CONTROL: ArmFile(), "placebo": ArmFile(placebo=True)}
    given = {"detect": "5%", "margin": None, "time_": None, **options}
    measured = {"suite": suite, "parameters": pairs(options["given"], "-p"), "primary": options["primary"]}
    file = template_file("noise", own, given, {}, arms=arms, **measured)
    check_trial_file(file)
    refuse_idle(app, file)
    app.lock_trials()
    ready = prepare(app, file, allow_dangerous=False)
    rig = rig_of(app, ready)
    around = outcomes_around(ready.suite, rig.around.counters)
    protocol = protocol_of(ready.file, ready.tasks, order_of(ready).gates, ready.seed, None, 1, around)
    if protocol.outcomes[protocol.primary].scale != "log":
        raise BadInput(
            f"cannot measure the noise of {protocol.primary}: trials of counts use no noise profile",
            hint="name another outcome with --primary",
        )
    as_json = options["as_json"]
    progress = TrialProgress(app.clock, as_json=as_json)
    timed = TimedTrial(app, progress, ask=not as_json)
    run_s = run_seconds(app, ready)
    try:
        with app.interrupts, progress:
            made = measure_noise(app, ready, rig, protocol, timed, run_s=run_s, fresh=options["fresh"], is_alone=True)
    except KeyboardInterrupt:
        return app.end_interrupted("the finished blocks are stored; run the same command again to continue")
    if as_json:
        sys.stdout.write(plain_json.line({"event": "noise", "profile": made}))
    else:
        sys.stdout.write(profile_text(made, protocol, width=columns()))
    return 0


def stored_profiles(app: App) -> list[ProfileState]:
    """Return the noise profiles of this machine, the newest of each benchmark, and why some are not valid now."""
    facts = app.user_session.facts()
    newest = {one.key.suite: one for one in reversed(app.trials.profiles(None, machine_of(facts)))}
    return [state_of(one, facts, app.clock.unix_ms()) for one in newest.values()]

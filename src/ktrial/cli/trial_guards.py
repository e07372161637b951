# SPDX-License-Identifier: Apache-2.0
"""What guards a trial: limits on the machine, who changed a knob, and what a trial says of itself at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ktrial.domain.errors import Refused

if TYPE_CHECKING:
    from ktrial.cli.trying import Prepared
    from ktrial.cli.wiring import App
    from ktrial.domain.stored_trial import StoredTrial
    from ktrial.domain.trial_file import TrialFile
    from ktrial.services.ports import Machine
    from ktrial.services.trial_arms import Drift, NamesWriter


def recover(app: App, session: Machine) -> None:
    """Finish what an earlier ktrial was killed in, where this session may: what is found then is what was there."""
    if not session.is_root:
        return
    told = session.request("status")["transactions"]
    open_ones = [str(one["transaction"]) for one in told if one["state"] == "interrupted"]
    if open_ones:
        session.request("recover")
        app.say(f"transaction {', '.join(open_ones)} was interrupted; what it had changed was put back")


@contextmanager
def limits_watched(app: App, file: TrialFile) -> Iterator[None]:
    """Limits of the protocol are looked at once a second, whatever is waited for."""
    from ktrial.services.safety import SOURCES, SafetyWatch

    if file.safety.none:
        yield
        return
    watch = SafetyWatch(file.safety, app.sampling_of(SOURCES))
    watch.begin()
    app.interrupts.watch = watch.check
    try:
        yield
    finally:
        app.interrupts.watch = None


def writers(app: App, ready: Prepared) -> NamesWriter:
    """Who changed a knob, where that can be known."""
    from ktrial.services.trial_writers import writer_of

    def name(drift: Drift, own: int | None) -> str | None:
        return writer_of(ready.root, app.catalog, drift, own) if ready.root is not None else None

    return name


def refuse_changed(stored: StoredTrial, found: Mapping[str, str]) -> None:
    """What the arms change must be found as it was when the trial began: that is what the control is."""
    for address, before in stored.found.items():
        now = found.get(address)
        if now is not None and now != before:
            raise Refused(
                f"{address} was {before} when {stored.trial} began and is {now} now: the control would be another one",
                hint="put it back as it was, or begin a new trial",
            )


def say_next(app: App, stored: StoredTrial) -> None:
    """What the trial itself says is to be done otherwise."""
    from ktrial.services.trial_summary import judgement_of

    judged = judgement_of(app.trials.log(stored.trial)).judged
    if any(finding.kind == "carry-over" for one in judged for finding in one.findings):
        longer_s = max(2 * stored.settle_s, 1.0)
        app.say(
            f"next: an effect reached into the next visit; the same trial with --settle {longer_s:g}s shows it whole"
        )

# SPDX-License-Identifier: Apache-2.0
"""Shows the result of a trial."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ktrial.cli.hosts import again, as_before
from ktrial.cli.options import write_answer, write_text
from ktrial.cli.shared.fail_on import refuse
from ktrial.cli.shared.ledger import note
from ktrial.compare.files import read_comparison
from ktrial.evidence.recheck_trial import told_again
from ktrial.judge.model.log import TrialEnd
from ktrial.kit import plain_json
from ktrial.kit.errors import GuardTripped, Refused
from ktrial.kit.tables import columns
from ktrial.reports.terminal import comparison_text
from ktrial.studies.blame.text import screening_text
from ktrial.studies.schedulers_text import advice_of, schedulers_text
from ktrial.trial.arms.manual import is_by_hand
from ktrial.trial.outcome.commands_text import commands_text, decision_line, doubts_of
from ktrial.trial.outcome.summary import failures_in, judgement_of, summary_of
from ktrial.trial.outcome.text import trials_text
from ktrial.trial.outcome.verdict_text import trial_text
from ktrial.trial.protocol.campaign import decision_of, first_look, refuse_beyond

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrial.cli.app import App
    from ktrial.judge.model.comparison import Comparison
    from ktrial.kit.finding import Finding
    from ktrial.trial.kept_trial import KeptTrial
    from ktrial.trial.protocol.file import CampaignFile
    from ktrial.trial.record import StoredTrial, TrialSummary


def finish(app: App, stored: StoredTrial, *, interrupted: bool, as_json: bool) -> int:
    note(app)
    found: Comparison | None = None
    if stored.file.screen is not None:
        screening(app, stored, as_json=as_json)
    elif not is_hidden(app, stored):
        found = load_comparison(app, stored)
        if as_json:
            sys.stdout.write(plain_json.line({"event": "comparison", "comparison": found}))
            if stored.file.compares_schedulers:
                sys.stdout.write(plain_json.line({"event": "advice", "advice": advice_of(found)}))
        elif not stored.file.campaign:
            write_text(_brief_text(app, stored, found, columns()))
    if interrupted:
        resume = f"{again(app.host)} trial resume {stored.trial}"
        blocks = judgement_of(app.trials.log(stored.trial)).blocks
        kept = f"{blocks} block{'s'[: blocks != 1]} and all finished runs are stored"
        return app.end_interrupted(f"{kept}; continue with `{resume}`")
    if found is not None:
        say_next(app, stored, found)
    left = "" if is_by_hand(stored.file) or stored.file.guest is not None else f"; {as_before(app.host)}"
    app.say(f"saved as {stored.trial}{left}")
    status = 0
    if found is not None:
        status = _decide(app, stored, found, as_json=as_json)
        if broken := broken_guards(found):
            hint = f"do not keep this arm; `{again(app.host)} trial report {stored.trial}` writes the whole report"
            raise GuardTripped(f"guard broken: {broken[0]}", hint=hint)
        refuse(app, found)
    return status


def announce_decision(app: App, campaign: CampaignFile, most_blocks: int) -> None:
    """Report the number of the campaign's decision that this trial makes. Raise Refused if no decision is left."""
    number = refuse_beyond(campaign, app.trials.all())
    app.say(
        f"campaign {campaign.name}: decision {number} of {campaign.of} takes at least "
        f"{first_look(campaign, most_blocks)} blocks, and counts even if the trial fails"
    )


def _decide(app: App, stored: StoredTrial, found: Comparison, *, as_json: bool) -> int:
    """Print a trial's decision in its campaign and return the exit status of the decision; 0 without a campaign."""
    decision = decision_of(stored, found, app.trials.all())
    if decision is None:
        return 0
    for doubt in doubts_of(found):
        app.say(f"doubt: {doubt}")
    document = {"event": "decision", "decision": decision}
    sys.stdout.write(plain_json.line(document) if as_json else decision_line(decision, found))
    return 0 if decision.decision == "keep" else GuardTripped.exit_status


def say_next(app: App, stored: StoredTrial, found: Comparison) -> None:
    """Recommend a longer wait after switches if an effect lasted into the next visit."""
    if any(finding.kind in {"carry-over", "effect-after-undo"} for finding in _findings(found)):
        longer_s = max(2 * stored.settle_s, 1.0)
        option = "--washout" if stored.file.live else "--settle"
        app.say(f"next: an effect lasted beyond its setting; run the same trial with {option} {longer_s:g}s")


def broken_guards(found: Comparison) -> list[str]:
    """Return a sentence on each outcome that is clearly worse than its guard allows."""
    return [one.sentence for one in _findings(found) if one.kind == "guard-broken"]


def _findings(found: Comparison) -> Iterator[Finding]:
    return (one for outcome in found.outcomes for contrast in outcome.contrasts for one in contrast.findings)


def is_hidden(app: App, stored: StoredTrial) -> bool:
    """Return whether a trial is blind and not over, so that its effects must not be shown."""
    return stored.file.is_blind and not isinstance(app.trials.log(stored.trial)[-1], TrialEnd)


def load_comparison(app: App, stored: StoredTrial) -> Comparison:
    if is_hidden(app, stored):
        raise Refused(
            f"cannot show {stored.trial}: it is blind and not over",
            hint=f"continue the trial to its verdict with `ktrial trial resume {stored.trial}`",
        )
    return told_again(kept_trial(app, stored), app.store, app.benchmarks, app.catalog)


def kept_trial(app: App, stored: StoredTrial) -> KeptTrial:
    kept = app.trials.named(stored.trial)
    assert kept is not None, "the caller has just found it"
    return kept


def show_trial(app: App, stored: StoredTrial, *, everything: bool, as_json: bool) -> None:
    if stored.file.screen is not None:
        screening(app, stored, as_json=as_json)
        return
    found = load_comparison(app, stored)

    def text(width: int) -> str:
        return comparison_text(found, width=width) if everything else _brief_text(app, stored, found, width)

    write_answer(as_json, lambda: found, text)
    refuse(app, found)


def _brief_text(app: App, stored: StoredTrial, found: Comparison, width: int) -> str:
    """Return the result of a trial on one screen, in the form for commands, schedulers or settings."""
    if stored.file.compares_schedulers:
        return schedulers_text(found, failures_in(app.trials.log(stored.trial)), width=width)
    text = commands_text if stored.file.compares_commands else trial_text
    return text(found, width=width)


def screening(app: App, stored: StoredTrial, *, as_json: bool) -> None:
    """Show a trial of `ktrial blame` that measures random halves of the settings."""
    log = app.trials.log(stored.trial)
    found = judgement_of(log)
    if as_json:
        sys.stdout.write(plain_json.line(found))
        return
    ended = summary_of(stored, log).ended
    sys.stdout.write(screening_text(stored.trial, found.screened, ended, width=columns()))


def list_trials(app: App, name: str | None, *, as_json: bool) -> None:
    found = [_summary(app, one) for one in app.trials.all(name)]
    write_answer(
        as_json, lambda: {"schema": "ktrial.trials/1", "trials": found}, lambda width: trials_text(found, width=width)
    )


def _summary(app: App, stored: StoredTrial) -> TrialSummary:
    found = summary_of(stored, app.trials.log(stored.trial))
    if is_hidden(app, stored):
        found = msgspec.structs.replace(found, verdicts=dict.fromkeys(found.verdicts))
    return found


def comparison_named(app: App, what: str) -> Comparison:
    if what == "-" or what.endswith(".json") or Path(what).exists():
        return read_comparison(Path(what))
    return load_comparison(app, app.trials.find(what))

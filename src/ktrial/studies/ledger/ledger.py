# SPDX-License-Identifier: Apache-2.0
"""Turns stored trials into entries of the ledger, and chooses the trial that `ktrial retest` repeats."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ktrial.judge.model.judgement import OutcomeJudgement
from ktrial.judge.model.log import Event, Protocol, TrialEnd, protocol_in
from ktrial.kit.errors import BadInput
from ktrial.studies.ledger.model import LedgerEntry, Now, changed_since, of_knob
from ktrial.trial.arms.builds import repeated
from ktrial.trial.arms.manual import is_by_hand
from ktrial.trial.protocol.file import TrialFile, full_names
from ktrial.trial.protocol.live import LIVE
from ktrial.trial.record import StoredTrial
from ktrial.trial.run.trial_builds import builds_that_count
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.value import active_text
from ktrial.tuning.state.state import MachineState

_SCOPES = {"run": "on one boot", "boot": "across boots", "build": "across builds"}


def entries_of(
    trial: StoredTrial,
    log: Sequence[Event],
    kernel: str | None,
    state: MachineState | None,
    knobs: Mapping[str, Knob],
) -> tuple[LedgerEntry, ...]:
    """Return an entry for each arm of a trial against the control; none for a trial that gives no verdicts."""
    from ktrial.judge.judge import judge

    protocol = protocol_in(log)
    if protocol.screen is not None or protocol.race:
        return ()
    over = any(isinstance(event, TrialEnd) for event in log)
    base = trial.arms[protocol.control]
    scope = _scope(trial, protocol, log)
    found = []
    judged = judge(log).judged
    for name in dict.fromkeys(one.arm for one in judged if one.role == "primary" and one.against == protocol.control):
        one, worse = _deciding(judged, name, protocol, trial.file)
        arm = trial.arms[name]
        changes = {name: value for name, value in arm.changes.items() if base.changes.get(name) != value}
        environment = {key: value for key, value in arm.environment.items() if base.environment.get(key) != value}
        found.append(
            LedgerEntry(
                trial=trial.trial,
                arm=one.arm,
                started_unix_ms=trial.started_unix_ms,
                machine=trial.machine,
                kernel=kernel,
                scope=scope,
                control=protocol.control if trial.file.baseline == "found" else trial.file.baseline,
                changes=changes,
                environment=environment,
                placebo=trial.file.arms[one.arm].placebo,
                workload=workload_of(trial),
                outcome=one.outcome,
                direction=protocol.outcomes[one.outcome].direction,
                verdict=one.verdict,
                effect=one.effect,
                blocks=one.blocks,
                over=over,
                part=trial.file.part,
                manual=arm.manual,
                held=held_values(changes, state, knobs),
                worse=worse,
            )
        )
    return tuple(found)


def _deciding(
    judged: Sequence[OutcomeJudgement], arm: str, protocol: Protocol, file: TrialFile
) -> tuple[OutcomeJudgement, tuple[str, ...]]:
    """Return the judgement that decides about an arm, and the other outcomes of a front in which it is worse.

    The primary outcome decides. In a front, a guard that the arm breaks decides, or else the first outcome in which
    the arm is better.
    """
    own = {one.outcome: one for one in judged if one.arm == arm and one.against == protocol.control}
    primary = own[protocol.primary]
    if not file.front:
        return primary, ()
    many = [primary, *(own[name] for name in full_names(file.front, protocol.of_role("secondary")) if name in own)]
    deciding = next((one for one in own.values() if one.guard == "broken"), None)
    deciding = deciding or next((one for one in many if one.verdict == "better"), primary)
    return deciding, tuple(one.outcome for one in many if one.verdict == "worse" and one is not deciding)


def _scope(trial: StoredTrial, protocol: Protocol, log: Sequence[Event]) -> str:
    # Boots in an order that was not drawn are not replicates, however many there are. Nor are builds with the same
    # bytes.
    if trial.file.guest is not None:
        return f"in {trial.file.guest.mode} guests"
    if protocol.replicate == "build" and repeated(builds_that_count(log)):
        return "on the builds that were measured"
    if protocol.replicate == "run" and is_by_hand(trial.file):
        return "on the boots that were measured"
    return _SCOPES[protocol.replicate]


def workload_of(trial: StoredTrial) -> str:
    """Return the workload as name and digest; only trials with the same workload can supersede each other."""
    file = trial.file
    measured: tuple[object, ...] = (file.suite, file.command, file.metrics, file.parameters, file.cpus)
    if file.live:
        measured = (*measured, file.live.metrics, file.primary)
    digest = hashlib.sha256(msgspec.json.encode(measured, order="deterministic")).hexdigest()[:8]
    return f"{file.suite or (LIVE if file.live else file.command[0].rpartition('/')[2])} {digest}"


def held_values(changes: Iterable[str], state: MachineState | None, knobs: Mapping[str, Knob]) -> dict[str, str]:
    """Return the control's values of knobs that interact with the changed knobs."""
    if state is None:
        return {}
    near = interacting(changes, knobs)
    found = {}
    for address, path in state.knobs.items():
        knob = address.partition("@")[0]
        value = state.files.get(path)
        if knob in near and value is not None and value.text is not None:
            found[address] = active_text(knobs[knob], value.text)
    return found


def interacting(changes: Iterable[str], knobs: Mapping[str, Knob]) -> set[str]:
    """Return the knobs that, according to the catalog, interact with changed knobs or change together with them."""
    changed = {address.partition("@")[0] for address in changes}
    near = {name for knob in changed if knob in knobs for name in (*knobs[knob].interacts, *knobs[knob].couples)}
    return (near & set(knobs)) - changed


def choose_trial(what: str | None, entries: Sequence[LedgerEntry], now: Now) -> str:
    """Return the name of the trial to repeat.

    If `what` is a knob, return its newest trial, if possible one that changes nothing else. Any other `what` is itself
    the name of a trial. Without `what`, return the first trial that is out of date, and raise BadInput if none is.
    """
    if what is None:
        outdated = [one for one in entries if one.superseded_by is None and changed_since(one, now)]
        if not outdated:
            hint = "run `ktrial retest TRIAL` with a trial that `ktrial ledger` lists"
            hint = hint if entries else "run a trial first, for example `ktrial try vm.swappiness=10`"
            raise BadInput("nothing to retest: no trial is out of date", hint=hint)
        return outdated[0].trial
    about = [one for one in entries if one.is_about(what)]
    if not about:
        return what
    newest = max(about, key=lambda one: one.started_unix_ms)
    alone = [one for one in of_knob(entries, what) if len(one.changes) == 1 and not one.environment]
    return max(alone, key=lambda one: one.started_unix_ms).trial if alone else newest.trial


def again(file: TrialFile) -> TrialFile:
    """Return the protocol without its seed, so that a repetition draws new orders.

    Raise BadInput for a trial of a blame or search.
    """
    if file.screen is not None:
        raise BadInput(
            f"cannot repeat {file.name}: this trial belongs to a blame",
            hint="run the whole `ktrial blame …` again, with --fresh",
        )
    if file.race:
        raise BadInput(
            f"cannot repeat {file.name}: this trial belongs to a search",
            hint="run the whole `ktrial search …` again, with --fresh",
        )
    plain = {
        name: msgspec.structs.replace(arm, placebo=arm.placebo and arm.changes_nothing)
        for name, arm in file.arms.items()
    }
    return msgspec.structs.replace(file, part=None, arms=plain, design=msgspec.structs.replace(file.design, seed=None))

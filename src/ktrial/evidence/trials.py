# SPDX-License-Identifier: Apache-2.0
"""Trials in bundles: protocol, log and noise profile, stored beside the session with their runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from ktrial.evidence.model import OTHER_COPY, trial_folder_of
from ktrial.evidence.unpack import Bundle
from ktrial.judge.model.log import decode, encode
from ktrial.judge.model.noise_profile import NoiseProfile
from ktrial.kit.errors import BadInput, KtrialError, Refused, in_lower_case
from ktrial.kit.json_strict import decode_as
from ktrial.trial.kept_trial import KeptTrial
from ktrial.trial.record import StoredTrial

_TRIAL, _LOG, _NOISE = "trial.json", "log.jsonl", "noise.json"


class TrialKeeper(Protocol):
    """A store for trials."""

    def of_session(self, session: str) -> Sequence[KeptTrial]: ...

    def named(self, name: str) -> KeptTrial | None: ...

    def bring(self, trials: Iterable[KeptTrial]) -> None:
        """Store trials from another store: all or none."""


def members_of(kept: KeptTrial) -> dict[str, bytes]:
    folder = trial_folder_of(kept.stored.trial)
    found = {
        f"{folder}/{_TRIAL}": msgspec.json.encode(kept.stored, order="sorted") + b"\n",
        f"{folder}/{_LOG}": encode(kept.log),
    }
    if kept.noise is not None:
        found[f"{folder}/{_NOISE}"] = msgspec.json.encode(kept.noise, order="sorted") + b"\n"
    return found


def trials_in(bundle: Bundle) -> tuple[KeptTrial, ...]:
    return tuple(trial_in(bundle, name) for name in bundle.trials)


def trial_in(bundle: Bundle, name: str) -> KeptTrial:
    """Return one trial of a bundle. Raise BadInput if it is invalid."""
    where = f"{bundle.shown}: {trial_folder_of(name)}"
    data = {part: bundle.trial(name, part) for part in (_TRIAL, _LOG, _NOISE)}
    document, log, noise = data[_TRIAL], data[_LOG], data[_NOISE]
    if document is None or log is None:
        raise BadInput(f"{where}/{_TRIAL if document is None else _LOG} is not in the bundle", hint=OTHER_COPY)
    try:
        stored = decode_as(document, StoredTrial)
        profile = None if noise is None else decode_as(noise, NoiseProfile)
    except msgspec.DecodeError as error:
        raise BadInput(f"{where} is malformed ({in_lower_case(str(error))})", hint=OTHER_COPY) from None
    if not log.endswith(b"\n"):
        raise BadInput(f"{where}/{_LOG} ends within a line", hint=OTHER_COPY)
    kept = KeptTrial(stored=stored, log=decode(log, f"{where}/{_LOG}"), noise=profile)
    arms = {one.name for one in kept.protocol.arms}
    control = kept.protocol.control
    is_whole = control in arms == stored.arms.keys() and arms - {control} <= stored.file.arms.keys()
    if not is_whole:
        raise BadInput(f"{where} differs from its protocol in the arms", hint=OTHER_COPY)
    if not (stored.file.suite or stored.file.command or stored.file.live):
        raise BadInput(f"{where} names nothing to measure", hint=OTHER_COPY)
    if stored.trial != name:
        raise BadInput(f"{where} describes another trial, {stored.trial}", hint=OTHER_COPY)
    if stored.session not in {one.session for one in bundle.manifest.sessions}:
        raise BadInput(f"{where} belongs to session {stored.session}, which is not in the bundle", hint=OTHER_COPY)
    return kept


def new_trials(bundle: Bundle, keeper: TrialKeeper, packed: Iterable[KeptTrial]) -> tuple[KeptTrial, ...]:
    """Return the trials of the bundle that the store lacks.

    `packed` contains trials of the store in the form that they have in bundles. Raise Refused if a trial of the bundle
    differs both from the stored trial with the same name and from that trial's form in `packed`.
    """
    ways = {one.stored.trial: _weight(one) for one in packed}
    found = []
    for kept in trials_in(bundle):
        there = keeper.named(kept.stored.trial)
        if there is None:
            found.append(kept)
        elif _weight(kept) not in (_weight(there), ways.get(kept.stored.trial)):
            raise Refused(
                f"{bundle.shown}: trial {kept.stored.trial} is already in the store with other content",
                hint=f"use another store: `ktrial --store FILE import {bundle.shown}`; nothing was imported",
            )
    return tuple(found)


def _weight(kept: KeptTrial) -> tuple[bytes, bytes]:
    """Return what equal trials have in common: everything except noise profiles, which ktrial does not import."""
    return msgspec.json.encode(kept.stored, order="sorted"), encode(kept.log)


def check_same_verdicts(before: KeptTrial, after: KeptTrial) -> None:
    """Raise KtrialError if replacing names would change a verdict."""
    from ktrial.judge.judge import judge

    was, now = (judge(one.log) for one in (before, after))
    if [(one.verdict, one.effect) for one in was.judged] != [(one.verdict, one.effect) for one in now.judged]:
        raise KtrialError(
            f"cannot replace names of hosts and users in {before.stored.trial}: that would change its verdicts",
            hint="use --keep-identity to pack the trial with these names",
        )

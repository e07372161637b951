# SPDX-License-Identifier: Apache-2.0
"""Reads the verdicts of a bundle, for the ledger of other people's verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from ktrial.evidence.trials import trial_in
from ktrial.evidence.unpack import Bundle, OwnMachine, fact_value, facts_of, session_of
from ktrial.judge.model.log import encode
from ktrial.kit.errors import BadInput, Refused
from ktrial.studies.ledger.ledger import entries_of
from ktrial.studies.ledger.others import OthersTrial, hardware_from
from ktrial.trial.kept_trial import KeptTrial
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.state.state import MachineState, parse_state

#: Size limit of the encoded verdicts of one bundle, because `ktrial explain` reads all of them.
_LARGEST_BYTES = 1 << 20
#: The latest moment that every platform can show as a date.
_LATEST_UNIX_MS = 1 << 43


class BundleOrigin(NamedTuple):
    """Where a bundle comes from; `signer` is None if nobody checked its signature."""

    name: str
    sha256: str
    signer: str | None
    imported_unix_ms: int


def others_in(
    bundle: Bundle, origin: BundleOrigin, own: OwnMachine, knobs: Mapping[str, Knob]
) -> tuple[OthersTrial, ...]:
    """Return the trials of a rechecked bundle with their verdicts.

    Raise Refused if the bundle is from this machine or may contain names of people. Raise BadInput if the bundle has no
    verdict, too many, or an impossible date.
    """
    facts: dict[str, Mapping[str, Any]] = {}
    kernels: dict[str, str | None] = {}
    for packed in bundle.manifest.sessions:
        session = session_of(bundle, packed)
        if packed.replaced is None:
            raise Refused(
                f"{bundle.shown}: session {packed.session} may contain names of hosts and users",
                hint="ask the author of the bundle for one made without --keep-identity",
            )
        facts[session.session] = facts_of(session.document)
        kernels[session.session] = session.kernel_release
        if own.has_measured(session.boot_id, session.document):
            raise Refused(
                f"{bundle.shown}: this machine measured session {packed.session}, so its verdicts are your own",
                hint=f"run `ktrial import {bundle.shown}` to add the session to your store",
            )
    found = []
    for name in bundle.trials:
        kept = trial_in(bundle, name)
        session_name = kept.stored.session
        trial = _of_trial(bundle, kept, facts[session_name], kernels[session_name], origin, knobs)
        found += [trial] if trial.entries else []
    if not found:
        raise BadInput(
            f"{bundle.shown}: no finished trial in this bundle has a verdict on a setting",
            hint=f"run `ktrial import {bundle.shown}` to add the runs to your store",
        )
    if len(msgspec.json.encode(found)) > _LARGEST_BYTES:
        raise BadInput(
            f"{bundle.shown}: the verdicts take more than {_LARGEST_BYTES >> 20} MiB as text",
            hint="ask the author of the bundle for one with fewer trials",
        )
    return tuple(found)


def _of_trial(
    bundle: Bundle,
    kept: KeptTrial,
    facts: Mapping[str, Any],
    kernel: str | None,
    origin: BundleOrigin,
    knobs: Mapping[str, Knob],
) -> OthersTrial:
    state = _state(bundle, kept)
    entries = entries_of(kept.stored, kept.log, kernel, state, knobs)
    if not all(0 <= entry.started_unix_ms < _LATEST_UNIX_MS for entry in entries):
        raise BadInput(
            f"{bundle.shown}: trial {kept.stored.trial} has an impossible date, "
            f"{kept.stored.started_unix_ms} ms after 1970",
            hint="ask the author of the bundle for a new one",
        )
    disks = () if state is None else (address.partition("@")[2] for address in state.knobs)
    return OthersTrial(
        sha256=hashlib.sha256(msgspec.json.encode(kept.stored, order="sorted") + encode(kept.log)).hexdigest(),
        bundle=origin.name,
        bundle_sha256=origin.sha256,
        signer=origin.signer,
        imported_unix_ms=origin.imported_unix_ms,
        hardware=hardware_from(lambda name: fact_value(facts, name), disks, kernel),
        entries=tuple(one for one in entries if one.over and one.verdict is not None and not one.placebo),
    )


def _state(bundle: Bundle, kept: KeptTrial) -> MachineState | None:
    """Return the machine's state in the control arm, if the bundle has it."""
    packed = next(one for one in bundle.manifest.sessions if one.session == kept.stored.session)
    digest = session_of(bundle, packed).states.get(kept.stored.file.control)
    return None if digest is None else parse_state(bundle.raw(digest), f"the state of {kept.stored.trial}")

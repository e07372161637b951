# SPDX-License-Identifier: Apache-2.0
"""A trial as the store contains it: its protocol, its arms on this machine, and the session with its runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ktrial.judge.model.log import Protocol
from ktrial.trial.protocol.file import TrialFile, Value


class ArmSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An arm on this machine: its changed values, by address, and its skipped settings, with the reasons.

    `manual` tells a person how to set up the arm; `expect` contains the facts that then identify it. `inert` lists
    changes without effect on this machine, with the reasons. `commands` put the arm in force; each is shown with its
    undo command.
    """

    changes: Mapping[str, str] = {}
    same: tuple[str, ...] = ()
    refused: Mapping[str, str] = {}
    inert: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}
    parameters: Mapping[str, Any] = {}
    manual: str | None = None
    expect: Mapping[str, Value] = {}
    commands: tuple[str, ...] = ()

    @property
    def without_reasons(self) -> ArmSettings:
        """The arm without the reasons of skipped changes, whose wording differs between versions of ktrial."""
        return msgspec.structs.replace(
            self, refused=dict.fromkeys(self.refused, ""), inert=dict.fromkeys(self.inert, "")
        )


class StoredTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was fixed before the first run. `found` has the original values of all changed addresses."""

    trial: str
    session: str
    protocol_sha256: str
    started_unix_ms: int
    file: TrialFile
    arms: Mapping[str, ArmSettings]
    settle_s: float
    machine: str
    found: Mapping[str, str] = {}


class TrialSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A trial in a list.

    `verdicts` are the verdicts of the primary outcome by arm, null if open. `ended` states why the trial makes no
    further run. A trial that screens settings has `suspected` settings instead of verdicts.
    """

    trial: str
    name: str
    started_unix_ms: int
    primary: str
    blocks: int
    verdicts: Mapping[str, str | None]
    ended: str | None
    suspected: tuple[str, ...] = ()


def changed_arms(before: Mapping[str, ArmSettings], now: Mapping[str, ArmSettings]) -> Sequence[str]:
    """Return the arms of `before` that are missing or different now."""
    return [name for name, arm in before.items() if name not in now or now[name].without_reasons != arm.without_reasons]


def protocol_sha256(file: TrialFile, protocol: Protocol, arms: Mapping[str, ArmSettings]) -> str:
    """Return the hash that every run carries. It covers the file, the judge's protocol and the arms on this machine."""
    written = msgspec.json.encode((file, protocol, arms))
    # The hash covers what a reader decodes, so that 8 and 8.0 are the same limit.
    read = msgspec.json.decode(written, type=tuple[TrialFile, Protocol, dict[str, ArmSettings]])
    return hashlib.sha256(msgspec.json.encode(_without_empty(msgspec.to_builtins(read)), order="sorted")).hexdigest()


def _without_empty(value: Any) -> Any:
    """Remove null and empty values, so that a new field does not change the hash of earlier trials."""
    if isinstance(value, dict):
        found = {name: _without_empty(one) for name, one in value.items()}
        return {name: one for name, one in found.items() if one not in (None, {}, [])}
    return [_without_empty(one) for one in value] if isinstance(value, list | tuple) else value

# SPDX-License-Identifier: Apache-2.0
"""A trial as it is kept: what was asked for, what that came to on the machine, and where its runs are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from ktrial.judge.model.log import Protocol
from ktrial.trial.protocol.file import TrialFile, Value


class ArmSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm came to on the machine: address -> value of all that it changes, what was left out and why.

    `manual` is what a person does to bring it about, `expect` by which facts it is recognised then.
    `inert` are changes that change nothing on this machine, and why.
    `commands` are those that bring it into force, each with what undoes it.
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


class StoredTrial(msgspec.Struct, frozen=True, kw_only=True):
    """All that was fixed before the first run. `found` are the values, by address, that arms change, as found."""

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
    """`verdicts` are of the primary outcome by arm, null where it is open; `ended` is why no further run follows.

    A trial that looks for the setting that did it has `suspected` ones in place of verdicts.
    """

    trial: str
    name: str
    started_unix_ms: int
    primary: str
    blocks: int
    verdicts: Mapping[str, str | None]
    ended: str | None
    suspected: tuple[str, ...] = ()


def protocol_sha256(file: TrialFile, protocol: Protocol, arms: Mapping[str, ArmSettings]) -> str:
    """The hash that goes into every run: of the file, of what the judge goes by, and of what the arms came to."""
    written = msgspec.json.encode((file, protocol, arms))
    # As it is when it is read again: 8 and 8.0 are one limit.
    read = msgspec.json.decode(written, type=tuple[TrialFile, Protocol, dict[str, ArmSettings]])
    return hashlib.sha256(msgspec.json.encode(_without_empty(msgspec.to_builtins(read)), order="sorted")).hexdigest()


def _without_empty(value: Any) -> Any:
    """Without what is null or empty: a field that a later ktrial adds does not change the hash of earlier trials."""
    if isinstance(value, dict):
        found = {name: _without_empty(one) for name, one in value.items()}
        return {name: one for name, one in found.items() if one not in (None, {}, [])}
    return [_without_empty(one) for one in value] if isinstance(value, list | tuple) else value

# SPDX-License-Identifier: Apache-2.0
"""A trial with its log and noise profile: the form in which stores exchange it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ktrial.judge.model.log import Event, Protocol, protocol_in
from ktrial.judge.model.noise_profile import NoiseProfile
from ktrial.trial.record import StoredTrial, protocol_sha256


class KeptTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A trial with its log, as stores and bundles exchange it.

    `noise` is the profile with which the protocol was planned; null if unknown or missing.
    """

    stored: StoredTrial
    log: tuple[Event, ...]
    noise: NoiseProfile | None = None

    @property
    def protocol(self) -> Protocol:
        return protocol_in(self.log)

    @property
    def sha256(self) -> str:
        """The hash of the protocol, computed from the content of this object."""
        return protocol_sha256(self.stored.file, self.protocol, self.stored.arms)


def cleaned(kept: KeptTrial, clean: Callable[[Any], Any]) -> KeptTrial:
    """Return the trial with `clean` applied to every text. If that changes the protocol, its hash changes too."""
    document = msgspec.to_builtins(kept)
    found = msgspec.convert(clean(document), KeptTrial)
    if found.sha256 == kept.sha256:
        return found
    return msgspec.structs.replace(found, stored=msgspec.structs.replace(found.stored, protocol_sha256=found.sha256))

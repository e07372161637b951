# SPDX-License-Identifier: Apache-2.0
"""A trial with all that is kept of it beside its runs, as it goes from one store to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ktrial.judge.model.log import Event, Protocol, protocol_in
from ktrial.judge.model.noise_profile import NoiseProfile
from ktrial.trial.record import StoredTrial, protocol_sha256


class KeptTrial(msgspec.Struct, frozen=True, kw_only=True):
    """`noise` is the profile that its protocol was planned with, null where there was none or it is no longer kept."""

    stored: StoredTrial
    log: tuple[Event, ...]
    noise: NoiseProfile | None = None

    @property
    def protocol(self) -> Protocol:
        """What was fixed before the first run."""
        return protocol_in(self.log)

    @property
    def sha256(self) -> str:
        """The hash of the protocol as it is here."""
        return protocol_sha256(self.stored.file, self.protocol, self.stored.arms)


def cleaned(kept: KeptTrial, clean: Callable[[Any], Any]) -> KeptTrial:
    """Return the trial with every text replaced; where that changes the protocol it has the hash of what it is now."""
    document = msgspec.to_builtins(kept)
    found = msgspec.convert(clean(document), KeptTrial)
    if found.sha256 == kept.sha256:
        return found
    return msgspec.structs.replace(found, stored=msgspec.structs.replace(found.stored, protocol_sha256=found.sha256))

# SPDX-License-Identifier: Apache-2.0
"""What verbs about bundles share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrial.cli.wiring import App
    from ktrial.services.bundles import Brought, Scrubbing


def scrubbing_of(app: App) -> Scrubbing:
    """What bundles that are made here are scrubbed with."""
    from ktrial.services.bundles import Scrubbing

    identity, salt = app.scrubbing()
    return Scrubbing(identity=identity, salt=salt, benchmarks=app.benchmarks)


def import_bundle(app: App, path: Path) -> Brought:
    """Bring a bundle's sessions into the store."""
    from ktrial.services.bundles import bring_back

    return bring_back(app.bundles.open(path), app.store, scrubbing_of(app))

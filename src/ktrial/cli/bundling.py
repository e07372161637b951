# SPDX-License-Identifier: Apache-2.0
"""What verbs about bundles share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ktrial.domain.errors import BadInput

if TYPE_CHECKING:
    from ktrial.cli.wiring import App
    from ktrial.services.bundles import Brought, Scrubbing

_ZSTD = b"\x28\xb5\x2f\xfd"


def scrubbing_of(app: App) -> Scrubbing:
    """What bundles that are made here are scrubbed with."""
    from ktrial.services.bundles import Scrubbing

    identity, salt = app.scrubbing()
    return Scrubbing(identity=identity, salt=salt, benchmarks=app.benchmarks)


def is_bundle(path: Path) -> bool:
    """Whether the file begins as packed by zstd, which no other result is."""
    try:
        if not path.is_file():
            return False  # a pipe would be waited for
        with path.open("rb") as file:
            return file.read(4) == _ZSTD
    except OSError:
        return False


def import_bundle(app: App, path: Path, *, dry_run: bool) -> Brought:
    """Bring a bundle's sessions into the store."""
    from ktrial.services.bundles import bring_back

    if dry_run:
        raise BadInput(f"{path} is a bundle, and --dry-run shows files of other tools", hint="leave --dry-run out")

    return bring_back(app.bundles.open(path), app.store, scrubbing_of(app))

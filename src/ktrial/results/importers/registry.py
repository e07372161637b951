# SPDX-License-Identifier: Apache-2.0
"""All importers, by walking this folder."""

from __future__ import annotations

import importlib
import pkgutil

import ktrial.results.importers
from ktrial.results.foreign import Importer


def all_importers() -> dict[str, Importer]:
    """Every importer by name, sorted."""
    found: dict[str, Importer] = {}
    for info in pkgutil.iter_modules(ktrial.results.importers.__path__):
        if info.name.startswith("_") or info.name == "registry":
            continue
        module = importlib.import_module(f"ktrial.results.importers.{info.name}")
        importer = Importer(
            name=module.NAME,
            what=module.WHAT,
            sniff=module.sniff,
            read=module.read,
            takes_columns=getattr(module, "TAKES_COLUMNS", False),
            takes_frames=getattr(module, "TAKES_FRAMES", False),
        )
        if importer.name in found:
            raise ValueError(f"two importers are called {importer.name}")
        found[importer.name] = importer
    return dict(sorted(found.items()))

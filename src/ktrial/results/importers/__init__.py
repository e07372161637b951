# SPDX-License-Identifier: Apache-2.0
"""Results of other tools: one file for each format, found by walking, and those that other packages bring.

A module holds NAME, WHAT (one sentence), `sniff(head, name)` and `read(data, name, options)`; TAKES_COLUMNS if it has
the options of tables, TAKES_FRAMES if it has those of logs of frames.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from types import ModuleType

from ktrial.kit.plug_ins import IMPORTER, of_others
from ktrial.results.foreign import Importer


def all_importers(leave_out: Callable[[str], None] = lambda _: None) -> dict[str, Importer]:
    """Every importer by name, sorted; `leave_out` is told of those of other packages that cannot be used."""
    found: dict[str, Importer] = {}
    for info in pkgutil.iter_modules(__path__):
        if info.name.startswith("_"):
            continue
        importer = _made(importlib.import_module(f"{__name__}.{info.name}"))
        if importer.name in found:
            raise ValueError(f"two importers are called {importer.name}")
        found[importer.name] = importer
    for name, module in of_others(IMPORTER, leave_out):
        importer = _made(module)
        if importer.name in found:
            leave_out(f"the importer {name} is left out: there is one called {importer.name} already")
        else:
            found[importer.name] = importer
    return dict(sorted(found.items()))


def _made(module: ModuleType) -> Importer:
    return Importer(
        name=module.NAME,
        what=module.WHAT,
        sniff=module.sniff,
        read=module.read,
        takes_columns=getattr(module, "TAKES_COLUMNS", False),
        takes_frames=getattr(module, "TAKES_FRAMES", False),
    )

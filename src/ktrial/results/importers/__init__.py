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

import msgspec

from ktrial.kit.errors import KtrialError
from ktrial.kit.plug_ins import IMPORTER, guarded, of_others
from ktrial.results.foreign import Importer


def all_importers(warn: Callable[[str], None] = lambda _: None) -> dict[str, Importer]:
    """Every importer by name, sorted; `warn` gets a sentence for each one of another package that cannot be used."""
    found: dict[str, Importer] = {}
    for info in pkgutil.iter_modules(__path__):
        if info.name.startswith("_"):
            continue
        importer = _make_importer(importlib.import_module(f"{__name__}.{info.name}"))
        if importer.name in found:
            raise ValueError(f"two importers are called {importer.name}")
        found[importer.name] = importer
    for name, module in of_others(IMPORTER, warn):
        importer = _guarded(_make_importer(module), f"the importer {name}", warn)
        if importer.name in found:
            warn(f"the importer {name} is left out: there is one called {importer.name} already")
        else:
            found[importer.name] = importer
    return dict(sorted(found.items()))


def _make_importer(module: ModuleType) -> Importer:
    return Importer(
        name=module.NAME,
        what=module.WHAT,
        sniff=module.sniff,
        read=module.read,
        takes_columns=getattr(module, "TAKES_COLUMNS", False),
        takes_frames=getattr(module, "TAKES_FRAMES", False),
    )


def _guarded(importer: Importer, what: str, warn: Callable[[str], None]) -> Importer:
    """Return the same; if it fails at a look at a file, it does not know the file, and others may read it."""
    look = guarded(importer.sniff, what)

    def sniff(head: bytes, name: str) -> bool:
        try:
            return bool(look(head, name))
        except KtrialError as error:
            warn(error.message)
            return False

    return msgspec.structs.replace(importer, sniff=sniff, read=guarded(importer.read, what))

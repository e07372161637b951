# SPDX-License-Identifier: Apache-2.0
"""Importers of other tools' results: each format is a module of this folder or a plug-in of another package.

A module defines NAME, WHAT (one sentence), `sniff(head, name)` and `read(data, name, options)`; TAKES_COLUMNS if it
accepts the options for tables, TAKES_FRAMES if it accepts the options for frame logs.
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
    """Return all importers, sorted by name; call `warn` for each plug-in that cannot be used."""
    importers: dict[str, Importer] = {}
    for info in pkgutil.iter_modules(__path__):
        if info.name.startswith("_"):
            continue
        importer = _make_importer(importlib.import_module(f"{__name__}.{info.name}"))
        if importer.name in importers:
            raise ValueError(f"two importers are called {importer.name}")
        importers[importer.name] = importer
    for name, module in of_others(IMPORTER, warn):
        importer = _guarded(_make_importer(module), f"the importer {name}", warn)
        if importer.name in importers:
            warn(f"skipped the importer {name}: {importer.name} already exists")
        else:
            importers[importer.name] = importer
    return dict(sorted(importers.items()))


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
    """Return a plug-in's importer that warns if `sniff` fails, and then does not recognise the file."""
    look = guarded(importer.sniff, what)

    def sniff(head: bytes, name: str) -> bool:
        try:
            return bool(look(head, name))
        except KtrialError as error:
            warn(error.message)
            return False

    return msgspec.structs.replace(importer, sniff=sniff, read=guarded(importer.read, what))

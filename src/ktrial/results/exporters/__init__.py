# SPDX-License-Identifier: Apache-2.0
"""Exporters of results: each format is a module of this folder or a plug-in of another package.

A module has the name of its format and defines NAME, WHAT (one sentence) and `write(sessions) -> Exported`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ktrial.kit.plug_ins import EXPORTER, guarded, of_others

if TYPE_CHECKING:
    from ktrial.results.model import Exported, SessionRuns


def run_exporters(
    warn: Callable[[str], None] = lambda _: None,
) -> dict[str, tuple[str, Callable[[Sequence[SessionRuns]], Exported]]]:
    """Return the description and the writer of each format; call `warn` for each plug-in that cannot be used."""
    own = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    exporters = {exporter.NAME: (exporter.WHAT, exporter.write) for exporter in own}
    for name, exporter in of_others(EXPORTER, warn):
        if exporter.NAME in exporters:
            warn(f"skipped the exporter {name}: {exporter.NAME} already exists")
        else:
            exporters[exporter.NAME] = exporter.WHAT, guarded(exporter.write, f"the exporter {name}")
    return exporters


def run_formats() -> tuple[str, ...]:
    """Return the names of ktrial's own formats without loading them."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))

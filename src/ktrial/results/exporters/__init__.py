# SPDX-License-Identifier: Apache-2.0
"""Results in other tools' formats: one file for each, found by walking, and those that other packages bring.

The module of a format is called as it, and holds NAME, WHAT (one sentence) and `write(sessions) -> Exported`.
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
    """Format -> what it is, and its writer; `warn` gets a sentence for each of another package that cannot be used."""
    own = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    found = {exporter.NAME: (exporter.WHAT, exporter.write) for exporter in own}
    for name, exporter in of_others(EXPORTER, warn):
        if exporter.NAME in found:
            warn(f"the exporter {name} is left out: there is one called {exporter.NAME} already")
        else:
            found[exporter.NAME] = exporter.WHAT, guarded(exporter.write, f"the exporter {name}")
    return found


def run_formats() -> tuple[str, ...]:
    """Return names of ktrial's own formats, without loading them."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))

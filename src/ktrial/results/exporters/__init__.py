# SPDX-License-Identifier: Apache-2.0
"""Results in other tools' formats: one file for each, found by walking.

The module of a format is called as it, and holds NAME, WHAT (one sentence) and `write(sessions) -> Exported`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrial.results.model import Exported, SessionRuns


def run_exporters() -> dict[str, tuple[str, Callable[[Sequence[SessionRuns]], Exported]]]:
    """Format -> what it is, and its writer."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        exporter = importlib.import_module(f"{__name__}.{module.name}")
        found[exporter.NAME] = (exporter.WHAT, exporter.write)
    return found


def run_formats() -> tuple[str, ...]:
    """Names of all formats, without loading them."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))

# SPDX-License-Identifier: Apache-2.0
"""Results in other tools' formats: one file for each, found by walking.

A module `runs_<format>` holds NAME, WHAT (one sentence) and `write(sessions) -> Exported`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrial.results.model import Exported, SessionRuns

_PREFIX = "runs_"


def run_exporters() -> dict[str, tuple[str, Callable[[Sequence[SessionRuns]], Exported]]]:
    """Format -> what it is, and its writer."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith(_PREFIX):
            exporter = importlib.import_module(f"{__name__}.{module.name}")
            found[exporter.NAME] = (exporter.WHAT, exporter.write)
    return found


def run_formats() -> tuple[str, ...]:
    """Names of all formats, without loading them."""
    names = (module.name for module in pkgutil.iter_modules(__path__))
    return tuple(sorted(name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX)))

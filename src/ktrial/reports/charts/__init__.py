# SPDX-License-Identifier: Apache-2.0
"""Charts of a comparison: each kind is a module of this folder or a plug-in of another package.

A module defines PLACE, its place in the order of charts, and `of_comparison(comparison, style)` or
`of_outcome(comparison, outcome, style)`. Each returns the charts that the data allow, often none. A chart is named
after its module, with an optional suffix after a hyphen.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Container, Iterable
from functools import cache
from types import ModuleType

from ktrial.judge.model.comparison import Comparison, OutcomeComparison
from ktrial.kit.errors import KtrialError
from ktrial.kit.plug_ins import CHART, guarded, of_others
from ktrial.reports.charts.drawing import Chart, Style

#: Reasons why charts of other packages could not be drawn, without repetition.
_FAILED: dict[str, None] = {}


@cache
def _of_others() -> tuple[ModuleType, ...]:
    return tuple(module for _, module in of_others(CHART, _FAILED.setdefault))


def left_out() -> tuple[str, ...]:
    """Return a sentence for each plug-in chart that has failed so far."""
    _of_others()
    return tuple(_FAILED)


def _modules(function: str) -> list[ModuleType]:
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    modules += _of_others()
    return sorted((one for one in modules if hasattr(one, function)), key=lambda one: int(one.PLACE))


def comparison_charts(
    comparison: Comparison, style: Style, only: Container[str] | None = None, without: Container[str] = ()
) -> tuple[Chart, ...]:
    """Return the charts that show all outcomes at once: of all modules, or as `only` and `without` restrict them."""
    kinds = [(module.__name__.rpartition(".")[2], module) for module in _modules("of_comparison")]
    chosen = [module for kind, module in kinds if (only is None or kind in only) and kind not in without]
    return tuple(chart for module in chosen for chart in _draw(module, "of_comparison", comparison, style))


def outcome_charts(comparison: Comparison, outcome: OutcomeComparison, style: Style) -> tuple[Chart, ...]:
    modules = _modules("of_outcome")
    return tuple(chart for module in modules for chart in _draw(module, "of_outcome", comparison, outcome, style))


def _draw(module: ModuleType, function: str, *arguments: object) -> Iterable[Chart]:
    """Return the charts of a module; none if a plug-in's module fails."""
    make: Callable[..., Iterable[Chart]] = getattr(module, function)
    if module.__name__.startswith(f"{__name__}."):
        return make(*arguments)
    try:
        return guarded(lambda: tuple(make(*arguments)), f"the chart {module.__name__}")()
    except KtrialError as error:
        _FAILED.setdefault(error.message)
        return ()

# SPDX-License-Identifier: Apache-2.0
"""Charts of a comparison: one file for each kind, found by walking, and those that other packages bring.

A module holds PLACE, its place in the order of charts, and either `of_comparison(comparison, style)` or
`of_outcome(comparison, outcome, style)`; both return the charts that these data allow, often none. The name of a chart
is that of its module, or begins with it and a hyphen.
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

#: Why charts of other packages could not be drawn, each once.
_FAILED: dict[str, None] = {}


@cache
def _of_others() -> tuple[ModuleType, ...]:
    return tuple(module for _, module in of_others(CHART, _FAILED.setdefault))


def left_out() -> tuple[str, ...]:
    """Return a sentence for each chart of another package that could not be drawn so far."""
    _of_others()
    return tuple(_FAILED)


def _modules(function: str) -> list[ModuleType]:
    found = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    found += _of_others()
    return sorted((one for one in found if hasattr(one, function)), key=lambda one: int(one.PLACE))


def comparison_charts(
    comparison: Comparison, style: Style, only: Container[str] | None = None, without: Container[str] = ()
) -> tuple[Chart, ...]:
    """Return the charts that show all outcomes at once; `only` those of some modules, or `without` them."""
    kinds = [(module.__name__.rpartition(".")[2], module) for module in _modules("of_comparison")]
    wanted = [module for kind, module in kinds if (only is None or kind in only) and kind not in without]
    return _all(_draw(module, "of_comparison", comparison, style) for module in wanted)


def outcome_charts(comparison: Comparison, outcome: OutcomeComparison, style: Style) -> tuple[Chart, ...]:
    return _all(_draw(module, "of_outcome", comparison, outcome, style) for module in _modules("of_outcome"))


def _draw(module: ModuleType, function: str, *arguments: object) -> Iterable[Chart]:
    """Return the charts of a module; one of another package that fails has none."""
    make: Callable[..., Iterable[Chart]] = getattr(module, function)
    if module.__name__.startswith(f"{__name__}."):
        return make(*arguments)
    try:
        return guarded(lambda: tuple(make(*arguments)), f"the chart {module.__name__}")()
    except KtrialError as error:
        _FAILED.setdefault(error.message)
        return ()


def _all(made: Iterable[Iterable[Chart]]) -> tuple[Chart, ...]:
    return tuple(chart for charts in made for chart in charts)

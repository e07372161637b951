# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of ktrial, one folder per tool, and those of other packages.

Each folder is a package whose module `adapter` defines BENCHMARK, or several in BENCHMARKS.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from types import ModuleType

from ktrial.bench.benchmark import Benchmark
from ktrial.kit.plug_ins import BENCHMARK, of_others

_MEMBERS = tuple(name for name in vars(Benchmark) if not name.startswith("_"))


def tools() -> tuple[str, ...]:
    """Return the names of the folders with an adapter, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))


def all_benchmarks(warn: Callable[[str], None] = lambda _: None) -> dict[str, Benchmark]:
    """Return all benchmarks by name, in order of folders; `warn` gets a sentence for each skipped benchmark."""
    found: dict[str, Benchmark] = {}
    for tool in tools():
        for benchmark in _of(importlib.import_module(f"{__name__}.{tool}.adapter")):
            if benchmark.name in found:
                raise ValueError(f"two benchmarks are named {benchmark.name}")
            found[benchmark.name] = benchmark
    for name, adapter in of_others(BENCHMARK, warn):
        for benchmark in _of(adapter):
            lacking = [member for member in _MEMBERS if not hasattr(benchmark, member)]
            if lacking:
                warn(f"skipped benchmark {name}: it has no `{lacking[0]}`")
            elif benchmark.name in found:
                warn(f"skipped benchmark {name}: {benchmark.name} already exists")
            else:
                found[benchmark.name] = benchmark
    return found


def _of(adapter: ModuleType) -> tuple[Benchmark, ...]:
    several = getattr(adapter, "BENCHMARKS", None)
    return (adapter.BENCHMARK,) if several is None else tuple(several)

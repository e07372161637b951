# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: one folder each, found by walking.

Each folder is a package (it has an `__init__.py`) whose module `adapter` holds BENCHMARK, or several in BENCHMARKS.
"""

from __future__ import annotations

import importlib
import pkgutil

from ktrial.bench.benchmark import Benchmark


def tools() -> tuple[str, ...]:
    """Names of the folders that hold an adapter, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))


def all_benchmarks() -> dict[str, Benchmark]:
    """Every benchmark by name, in the order of the folders."""
    found: dict[str, Benchmark] = {}
    for tool in tools():
        adapter = importlib.import_module(f"{__name__}.{tool}.adapter")
        several = getattr(adapter, "BENCHMARKS", None)
        for benchmark in (adapter.BENCHMARK,) if several is None else several:
            if benchmark.name in found:
                raise ValueError(f"two benchmarks are called {benchmark.name}")
            found[benchmark.name] = benchmark
    return found

# SPDX-License-Identifier: Apache-2.0
"""`perf/parse` times every reader that a benchmark uses."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import ktrial.benchmarks
from perf.parse import INPUTS

BENCHMARKS = Path(ktrial.benchmarks.__file__).parent


def readers() -> set[tuple[str, str]]:
    """(module, name) of every `read_…` that a module below `benchmarks` imports from `formats`."""
    found = set()
    for path in BENCHMARKS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ktrial.formats."):
                names = [alias.name for alias in node.names if alias.name.startswith("read_")]
                found |= {(str(node.module), name) for name in names}
    return found


def test_every_reader_of_a_benchmark_is_timed() -> None:
    timed = [reader for reader, _, _ in INPUTS.values()]
    assert len(readers()) >= 13
    for module, name in readers():
        assert getattr(importlib.import_module(module), name) in timed, f"{module}.{name} is missing in perf/parse.py"


@pytest.mark.parametrize("name", INPUTS)
def test_its_inputs_are_long_and_can_be_read(name: str) -> None:
    reader, make, _ = INPUTS[name]
    data = make(100_000)
    assert len(data) > 50_000
    one_source = reader.__code__.co_argcount > 1
    assert reader(data, "input") if one_source else reader(data)

# SPDX-License-Identifier: Apache-2.0
"""`perf/parse` must time every reader that a benchmark uses; measurements must check their arguments."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import ktrial.bench.adapters
import perf
from perf.arguments import argument, how_many
from perf.parse import INPUTS

BENCHMARKS = Path(ktrial.bench.adapters.__file__).parent
PERF = Path(perf.__file__).parent


def readers() -> set[tuple[str, str]]:
    """Return (module, name) of every `read_…` of a tool's output that an adapter imports."""
    found = set()
    for path in BENCHMARKS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and not (node.module or "").endswith(".watched"):
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


@pytest.mark.parametrize("words", [["--help"], ["many"], ["0"], ["3", "4"]])
def test_a_count_that_cannot_be_read_is_told_with_a_usage_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        argument("ROUNDS", 20, how_many, words)
    told = capsys.readouterr()
    assert (told.out + told.err).startswith("usage: python -m perf.")
    assert (ended.value.code == 0) == (words == ["--help"])


@pytest.mark.parametrize("words, found", [([], 20), (["7"], 7)])
def test_a_count_is_read(words: list[str], found: int) -> None:
    assert argument("ROUNDS", 20, how_many, words) == found


def test_no_measurement_reads_its_argument_by_itself() -> None:
    own = re.compile(r"^[^\"\n]*\b(?:int|float)\((?:sys\.)?arg", re.MULTILINE)
    here = [path for path in PERF.glob("*.py") if path.name != "sampler.py"]
    assert len(here) > 10
    assert [path.name for path in here if own.search(path.read_text(encoding="utf-8"))] == []

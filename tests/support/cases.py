# SPDX-License-Identifier: Apache-2.0
"""The golden cases of the benchmarks: folders `benchmarks/<tool>/cases/<version>-<what>/`."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import ktrial.bench.adapters
from ktrial.bench.benchmark import Benchmark, RawOutput

FOLDER = Path(ktrial.bench.adapters.__file__).parent
CASES = sorted(path for path in FOLDER.glob("*/cases/*") if path.is_dir())


class Expected(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The expected result. `error` is a part of the message; without it, measurements and notes must be exactly these.

    `used` are the resources of the run, for cases whose measurements come from them.
    """

    benchmark: str
    parameters: dict[str, Any]
    exit_status: int
    measurements: dict[str, float] | None = None
    tool_version: str | None = None
    notes: list[str] = []
    error: str | None = None
    used: dict[str, int] = {}


@cache
def expected(case: Path) -> Expected:
    return msgspec.json.decode((case / "expected.json").read_bytes(), type=Expected)


@cache
def raw_output(case: Path) -> RawOutput:
    files = case / "files"
    wanted = expected(case)
    raw = RawOutput(
        stdout=(case / "stdout").read_bytes(),
        stderr=(case / "stderr").read_bytes(),
        files={str(path.relative_to(files)): path.read_bytes() for path in files.rglob("*") if path.is_file()},
        exit_status=wanted.exit_status,
    )
    return msgspec.structs.replace(raw, **wanted.used)


def tool_of(case: Path) -> str:
    return case.parent.parent.name


def name(case: Path) -> str:
    return f"{tool_of(case)}/{case.name}"


@cache
def adapters() -> dict[str, tuple[Benchmark, ...]]:
    """Return the benchmarks of each folder whose tool is a program of another project.

    Benchmarks that read the kernel's counters are excluded: no machine used for recordings has such counters.
    """
    found = {}
    for tool in (tool for tool in ktrial.bench.adapters.tools() if not tool.startswith("agent_")):
        adapter = importlib.import_module(f"ktrial.bench.adapters.{tool}.adapter")
        benchmarks = tuple(getattr(adapter, "BENCHMARKS", ())) or (adapter.BENCHMARK,)
        needs = [need for benchmark in benchmarks for need in benchmark.needs]
        if needs and not any(need.startswith("/sys/") for need in needs):
            found[tool] = benchmarks
    return found

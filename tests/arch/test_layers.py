# SPDX-License-Identifier: Apache-2.0
"""Import rules of the tree, held by walking the sources."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("layers")  # the trees of all sources are read once

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "ktrial"
WORLD = {"os", "subprocess", "time", "sqlite3", "socket", "pathlib", "random", "shutil", "threading", "datetime", "io"}
PURE = ("domain", "stats", "formats", "benchmarks", "imports", "exporters")
#: layer -> layers of ktrial that it may import
MAY_IMPORT = {
    "domain": {"domain"},
    "formats": {"formats", "domain"},
    "benchmarks": {"benchmarks", "domain", "formats"},
    "catalog": {"catalog", "domain"},
    "host": {"host", "domain"},
    "kernels": {"kernels", "domain", "formats"},
    "imports": {"imports", "domain", "formats"},
    "store": {"store", "domain"},
    "exporters": {"exporters", "domain"},
    "report": {"report", "domain", "catalog"},
    "stats": {"stats", "domain"},
    "services": {"services", "domain", "catalog", "formats", "stats"},
    "cli": {
        *(
            "cli",
            "domain",
            "catalog",
            "host",
            "kernels",
            "store",
            "imports",
            "services",
            "report",
            "formats",
            "benchmarks",
        ),
        "exporters",
    },
}


def modules(layer: str) -> list[Path]:
    return sorted((SOURCE / layer).rglob("*.py"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def imports(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return frozenset(found)


def test_every_folder_has_a_rule() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert folders == set(MAY_IMPORT)


@pytest.mark.parametrize("layer", sorted(MAY_IMPORT))
def test_layers_import_downwards_only(layer: str) -> None:
    for path in modules(layer):
        for name in imports(path):
            if name.startswith("ktrial.") and name.count(".") >= 1:
                other = name.split(".")[1]
                if other in MAY_IMPORT:
                    assert other in MAY_IMPORT[layer], f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("layer", PURE)
def test_pure_layers_touch_nothing(layer: str) -> None:
    for path in modules(layer):
        touched = {name.split(".")[0] for name in imports(path)} & WORLD
        assert not touched, f"{path.relative_to(ROOT)} imports {touched}"


def test_only_wiring_builds_adapters() -> None:
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] == "host" or path.name.endswith("wiring.py"):
            continue
        names = imports(path)
        built = {"ktrial.agent.transport.ProcessTransport", "ktrial.agent.root.root_transport"} & names
        assert not built, f"{path.relative_to(ROOT)} builds an adapter: {built}"


def test_the_clock_that_may_step_is_for_people_only() -> None:
    """Durations and orders come from monotonic clocks; who looks at the other one is listed here."""
    wall = re.compile(
        r"\btime\.(?:time|time_ns)\(|\b(?:from|import) datetime\b|\bSystemTime::|CLOCK_REALTIME|ClockId::Realtime"
    )
    sources = [*SOURCE.rglob("*.py"), *(ROOT / "agent" / "src").rglob("*.rs")]
    found = {str(path.relative_to(ROOT)) for path in sources if wall.search(path.read_text(encoding="utf-8"))}
    # The stamp of a run record, the moments that the journal names, steps in a recording.
    readers = {"agent/src/context.rs", "agent/src/watch/group.rs"}
    assert found == {"src/ktrial/agent/clock.py", *readers}


def test_verbs_are_short() -> None:
    for path in sorted([*(SOURCE / "cli" / "verbs").glob("*.py"), *(SOURCE / "cli" / "kernel").rglob("*.py")]):
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= 150, f"{path.name} has {lines} lines: arguments, one service call, rendering, exit status"


def test_modules_and_functions_are_small() -> None:
    for path in SOURCE.rglob("*.py"):
        lines = path.read_bytes().count(b"\n")
        assert lines <= 500, f"{path.relative_to(ROOT)} is longer than 500 lines"
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                assert length <= 60, f"{path.relative_to(ROOT)}:{node.lineno} {node.name} has {length} lines"


def test_agent_modules_are_small() -> None:
    for path in sorted((ROOT / "agent" / "src").rglob("*.rs")):
        code = path.read_text(encoding="utf-8").partition("#[cfg(test)]")[0]
        assert code.count("\n") <= 500, f"{path.relative_to(ROOT)} is longer than 500 lines"


def test_every_source_file_names_its_licence() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in listed:
        if (
            name.endswith((".py", ".rs", ".sh", ".toml"))
            and (ROOT / name).exists()
            and not name.startswith("tests/golden")
        ):
            head = (ROOT / name).read_text(encoding="utf-8")[:400]
            assert "SPDX-License-Identifier: Apache-2.0" in head, name


def test_help_and_version_load_nothing_heavy() -> None:
    heavy = "{'numpy', 'scipy', 'tomllib', 'msgspec', 'subprocess'}"
    for argument in ("--help", "--version"):
        code = (
            "import sys, io; from ktrial.cli.main import main;"
            f"main([{argument!r}], io.StringIO(), sys.stderr);"
            f"print(*sorted(set(sys.modules) & {heavy}))"
        )
        loaded = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SOURCE.parent
        )
        assert not loaded.stdout.split(), f"{argument} loads {loaded.stdout}"


def test_explaining_a_knob_loads_neither_plans_nor_trials() -> None:
    """What `ktrial explain` loads, with trials of the knob in the ledger: perf/startup times it."""
    code = (
        "import sys, importlib\n"
        "from ktrial.cli.main import cli, _load_msgspec\n"
        "_load_msgspec()\n"
        "for name in ('cli.verbs.explain', 'cli.ledgering', 'services.explain', 'services.ledger_now', 'report.knob',"
        " 'report.ledger', 'catalog.compiled', 'host.agent', 'host.ledger_file'):\n"
        "    importlib.import_module(f'ktrial.{name}')\n"
        "print(*sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SOURCE.parent)
    loaded = set(told.stdout.split())
    assert "ktrial.studies.ledger.ledger_now" in loaded
    assert not loaded & {
        *(
            "numpy",
            "scipy",
            "tomllib",
            "typing_extensions",
            "base64",
            "ktrial.tuning.catalog.loader",
            "ktrial.tuning.plans.plan",
        ),
        *("ktrial.bench.benchmark", "ktrial.judge.model.log", "ktrial.bench.run.ports", "ktrial.tuning.plans.resolve"),
    }

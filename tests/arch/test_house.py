# SPDX-License-Identifier: Apache-2.0
"""Checks the import rules of the tree in all sources."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("house")  # each worker parses all sources only once

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "ktrial"
WORLD = {"os", "subprocess", "time", "sqlite3", "socket", "pathlib", "random", "shutil", "threading", "datetime", "io"}
#: A package imports itself and the packages before it.
ORDER = (
    *("kit", "machine", "agent", "judge", "tuning", "recordings", "bench", "results", "compare", "reports"),
    *("kernels", "guests", "trial", "watch", "live", "studies", "evidence", "fleet", "cli"),
)
#: Ansible loads these plugins under another name, and prescribes the names of their classes.
COLLECTION = SOURCE / "fleet" / "ansible_collections"
#: Modules that only compute and touch nothing: readers, text writers, models, and the judge.
PURE = re.compile(
    r"judge/|reports/|(?:kit|tuning/origin)/formats/|recordings/(?!atop_program)|results/(?:importers|exporters)/|tuning/exporters/"
    r"|bench/adapters/|.*(?:^|/|_)(?:text|(?<!catalog/)model|output)\.py$"
)


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
            assert node.level == 0 or path.is_relative_to(COLLECTION), f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return frozenset(found)


def package_of(name: str) -> str:
    return name.split(".")[1] if name.startswith("ktrial.") else ""


def test_no_modules_import_each_other_in_a_circle() -> None:
    paths = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): path for path in SOURCE.rglob("*.py")}
    graph = {name: (imports(path) - {name}) & paths.keys() for name, path in paths.items()}
    assert len(tuple(TopologicalSorter(graph).static_order())) == len(paths)


def test_no_modules_of_the_agent_use_each_other_in_a_circle() -> None:
    source = ROOT / "agent" / "src"
    paths = {"::".join(path.relative_to(source).with_suffix("").parts): path for path in source.rglob("*.rs")}
    graph = {name: _used_by(path) & paths.keys() - {name} for name, path in paths.items() if name != "lib"}
    assert graph["transact::apply"] >= {"transact::lease", "transact::undo"}
    assert len(tuple(TopologicalSorter(graph).static_order())) == len(paths) - 1


def _used_by(path: Path) -> set[str]:
    """Return each module that is named by its full path, outside tests."""
    text = path.read_text(encoding="utf-8").partition("#[cfg(test)]\nmod tests")[0]
    found: set[str] = set()
    for used in re.findall(r"\bcrate((?:::[a-z_]+)+)", text):
        parts = used.split("::")[1:]
        found.update("::".join(parts[:end]) for end in range(1, len(parts) + 1))
    return found


def test_every_package_has_its_place_in_the_order() -> None:
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == set(ORDER)


def test_packages_import_earlier_ones_only() -> None:
    for path in SOURCE.rglob("*.py"):
        inside = path.relative_to(SOURCE)
        if len(inside.parts) > 1:
            own = ORDER.index(inside.parts[0])
            later = [one for one in imports(path) if package_of(one) in ORDER[own + 1 :]]
            assert not later, f"{inside} imports {later}"


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports inside functions, and imports for types only, count too."""
    modules = {
        ".".join(("ktrial", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in SOURCE.rglob("*.py")
    }
    waiting = {name: {one for one in imports(path) if one in modules} for name, path in modules.items()}
    while free := {name for name, wanted in waiting.items() if not wanted & waiting.keys()}:
        waiting = {name: wanted for name, wanted in waiting.items() if name not in free}
    assert sorted(waiting) == []


def test_only_the_command_line_knows_the_app() -> None:
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] != "cli":
            assert "ktrial.cli.app.App" not in imports(path), path.relative_to(SOURCE)


def test_the_collection_starts_ktrial_and_imports_nothing_of_it() -> None:
    for path in COLLECTION.rglob("*.py"):
        assert not {one for one in imports(path) if package_of(one)}, path.relative_to(SOURCE)


def test_pure_modules_touch_nothing() -> None:
    found = {}
    for path in SOURCE.rglob("*.py"):
        name = str(path.relative_to(SOURCE))
        touched = {one.split(".")[0] for one in imports(path)} & WORLD
        if PURE.match(name) and touched - ({"time"} if name.endswith("text.py") else set()):  # texts show times of day
            found[name] = touched
    assert found == {}


def test_only_the_command_line_builds_adapters() -> None:
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] in {"agent", "cli"}:
            continue
        built = {"ktrial.agent.transport.ProcessTransport", "ktrial.agent.root.root_transport"} & imports(path)
        assert not built, f"{path.relative_to(ROOT)} builds an adapter: {built}"


def test_the_clock_that_may_step_is_for_people_only() -> None:
    """Durations and orders come from monotonic clocks. Modules that read the other clock are listed here."""
    wall = re.compile(
        r"\btime\.(?:time|time_ns)\(|\b(?:from|import) datetime\b|\bSystemTime::|CLOCK_REALTIME|ClockId::Realtime"
    )
    sources = [*SOURCE.rglob("*.py"), *(ROOT / "agent" / "src").rglob("*.rs")]
    found = {str(path.relative_to(ROOT)) for path in sources if wall.search(path.read_text(encoding="utf-8"))}
    # They read the time of a run record, the times in the journal, and clock steps in a recording.
    readers = {"agent/src/transact/context.rs", "agent/src/load/clock.rs"}
    assert found == {"src/ktrial/agent/clock.py", *readers}


def test_a_class_has_its_name_alone() -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        if path.parent == COLLECTION / "ktrial/tuning/plugins/action":
            continue  # each class is an ActionModule
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


#: Maximum lines of a module or a file of the agent (without its tests), of a verb, and of a function.
MOST, MOST_OF_A_VERB, MOST_OF_A_FUNCTION = 500, 170, 60
#: Maximum lines of a module that cannot be split, which LONGER lists with the reason.
MOST_OF_ONE_THING = 600
LONGER: dict[str, str] = {
    "agent/src/transact/undo.rs": "one type with the kinds of old values that it restores",
}


def lines_by_place() -> dict[str, tuple[int, int]]:
    """Return the lines and the maximum for each file by path, and each function by path and name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        place = str(path.relative_to(ROOT))
        is_verb = re.match(r"src/ktrial/cli/(?:verbs|kernel)/", place)
        found[place] = path.read_bytes().count(b"\n"), MOST_OF_A_VERB if is_verb else MOST
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                found[f"{place}:{node.lineno} {node.name}"] = length, MOST_OF_A_FUNCTION
    for path in (ROOT / "agent" / "src").rglob("*.rs"):
        code = path.read_text(encoding="utf-8").partition("#[cfg(test)]")[0]
        found[str(path.relative_to(ROOT))] = code.count("\n"), MOST
    return found


def test_files_and_functions_can_be_read_without_scrolling_for_long() -> None:
    long = {place: lines for place, (lines, most) in lines_by_place().items() if lines > most}
    assert {place: lines for place, lines in long.items() if place not in LONGER} == {}
    assert {place: lines for place, lines in long.items() if lines > MOST_OF_ONE_THING} == {}
    assert set(LONGER) <= set(long), "what is short again needs no reason"
    assert all(len(why.split()) >= 5 for why in LONGER.values())


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
    """Check what `ktrial explain` loads if the ledger has trials of the knob; perf/startup measures its time."""
    code = (
        "import sys, importlib\n"
        "from ktrial.kit.startup import load_msgspec\n"
        "load_msgspec()\nfrom ktrial.cli.main import cli\n"
        "for name in ('cli.verbs.explain', 'cli.shared.ledger', 'tuning.knobs.explain', 'tuning.knobs.knob_text',"
        " 'studies.ledger.ledger_now', 'studies.ledger.text', 'tuning.catalog.cache', 'agent.session',"
        " 'studies.ledger.file', 'cli.shared.others', 'studies.ledger.others_text'):\n"
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


def test_the_model_of_a_diagnosis_loads_no_numpy() -> None:
    """Only the computation of a diagnosis needs numpy."""
    code = (
        "import sys\nfrom ktrial.cli.verbs import diagnose\n"
        "from ktrial.watch.diagnosis import model, symptoms, tables\nprint(*sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SOURCE.parent)
    loaded = set(told.stdout.split())
    assert "ktrial.watch.diagnosis.tables" in loaded
    assert not loaded & {"numpy", "scipy"}

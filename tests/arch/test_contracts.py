# SPDX-License-Identifier: Apache-2.0
"""Each kind of plug-in fulfils its contract, and each recipe of CONTRIBUTING works: one more file is enough."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ktrial.kit.plug_ins import BENCHMARK, CHART, EXPORTER, IMPORTER, TARGET, Contract, faults

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "ktrial.results.importers": IMPORTER,
    "ktrial.results.exporters": EXPORTER,
    "ktrial.tuning.exporters": TARGET,
    "ktrial.reports.charts": CHART,
    "ktrial.bench.adapters": BENCHMARK,
}


def modules() -> Iterator[tuple[str, Contract]]:
    for package, contract in FOLDERS.items():
        for found in pkgutil.iter_modules(importlib.import_module(package).__path__):
            name = f"{package}.{found.name}"
            # A benchmark is a folder. The folder of charts also has modules that charts share.
            if contract is BENCHMARK and found.ispkg:
                yield f"{name}.adapter", contract
            elif contract is CHART and not hasattr(importlib.import_module(name), "PLACE"):
                continue
            elif contract is not BENCHMARK and not found.name.startswith("_"):
                yield name, contract


ALL = list(modules())


@pytest.mark.parametrize("name, contract", ALL, ids=[name for name, _ in ALL])
def test_what_ktrial_brings_keeps_its_contract(name: str, contract: Contract) -> None:
    assert faults(importlib.import_module(name), contract) == ()


GOOD: dict[str, object] = {"NAME": "a", "WHAT": "b", "sniff": max, "read": max}


@pytest.mark.parametrize(
    "given, told",
    [
        ({}, ("it has no `NAME`", "it has no `WHAT`", "it has no `sniff`", "it has no `read`")),
        ({**GOOD, "NAME": 1, "sniff": 2}, ("`NAME` is not text", "`sniff` is not a function")),
        ({**GOOD, "read": len}, ("`read` cannot be called with 3 arguments",)),
        ({**GOOD, "TAKES_FRAMES": 2}, ("`TAKES_FRAMES` is not True or False",)),
        (GOOD, ()),
    ],
)
def test_what_is_missing_is_said(given: dict[str, object], told: tuple[str, ...]) -> None:
    found = faults(SimpleNamespace(**given), IMPORTER)
    assert len(found) == len(told)
    assert all(one.startswith(part) for one, part in zip(found, told, strict=True))


def test_one_of_several_is_enough() -> None:
    assert faults(SimpleNamespace(PLACE=1), CHART) == ("it has neither `of_comparison` nor `of_outcome`",)
    assert faults(SimpleNamespace(PLACE=1, of_outcome=lambda a, b, c: ()), CHART) == ()
    assert faults(SimpleNamespace(BENCHMARKS=[]), BENCHMARK) == ("`BENCHMARKS` is not tuple",)


READER = """
NAME = "one-number"
WHAT = "A file that holds one number."


def sniff(head, name):
    return name.endswith(".one")


def read(data, name, options):
    from ktrial.results.foreign import ForeignResults, ForeignRun
    from ktrial.results.model import StoredMeasurement

    found = StoredMeasurement(outcome="time", value=float(data), unit="s", direction="lower", original=data.decode())
    run = ForeignRun(group=options.label or name, benchmark="one", number=1, measurements=(found,))
    return ForeignResults(format=NAME, runs=(run,))
"""
WRITER = """
NAME = "counted"
WHAT = "How many sessions there are."


def write(sessions):
    from ktrial.results.model import Exported

    return Exported(data=b"%d" % len(sessions), left_out=())
"""
TARGET_FILE = """
NAME = "shouted"
WHAT = "The values, in capitals."
FORMS = frozenset({"sysctl"})
NEXT = "read it"


def refusal(setting):
    return None


def write(profile):
    return {"shout": "".join(f"{one.text.upper()}\\n" for one in profile.settings)}
"""
VERB = '''
import click


@click.command(short_help="Say hello.")
@click.pass_obj
def command(app):
    """Say hello."""
    click.echo("hello")
    return 0
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of the sources."""
    return Path(shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "cases")))


def python(code: str, *words: str, path: Path | str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program with these sources."""
    environment = {**os.environ, "PYTHONPATH": str(path)}
    if folder is not None:
        environment["XDG_STATE_HOME"] = str(folder / "state")
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)


def ktrial(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    code = "import sys\nfrom ktrial.cli.main import main\nsys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))"
    return python(code, *words, path=tree, folder=tree.parent)


def test_an_importer_is_one_file(tree: Path) -> None:
    (tree / "ktrial/results/importers/one_number.py").write_text(READER)
    for name, value in (("a", 1.5), ("b", 1.25)):
        (tree.parent / f"{name}.one").write_text(str(value))
    done = ktrial(tree, "compare", "a=a.one", "b=b.one", "--json")
    assert done.returncode == 0, done.stderr
    assert [one["outcome"] for one in json.loads(done.stdout)["outcomes"]] == ["time"]


def test_an_exporter_is_one_file(tree: Path) -> None:
    (tree / "ktrial/results/exporters/counted.py").write_text(WRITER)
    code = "from ktrial.results.exporters import run_exporters; print(run_exporters()['counted'][1]([1, 2]).data)"
    done = python(code, path=tree)
    assert (done.stdout, done.stderr) == ("b'2'\n", "")


def test_a_target_is_one_file(tree: Path) -> None:
    (tree / "ktrial/tuning/exporters/shouted.py").write_text(TARGET_FILE)
    (tree.parent / ".setup").symlink_to(ROOT / ".setup")  # the agent
    assert ktrial(tree, "export", "net.ipv4.tcp_congestion_control=bbr", "--to", "shouted").stdout == "BBR\n"
    assert "shouted" in ktrial(tree, "export", "--list").stdout


def test_a_verb_is_one_file(tree: Path) -> None:
    (tree / "ktrial/cli/verbs/hello.py").write_text(VERB)
    assert ktrial(tree, "hello").stdout == "hello\n"
    assert "hello" in ktrial(tree, "--help").stdout


def test_a_knob_is_one_table(tree: Path) -> None:
    knob = """
[[knob]]
id = "vm.nonsense"
kind = "sysctl"
value = { type = "int", min = 0, max = 9 }
takes_effect = "now"
risk = "safe"
what = "A knob that no kernel has."
up = "More nonsense."
down = "Less of it."
price = "None."
proof = "none: no kernel has it"
"""
    areas = tree / "ktrial/catalog/knobs"
    first = sorted(areas.rglob("*.toml"))[0]
    first.write_text(first.read_text() + knob)
    (tree.parent / ".setup").symlink_to(ROOT / ".setup")  # the agent
    done = ktrial(tree, "explain", "vm.nonsense")
    assert "no kernel has" in done.stdout, done.stderr


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a package installed beside ktrial, with three readers.

    One works, one is incomplete, and one raises an error.
    """
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "other_reader.py").write_text(READER)
    (folder / "other_half.py").write_text("NAME = 'half'\n")
    (folder / "other_broken.py").write_text("import nothing_of_the_kind\n")
    (folder / "other_end.py").write_text("raise SystemExit(7)\n")
    info = folder / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[ktrial.importers]\none = other_reader\nhalf = other_half\nbroken = other_broken\nend = other_end\n"
    )
    return folder


LISTED = "import sys\nfrom ktrial.results.importers import all_importers\nprint('one-number' in all_importers(print))\n"


def test_importers_of_other_packages_are_found_and_broken_ones_named(package: Path) -> None:
    code = LISTED.replace("import sys\n", "import os\nos.geteuid = lambda: 1000\n")
    done = python(code, path=f"{ROOT / 'src'}:{package}")
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "skipped the importer broken of other: ModuleNotFoundError: No module named 'nothing_of_the_kind'",
        "skipped the importer end of other: SystemExit: 7",
        "skipped the importer half of other: it has no `WHAT`; it has no `sniff`; it has no `read`",
        "True",
    ]


def test_a_plug_in_that_fails_when_it_is_used_is_named_and_stops_nothing_else(package: Path) -> None:
    (package / "other_reader.py").write_text(READER.replace('name.endswith(".one")', "1 / 0"))
    code = """
import os
os.geteuid = lambda: 1000
from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import KtrialError
from ktrial.results.importers import all_importers
one = all_importers(lambda told: None if "skipped" in told else print(told))["one-number"]
print(one.sniff(b"", "a.one"))
try:
    one.read(b"x", "a.one", ImportOptions())
except KtrialError as error:
    print(error.message)
"""
    done = python(code, path=f"{ROOT / 'src'}:{package}")
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "the importer one failed: ZeroDivisionError: division by zero",
        "False",
        "the importer one failed: ValueError: could not convert string to float: b'x'",
    ]


def test_a_chart_of_another_package_that_fails_leaves_the_report_whole(package: Path) -> None:
    (package / "other_chart.py").write_text("PLACE = 1\n\n\ndef of_comparison(comparison, style):\n    return 1 / 0\n")
    (package / "other-1.0.dist-info/entry_points.txt").write_text("[ktrial.charts]\nbad = other_chart\n")
    code = """
import os
os.geteuid = lambda: 1000
from ktrial.reports.charts import comparison_charts, left_out
from ktrial.reports.charts.drawing import Style
from tests.support.comparisons import two_arms
print([chart.name for chart in comparison_charts(two_arms(6), Style())], left_out())
"""
    done = python(code, path=f"{ROOT / 'src'}:{ROOT}:{package}")
    assert done.stderr == ""
    assert done.stdout.strip() == (
        "['forest', 'quantiles-1'] ('the chart other_chart failed: ZeroDivisionError: division by zero',)"
    )


def test_root_loads_nothing_of_others(package: Path) -> None:
    code = LISTED.replace("import sys\n", "import os\nos.geteuid = lambda: 0\n")
    done = python(code, path=f"{ROOT / 'src'}:{package}")
    assert (done.stdout, done.stderr) == ("False\n", "")

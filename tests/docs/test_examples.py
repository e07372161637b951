# SPDX-License-Identifier: Apache-2.0
"""Every ```console block of the documentation is run, in order, on the example machine, and must print what it shows.

A line of three dots stands for any lines. `examples` is the folder of the checkout. Commands run through the real
agent on a folder that stands for `/`.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from ktrial.judge.model.words import percent_text, range_text
from tests.support.tree import FakeRoot

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def documents() -> list[str]:
    """Files that hold console blocks."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [str(file.relative_to(ROOT)) for file in files if BLOCK.search(file.read_text(encoding="utf-8"))]


def examples(text: str) -> list[tuple[str, str]]:
    """(command, expected output) of all console blocks."""
    found = []
    for block in BLOCK.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def test_there_are_examples() -> None:
    assert "README.md" in documents()
    assert sum(len(examples((ROOT / name).read_text(encoding="utf-8"))) for name in documents()) >= 8


def test_the_picture_of_the_readme_is_that_of_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    machine = FakeRoot(tmp_path / "root")
    data = str(ROOT / "examples" / "results" / "huge-pages.csv")
    machine.run("compare", data, "--control", "pages-4k", "-o", "found.json")
    machine.run("report", "found.json", "-o", "found.svg")
    assert Path("found.svg").read_bytes() == (ROOT / "docs" / "huge-pages.svg").read_bytes()


def test_the_picture_of_the_watermarks_is_that_of_their_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    data = ROOT / "examples" / "results" / "watermarks.json"
    words = ("--chart", "runs", "--outcome", "watch.allocation-stalls")
    FakeRoot(tmp_path / "root").run("report", str(data), "-o", str(tmp_path / "w.svg"), *words)
    assert (tmp_path / "w.svg").read_bytes() == (ROOT / "docs" / "watermarks.svg").read_bytes()


def test_the_demo_of_the_readme_is_that_of_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes two minutes and root: what is shown was recorded, with the trial that the picture is drawn from."""
    monkeypatch.setenv("HOME", str(tmp_path))
    data = ROOT / "examples" / "results" / "demo.json"
    FakeRoot(tmp_path / "root").run("report", str(data), "-o", str(tmp_path / "demo.svg"))
    assert (tmp_path / "demo.svg").read_bytes() == (ROOT / "docs" / "demo.svg").read_bytes()
    shown = re.search(r"<!-- demo -->\n```text\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    (outcome,) = json.loads(data.read_text(encoding="utf-8"))["outcomes"]
    rows = {line.split()[0]: " ".join(line.split()) for line in shown[1].splitlines() if line.strip()}
    assert len(outcome["contrasts"]) == 4
    for found in outcome["contrasts"]:
        effect = found["effect"]
        change = f"{percent_text(effect['estimate'])} {range_text(effect['low'], effect['high'])} {found['verdict']}"
        assert rows[found["arm"]].endswith(change)


@pytest.mark.parametrize("name", documents())
def test_examples_print_what_the_document_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path / "home")
    machine = FakeRoot(tmp_path / "root")
    for command, expected in examples((ROOT / name).read_text(encoding="utf-8")):
        words = shlex.split(command.partition(" # ")[0])
        words = words[1:] if words[0] == "sudo" else words
        assert words[0] == "./ktrial", f"{name}: {command}"
        ran = machine.run(*words[1:])
        pattern = "".join(
            "(?:.*\n)*?" if line.strip() == "..." else re.escape(line) for line in expected.splitlines(keepends=True)
        )
        assert re.fullmatch(pattern, ran.out + ran.err), f"{name}: $ {command}\n{ran.out}{ran.err}"

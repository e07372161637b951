# SPDX-License-Identifier: Apache-2.0
"""A raw log that the atop of this machine has recorded, read through it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.tree import FakeRoot

SAMPLES = 4


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("atop") / "atop.raw"
    subprocess.run(["atop", "-w", str(file), "1", str(SAMPLES)], check=True, timeout=60)
    return file


def test_a_raw_log_is_a_recording(raw: Path, root: FakeRoot) -> None:
    ran = root.run("diagnose", str(raw), "--json")
    assert ran.status == 0, ran.err
    (found,) = ran.json["recordings"]
    names = {figure["name"] for figure in found["diagnosis"]["figures"]}
    assert found["diagnosis"]["length_s"] == pytest.approx(SAMPLES - 2, abs=1.5)
    assert "vmstat.allocstall" in names or "vmstat.pswpin" in names, names
    lines = root.run("diagnose", str(raw))
    assert "no frames" in lines.out


def test_what_it_printed_is_one_too(raw: Path, root: FakeRoot, tmp_path: Path) -> None:
    printed = tmp_path / "printed.txt"
    with printed.open("wb") as file:
        subprocess.run(["atop", "-r", str(raw), "-P", "ALL"], check=True, stdout=file, timeout=60)
    ran = root.run("diagnose", str(printed), "--json")
    assert ran.status == 0, ran.err


def test_a_raw_log_that_atop_cannot_read(raw: Path, root: FakeRoot, tmp_path: Path) -> None:
    cut = tmp_path / "cut.raw"
    cut.write_bytes(raw.read_bytes()[:100])
    ran = root.run("diagnose", str(cut))
    assert ran.status == 2
    assert "atop cannot read the log" in ran.err


def test_without_atop_the_package_is_named(raw: Path, root: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    ran = root.run("diagnose", str(raw))
    assert ran.status == 2
    assert "install the package atop" in ran.err

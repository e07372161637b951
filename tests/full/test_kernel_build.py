# SPDX-License-Identifier: Apache-2.0
"""Kernels for guests from Debian's sources, by both compilers: built, booted, inspected, packed. Half an hour each."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from ktrial.cli.main import main
from tests.guest.kernels import CACHE
from tests.support.tree import Ran

pytestmark = [pytest.mark.timeout(4 * 3600), pytest.mark.xdist_group("kernel-builds")]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE / "builds"))
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path / "ccache"))


@pytest.fixture(scope="module")
def archive() -> Path:
    """Debian's whole sources, which linux-source-6.12 installs."""
    path = Path("/usr/src/linux-source-6.12.tar.xz")
    assert path.is_file(), "linux-source-6.12 is not installed: ./check --full as root installs it"
    return path


def ktrial(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    return Ran(main(["kernel", *argv], out, err), out.getvalue(), err.getvalue())


def build(*argv: str) -> dict[str, Any]:
    ran = ktrial("build", *argv, "--json")
    assert ran.status == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


@pytest.mark.parametrize("kind", ["gcc", "clang"])
def test_a_kernel_for_guests(kind: str, archive: Path, tmp_path: Path) -> None:
    fragments = ["--fragment", "guest", *(["--fragment", "arashi-t2a"] if kind == "clang" else [])]
    first, second = tmp_path / "first", tmp_path / "second"
    made = build(str(archive), "--config", "tinyconfig", *fragments, "-o", str(first))
    assert kind in made["identity"]["compiler"]
    assert made["flags"]["optimise"] == ("3" if kind == "clang" else "2")
    told = json.loads(ktrial("inspect", str(first), "--json").out)
    assert told["identity"] == made["identity"]
    booted = ktrial("boot", str(first), "--", "uname", "-r")
    assert (booted.status, booted.out.strip()) == (0, made["identity"]["release"])
    again = build(str(archive), "--config", "tinyconfig", *fragments, "-o", str(second))
    assert again["image_sha256"] == made["image_sha256"], "the same sources give the same bytes"
    assert again["cost"]["hits"] > 0.95 * (again["cost"]["hits"] + again["cost"]["misses"])
    assert again["cost"]["cpu_s"] < made["cost"]["cpu_s"] / 4
    variant = build(str(archive), "--config", "tinyconfig", *fragments, "--fragment", "hz-1000", "-o", str(second))
    assert variant["identity"]["hz"] == 1000
    assert variant["cost"]["cpu_s"] < made["cost"]["cpu_s"] / 2
    if kind == "gcc":
        listed = json.loads(ktrial("list", "--json").out)["built"]
        assert [one["folder"] for one in listed] == [str(second), str(first)]


def test_a_package_of_debian(archive: Path, tmp_path: Path) -> None:
    words = ("--config", "tinyconfig", "--fragment", "guest", "--package", "deb", "-o", str(tmp_path / "build"))
    made = build(str(archive), *words)
    image = next(one["path"] for one in made["packages"] if "linux-image" in one["path"])
    told = json.loads(ktrial("inspect", image, "--json").out)
    assert told["identity"]["build_id"] == made["identity"]["build_id"]

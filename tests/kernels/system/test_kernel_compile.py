# SPDX-License-Identifier: Apache-2.0
"""Builds through the real agent, in a tmpfs of their own, of a tree that is built in an instant."""

from __future__ import annotations

import io
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.cli.main import main
from tests.support.kept import records
from tests.support.memory import mounted_tmpfs
from tests.support.source_tree import make_source_tree
from tests.support.tree import Ran

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the tree of this test makes a bzImage")


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tmpfs of 1 MiB as the session's own, and folders of this test's own for the head."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    with mounted_tmpfs(tmp_path / "memory", "1m") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
        yield folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_source_tree(tmp_path / "linux")


def run(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    return Ran(main(list(argv), out, err), out.getvalue(), err.getvalue())


def test_a_build_in_memory_after_one_that_does_not_count(memory: Path, tree: Path, tmp_path: Path) -> None:
    ran = run("bench", "kernel-make", "-n", "2", "-p", f"tree={tree}", "-p", "jobs=3", "-p", "config=tinyconfig")
    assert ran.status == 0, ran.err
    kept = records(tmp_path, "XDG_STATE_HOME")
    assert [record["round"] for record in kept] == [0, 1, 2]
    record = kept[-1]
    assert record["argv"][1:] == ["-s", "-C", str(tree), "O={directory}/build", "-j3", "bzImage"]
    assert [words[-1] for words in record["steps"]] == ["tinyconfig", "olddefconfig"]
    assert record["directory"].startswith(str(memory))
    values = {one["outcome"]: one["value"] for one in record["measurements"]}
    assert values["time"] * 1e9 == pytest.approx(record["resources"]["wall_ns"])
    assert values["user"] * 1e6 == pytest.approx(record["resources"]["user_us"])
    gcc = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    assert record["tool_version"].startswith(f"{gcc}; Linux 6.12.0; config ")
    digest = record["details"]["config_sha256"]
    assert record["raw"]["files/build/.config"]["sha256"] == digest
    assert record["tool_version"].endswith(digest[:12])
    assert list((memory / "ktrial-work").iterdir()) == []
    assert sorted(path.name for path in tree.iterdir()) == ["Makefile", "filling", "main.c"]


def test_another_configuration_is_another_benchmark(memory: Path, tree: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.config"
    own.write_text("CONFIG_own_config=y\n")
    for config in ("tinyconfig", str(own)):
        assert run("bench", "kernel-compile", "-n", "1", "-p", f"tree={tree}", "-p", f"config={config}").status == 0
    kept = records(tmp_path, "XDG_STATE_HOME")
    assert len({record["tool_version"] for record in kept}) == 2
    assert len({record["details"]["config_sha256"] for record in kept}) == 2


@pytest.mark.parametrize(
    "harm, parameters, said",
    [
        (".config", [], "The source tree is not clean, please run 'make mrproper'"),
        (None, ["config=nosuchconfig"], "parameter config: expected tinyconfig, defconfig"),
        (None, ["config=/nowhere/config"], "install, which must run first, ended with status 1"),
        (None, ["tree=/nowhere"], "*** /nowhere: No such file or directory"),
        (None, ["tree=linux"], "parameter tree: expected an absolute path"),
        (None, ["target=vmlinux"], "make succeeded but wrote no image"),
        ("main.c", [], "main.c:1:"),
    ],
)
def test_what_goes_wrong_is_said(memory: Path, tree: Path, harm: str | None, parameters: list[str], said: str) -> None:
    if harm is not None:
        (tree / harm).write_text("nonsense\n")
    given = ["-p", f"tree={tree}", "-p", "config=tinyconfig"]
    for parameter in parameters:
        given += ["-p", parameter]
    ran = run("bench", "kernel-compile", "-n", "1", *given)
    assert ran.status in (1, 2)
    assert " ".join(said.split()) in " ".join(ran.err.split())


def test_a_full_tmpfs_is_recognised(memory: Path, tmp_path: Path) -> None:
    big = make_source_tree(tmp_path / "big", image_bytes=600_000)
    ran = run("bench", "kernel-compile", "-n", "1", "-p", f"tree={big}", "-p", "config=tinyconfig")
    assert ran.status == 1
    assert "no space left for its files" in " ".join(ran.err.split())

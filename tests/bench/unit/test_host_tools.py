# SPDX-License-Identifier: Apache-2.0
"""Where built tools are kept."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from ktrial.bench.tools.archive import file_sha256
from ktrial.bench.tools.toolbox import UserToolbox
from ktrial.kit.errors import KtrialError, Refused, UnknownName
from tests.bench.unit.test_model_tool import RECEIPT

PROGRAM = b"#!/bin/sh\n"


def installed(toolbox: UserToolbox, folder: Path, *, compiler: str = "gcc 12.2.0", content: bytes = PROGRAM) -> Path:
    """A build in the toolbox: its folder."""
    path = folder / "made"
    path.write_bytes(content)
    receipt = msgspec.structs.replace(RECEIPT, compilers={"gcc": compiler}, programs={"tool": file_sha256(path)})
    return toolbox.install(receipt, {"tool": path})


@pytest.fixture
def toolbox(tmp_path: Path) -> UserToolbox:
    return UserToolbox(tmp_path / "tools")


def test_nothing_is_there_before_something_was_built(toolbox: UserToolbox) -> None:
    assert toolbox.names() == []
    assert toolbox.find("tool") is None
    with pytest.raises(UnknownName, match="'tool'"):
        toolbox.remove("tool")


def test_a_build_is_found_with_its_receipt(toolbox: UserToolbox, tmp_path: Path) -> None:
    build = installed(toolbox, tmp_path)
    found = toolbox.find("tool")
    assert found is not None
    assert found[0] == build / "bin" / "tool" == tmp_path / "tools/tool" / found[1].folder / "bin/tool"
    assert found[0].stat().st_mode & 0o777 == 0o755
    assert toolbox.find("other") is None
    assert toolbox.remove("tool") == tmp_path / "tools/tool"
    assert list((tmp_path / "tools").iterdir()) == []


def test_one_build_replaces_the_other(toolbox: UserToolbox, tmp_path: Path) -> None:
    installed(toolbox, tmp_path)
    build = installed(toolbox, tmp_path, compiler="gcc 13.1.0")
    assert sorted(path.name for path in (tmp_path / "tools/tool").iterdir()) == sorted([build.name, "current"])
    assert toolbox.receipt("tool").compilers == {"gcc": "gcc 13.1.0"}
    assert toolbox.names() == ["tool"]


def test_the_same_build_once_more(toolbox: UserToolbox, tmp_path: Path) -> None:
    assert installed(toolbox, tmp_path) == installed(toolbox, tmp_path, content=b"other bytes, other folder")
    found = toolbox.find("tool")
    assert found is not None
    assert found[0].read_bytes() == b"other bytes, other folder"


def test_what_an_interrupted_installation_left_is_no_tool(toolbox: UserToolbox, tmp_path: Path) -> None:
    (tmp_path / "tools/tool/.part/bin").mkdir(parents=True)
    (tmp_path / "tools/tool/.part/bin/tool").write_bytes(PROGRAM)
    (tmp_path / "tools/tool/.link").symlink_to(".part")
    assert toolbox.names() == []
    assert toolbox.find("tool") is None
    installed(toolbox, tmp_path)
    assert toolbox.find("tool") is not None


def test_a_program_that_was_changed_is_not_run(toolbox: UserToolbox, tmp_path: Path) -> None:
    (installed(toolbox, tmp_path) / "bin/tool").write_bytes(b"#!/bin/sh\nexit 0\n")
    with pytest.raises(KtrialError, match="not the file that ktrial built") as caught:
        toolbox.find("tool")
    assert caught.value.hint is not None
    assert "ktrial tools get tool" in caught.value.hint


def test_a_receipt_that_cannot_be_read(toolbox: UserToolbox, tmp_path: Path) -> None:
    (installed(toolbox, tmp_path) / "tool.json").write_text("{")
    with pytest.raises(KtrialError, match=r"cannot read .*tool\.json"):
        toolbox.find("tool")


@pytest.mark.parametrize("change", [lambda path: os.chown(path, 12345, -1), lambda path: path.chmod(0o777)])
def test_root_runs_nothing_that_somebody_else_could_have_put_there(
    toolbox: UserToolbox, tmp_path: Path, change: object
) -> None:
    assert os.geteuid() == 0, "this test gives a file to somebody else: run ./check as root"
    build = installed(toolbox, tmp_path)
    assert toolbox.find("tool") is not None
    assert callable(change)
    change(build / "bin")
    with pytest.raises(Refused, match="cannot run tool as root"):
        toolbox.find("tool")

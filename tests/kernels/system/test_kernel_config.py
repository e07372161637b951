# SPDX-License-Identifier: Apache-2.0
"""Configurations of a real tree, merged by its own tools and read back."""

from __future__ import annotations

import io
import json
import platform
from pathlib import Path

import pytest

from ktrial.cli.main import main
from tests.guests.system.sources import source_tree
from tests.support.tree import Ran

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="its configurations are for x86-64"),
    pytest.mark.xdist_group("kernel-sources"),
    pytest.mark.timeout(900),
]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


def run(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    return Ran(main(["kernel", *argv], out, err), out.getvalue(), err.getvalue())


def test_the_kernel_for_guests(tmp_path: Path) -> None:
    tree, folder = str(source_tree("6.12")), tmp_path / "build"
    base = ("config", tree, "--config", "tinyconfig", "-o", str(folder))
    ran = run(*base, "--fragment", "guest", "--fragment", "hz-1000", "--set", "LOCALVERSION=-lab")
    assert ran.status == 0, ran.err
    assert "requested symbols are set as requested" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80
    text = (folder / ".config").read_text()
    for line in (
        "CONFIG_VIRTIO_CONSOLE=y",
        "CONFIG_HZ=1000",
        'CONFIG_LOCALVERSION="-lab"',
        "# CONFIG_MODULES is not set",
    ):
        assert f"{line}\n" in text
    told = json.loads((folder / "ktrial-config.json").read_text())
    assert (told["base"], told["fragments"], told["unheld"]) == ("tinyconfig", ["guest", "hz-1000"], [])
    lacking = ("--set", "DEBUG_INFO_BTF=y", "--anyway")
    again = run("config", tree, "-o", str(folder), "--set", "HZ_100=y", *lacking, "--json")
    assert again.status == 0, again.err
    differ = {one["symbol"]: (one["before"], one["after"]) for one in json.loads(again.out)["differences"]}
    assert differ["HZ"] == ("1000", "100")
    assert set(differ) <= {"HZ", "HZ_100", "HZ_1000"}
    (unheld,) = json.loads(again.out)["unheld"]
    assert (unheld["symbol"], unheld["got"]) == ("DEBUG_INFO_BTF", "n")


@pytest.mark.parametrize(
    "words, said",
    [
        (("--set", "HZ_1001=y"), "did you mean HZ_100"),
        (("--fragment", "hz-100", "--fragment", "hz-250"), "hz-100 wants HZ=100, but hz-250 wants HZ=250"),
        (("--fragment", "lto-thin", "--cc", "gcc"), "the fragment lto-thin needs clang, but --cc is gcc"),
    ],
)
def test_what_contradicts_is_said(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    ran = run("config", str(source_tree("6.12")), "--config", "tinyconfig", "-o", str(tmp_path / "x"), *words)
    assert (ran.status, said in ran.err) == (2, True), ran.err


def test_what_cannot_be_is_refused_with_all_reasons(tmp_path: Path) -> None:
    words = ("--set", "DEBUG_INFO_BTF=y", "--set", "LTO_CLANG_THIN=y", "--fragment", "arashi-t3b")
    ran = run("config", str(source_tree("6.12")), "--config", "tinyconfig", "-o", str(tmp_path / "x"), *words)
    assert ran.status == 4
    for said in (
        "DEBUG_INFO_BTF=y (--set): it needs ",
        "BPF_SYSCALL, which is off",
        "LTO_CLANG_THIN=y (--set): it needs HAS_LTO_CLANG",
        "CC_IS_CLANG",
        "SCHED_BORE=y (arashi-t3b): a patch adds it: BORE",
    ):
        assert said in ran.err, ran.err
    assert not (tmp_path / "x").exists()


def test_odd_bases(tmp_path: Path) -> None:
    tree, wrong = str(source_tree("6.12")), tmp_path / "wrong.config"
    wrong.write_text("HZ=100\n")
    for words, said in (
        ((), "no base configuration"),
        (("--config", "nothing"), "no such configuration"),
        (("--config", str(wrong)), "is not a line `CONFIG_NAME=VALUE`"),
    ):
        ran = run("config", tree, "-o", str(tmp_path / "x"), *words)
        assert (ran.status, said in ran.err) == (2, True), ran.err

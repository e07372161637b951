# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.kernels.build.toolchain import check_programs, choose, install_step
from ktrial.kit.errors import BadInput, KtrialError


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def test_gcc_brings_binutils_and_clang_all_of_llvm(programs: Path) -> None:
    put(programs, "gcc-13", "clang-16", "clang", "x86_64-linux-gnu-gcc-12", "ld.lld")
    assert choose("gcc-13").variables == {"CC": "gcc-13", "HOSTCC": "gcc-13"}
    assert choose("x86_64-linux-gnu-gcc-12").variables == {"CC": "x86_64-linux-gnu-gcc-12"}
    numbered = choose("clang-16")
    assert (numbered.kind, numbered.variables["LD"], numbered.variables["HOSTCXX"]) == (
        "clang",
        "ld.lld-16",
        "clang++-16",
    )
    assert choose("clang").variables["AR"] == "llvm-ar"


def test_a_clang_whose_programs_have_the_number_of_the_release(programs: Path, tmp_path: Path) -> None:
    real = tmp_path / "llvm-14" / "bin"
    real.mkdir(parents=True)
    put(real, "clang")
    (programs / "clang").symlink_to(real / "clang")
    assert choose("clang").variables["LD"] == "ld.lld"
    put(programs, "ld.lld-14")
    assert (choose("clang").variables["LD"], choose("clang").variables["CC"]) == ("ld.lld-14", "clang")


def test_what_is_missing_is_named_with_its_packages(programs: Path) -> None:
    put(programs, "make", "perl", "gcc", "clang")
    with pytest.raises(KtrialError) as caught:
        check_programs(choose("gcc"), {"DEBUG_INFO_BTF": "y"})
    assert caught.value.message == "building needs flex, bison, bc, pahole, which are not installed"
    assert caught.value.hint == "apt-get install flex bison bc dwarves"
    with pytest.raises(KtrialError) as caught:
        check_programs(choose("clang"), {}, ("ccache",))
    assert "lld" in (caught.value.hint or "").split()
    assert "llvm" in (caught.value.hint or "").split()
    for word, said in (("tcc", "tcc: no such program"), ("make", "expected gcc or clang")):
        with pytest.raises(BadInput, match=said):
            choose(word)


def test_without_apt_get_programs_are_named_and_not_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrial.kernels.build.toolchain._APT", tmp_path / "apt-get")
    assert install_step(["flex", "pahole"]) == "install flex, pahole (in Debian's packages flex dwarves)"

# SPDX-License-Identifier: Apache-2.0
"""Targets in real trees, with the real compilers, Kconfig and make."""

from __future__ import annotations

import io
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from ktrial.cli.main import main
from ktrial.kernels.uarch.compilers import Compilers
from ktrial.kernels.uarch.patch import INIT, KCONFIG, MAKEFILE, make_patch
from ktrial.kernels.uarch.target_files import load_targets
from ktrial.kernels.uarch.targets import KERNEL_FLAGS, Compiler
from tests.guests.system.sources import copy_of, source_tree
from tests.support.kernel_trees import SHAPES, Shape, files, write
from tests.support.tree import Ran

TARGETS = load_targets()
pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="its compilers are asked for x86-64"),
    pytest.mark.xdist_group("kernel-sources"),
    pytest.mark.timeout(900),
]
shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


def run(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    return Ran(main(["kernel", *argv], out, err), out.getvalue(), err.getvalue())


def cache_of_answers(base: Path) -> Path:
    """A cache folder for those tests in which compilers need not be asked anew."""
    return base / "answers"


@pytest.fixture(scope="module")
def compilers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Compiler]:
    kept = cache_of_answers(tmp_path_factory.getbasetemp()) / "ktrial" / "compilers"
    found = Compilers(kept, TARGETS, pytest.fail).find()
    return {compiler.kind: compiler for compiler in found}


def test_the_table_says_of_these_compilers_what_they_say_themselves(compilers: dict[str, Compiler]) -> None:
    assert "gcc" in compilers
    words = {"popcnt": "POPCNT", "movbe": "MOVBE", "abm": "LZCNT"}
    for compiler in compilers.values():
        wanted = {target.name for target in TARGETS if target.accepted_by_version(compiler.kind, compiler.number)}
        assert set(compiler.accepted) >= wanted
        assert set(compiler.accepted) | set(compiler.refused) == {target.name for target in TARGETS}
        for target in TARGETS:
            if target.name in compiler.accepted:
                kept = set(compiler.kept[target.name])
                assert {need for need, macro in words.items() if macro in kept} == set(target.needs), target.name
                assert not {name for name in kept if name.startswith(("SSE", "AVX"))}


def test_a_compiler_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = json.loads(run("cpu", "--cc", "gcc", "--json").out)
    with monkeypatch.context() as patched:
        patched.setattr("ktrial.kernels.uarch.compilers._query", None)
        assert json.loads(run("cpu", "--cc", "gcc", "--json").out) == first
    assert (first["schema"], first["kernel_flags"]) == ("ktrial.kernel-cpu/1", list(KERNEL_FLAGS))
    assert first["compilers"][0]["kind"] == "gcc"
    text = run("cpu", "--cc", "gcc").out
    assert "this CPU" in text
    assert max(map(len, text.splitlines())) <= 80
    fake = tmp_path / "gcc-99"
    fake.write_text("#!/bin/sh\necho '#define __ARM__ 1'\n")
    fake.chmod(0o755)
    assert "cannot build for x86-64" in run("cpu", "--cc", str(fake)).err


def test_a_compiler_that_does_not_work_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gcc", "rustc"):
        (tmp_path / name).write_text("#!/bin/sh\necho no cc1 >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = run("cpu")
    assert (ran.status, "no gcc or clang" in ran.out) == (0, True)
    for name in ("gcc", "rustc"):
        assert f"ktrial: skipping {tmp_path / name}: " in ran.err
    named = run("cpu", "--cc", "gcc")
    assert (named.status, "ended with status 1 (no cc1)" in named.err) == (1, True)


@pytest.mark.parametrize("shape, config, c_flags, rust_flags", [
    ("4.19.0", {"GENERIC_CPU": "y"}, "-m64 -mtune=generic -march=x86-64", ""),
    ("4.19.0", {"MPILEDRIVER": "y"}, "-m64 -march=bdver2 -mno-tbm", ""),
    ("5.10.0", {"GENERIC_CPU": "y", "X86_64_VERSION": "3"}, "-m64 -mtune=generic -march=x86-64-v3", ""),
    ("5.15.0", {"MK8": "y"}, "-m64 -march=k8", ""),
    ("6.6.0", {"GENERIC_CPU": "y"}, "-m64 -mtune=generic -march=x86-64", "-Ztune-cpu=generic -Ctarget-cpu=x86-64"),
    ("6.6.0", {"MPILEDRIVER": "y"}, "-m64 -march=bdver2 -mno-tbm", "-Ctarget-cpu=bdver2"),
    ("6.6.0", {"MNATIVE_AMD": "y"}, "-m64 -march=native -mno-tbm -mno-apxf", "-Ctarget-cpu=native"),
    ("6.15.0", {"MNATIVE_INTEL": "y"}, "-m64 -march=native -mno-apxf", "-Ctarget-cpu=native"),
    ("6.15.0", {"GENERIC_CPU": "y"}, "-m64 -march=x86-64 -mtune=generic", "-Ctarget-cpu=x86-64 -Ztune-cpu=generic"),
    ("6.15.0", {}, "-m64 -march=x86-64 -mtune=generic", "-Ctarget-cpu=x86-64 -Ztune-cpu=generic"),
    ("6.15.0", {"GENERIC_CPU": "y", "X86_64_VERSION": "2"}, "-m64 -march=x86-64-v2", "-Ctarget-cpu=x86-64-v2"),
    ("6.16.0", {"MZEN3": "y"}, "-m64 -march=znver3", "-Ctarget-cpu=znver3"),
    ("6.16.0", {"X86_NATIVE_CPU": "y"}, "-m64 -march=native", "-Ctarget-cpu=native"),
    ("6.16.0", {"GENERIC_CPU": "y", "X86_64_VERSION": "1"},
     "-m64 -march=x86-64 -mtune=generic", "-Ctarget-cpu=x86-64 -Ztune-cpu=generic"),
    ("7.2.0-rc1", {"MDIAMONDRAPIDS": "y"}, "-m64 -march=diamondrapids -mno-apxf", ""),
    ("6.16.0", {"X86_32": "y", "MZEN3": "y"}, "-m32", ""),
])  # fmt: skip
def test_flags_as_make_takes_them(
    shape: str, config: Mapping[str, str], c_flags: str, rust_flags: str, tmp_path: Path
) -> None:
    patched = make_patch(files(SHAPES[shape]), TARGETS).after[MAKEFILE]
    top = [f"CONFIG_{name} = {value}" for name, value in config.items()]
    top += ["cc-option = $(1)", patched, "all: ; @echo '$(strip $(KBUILD_CFLAGS))/$(strip $(KBUILD_RUSTFLAGS))'"]
    (tmp_path / "Makefile").write_text("\n".join(top) + "\n")
    done = subprocess.run(["make", "-s", "-C", tmp_path], capture_output=True, text=True, check=True)
    got_c, _, got_rust = done.stdout.strip().partition("/")
    assert (got_c.removesuffix(" -mno-red-zone -mcmodel=kernel"), got_rust) == (c_flags, rust_flags)


@cache
def kconfig_program(base: Path) -> Path:
    """Kconfig's own program, from the sources of 6.12; made once for all modules of a worker."""
    out = base / "kconfig"
    out.mkdir()
    subprocess.run(
        ["make", "-s", "-C", source_tree("6.12"), f"O={out}", "ARCH=x86_64", "allnoconfig"],
        check=True,
        capture_output=True,
    )
    return out / "scripts" / "kconfig" / "conf"


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kconfig_program(tmp_path_factory.getbasetemp())


def configured(conf: Path, tree: Path, asked: str, *, gcc: int = 120200, llvm: int = 0, bits: int = 64) -> set[str]:
    """What comes of a wish in a reduced tree, for a compiler of this version."""
    head = [f"config X86_{other}\n\tdef_bool {'y' if other == bits else 'n'}\n" for other in (32, 64)]
    head += [f"config GCC_VERSION\n\tint\n\tdefault {gcc}\n", "config CLANG_VERSION\n\tint\n\tdefault 0\n"]
    head += ["config CC_IS_CLANG\n\tdef_bool n\n", f'source "{INIT}"\n', f'source "{KCONFIG}"\n']
    (tree / "Kconfig").write_text("\n".join(head))
    (tree / ".config").write_text(asked)
    environment = {**os.environ, "RUSTC_LLVM": str(llvm), "srctree": str(tree)}
    done = subprocess.run(
        [conf, "-s", "--olddefconfig", "Kconfig"],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = (tree / ".config").read_text().splitlines()
    return {line.removeprefix("CONFIG_") for line in lines if line.startswith("CONFIG_")}


@shapes
def test_what_kconfig_makes_of_wishes(shape: Shape, conf: Path, tmp_path: Path) -> None:
    tree = write(replace(shape, old_help=False), tmp_path / "tree")  # 5.8 and later do not read ---help---
    assert run("uarch", "patch", str(tree), "--apply").status == 0
    level_3 = configured(conf, tree, "CONFIG_GENERIC_CPU=y\nCONFIG_X86_64_VERSION=3\n")
    assert {"GENERIC_CPU=y", "X86_64_VERSION=3", "X86_L1_CACHE_SHIFT=6"} <= level_3
    assert {line.rpartition("_")[2] for line in level_3 if "NEEDS" in line or "REQUIRED" in line} == {
        *("POPCNT=y", "MOVBE=y", "ABM=y")
    }
    old = configured(conf, tree, "CONFIG_GENERIC_CPU=y\nCONFIG_X86_64_VERSION=3\n", gcc=100200)
    assert "GENERIC_CPU=y" in old
    assert not {line for line in old if line.startswith("X86_64_VERSION") or "POPCNT" in line}
    assert {"MZEN3=y", "X86_L1_CACHE_SHIFT=6"} <= configured(conf, tree, "CONFIG_MZEN3=y\n")
    assert {"MPSC=y", "X86_L1_CACHE_SHIFT=7"} <= configured(conf, tree, "CONFIG_MPSC=y\n")
    assert "GENERIC_CPU=y" in configured(conf, tree, "CONFIG_MZEN5=y\n")
    assert "MZEN5=y" in configured(conf, tree, "CONFIG_MZEN5=y\n", gcc=140100)
    ours = {target.symbol for target in TARGETS} - ({"MK8", "MPSC", "MCORE2"} if shape.kconfig == "mixed" else set())
    for wish in ("CONFIG_MZEN3=y\n", "CONFIG_MK8SSE3=y\n", "CONFIG_GENERIC_CPU=y\n", ""):
        narrow = configured(conf, tree, wish, bits=32)
        assert "M686=y" in narrow
        assert not {line for line in narrow if line.partition("=")[0] in ours or line.startswith("X86_64_")}
    for wish in ("MNATIVE_INTEL=y", "MNATIVE_AMD=y"):
        got = configured(conf, tree, f"CONFIG_{wish}\n")
        assert (wish in got, "GENERIC_CPU=y" in got) == (shape.kconfig != "native", shape.kconfig == "native")
    if shape.kconfig == "native":
        native = configured(conf, tree, "CONFIG_X86_NATIVE_CPU=y\nCONFIG_MZEN3=y\n")
        assert not {line for line in native if line.partition("=")[0] in ours or line.startswith("X86_64_VERSION")}
    if shape.rust_gate:
        assert "RUST=y" in configured(conf, tree, "CONFIG_MZEN5=y\nCONFIG_RUST=y\n", gcc=140100, llvm=190100)
        behind = configured(conf, tree, "CONFIG_MZEN5=y\nCONFIG_RUST=y\n", gcc=140100, llvm=180100)
        assert ("MZEN5=y" in behind, "RUST=y" in behind) == (not shape.rust_first, shape.rust_first)


MASKS = """
#include <asm/cpufeatures.h>
#include <asm/required-features.h>
_Static_assert(X86_FEATURE_POPCNT / 32 == 4 && X86_FEATURE_MOVBE / 32 == 4 && X86_FEATURE_ABM / 32 == 6, "words");
_Static_assert(!!(REQUIRED_MASK4 & 1 << (X86_FEATURE_POPCNT & 31)) == POPCNT, "popcnt");
_Static_assert(!!(REQUIRED_MASK4 & 1 << (X86_FEATURE_MOVBE & 31)) == OTHERS, "movbe");
_Static_assert(!!(REQUIRED_MASK6 & 1 << (X86_FEATURE_ABM & 31)) == OTHERS, "abm");
"""


def check_masks(tree: Path, needs: tuple[str, ...]) -> None:
    """The tree's own headers make the masks that early boot code checks."""
    told = [f"-DCONFIG_X86_64_TARGET_NEEDS_{name}=1" for name in needs]
    told += [f"-DPOPCNT={int('POPCNT' in needs)}", f"-DOTHERS={int('ABM' in needs)}", "-DCONFIG_X86_64=1"]
    argv = ["gcc", "-fsyntax-only", f"-I{tree}/arch/x86/include", *told, "-x", "c", "-"]
    done = subprocess.run(argv, input=MASKS, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("version", ["6.1", "6.12", "forky"])
def test_a_real_tree_takes_it_and_is_the_same_after(version: str, disk_path: Path) -> None:
    tree, diff = copy_of(version, disk_path / "linux"), disk_path / "targets.patch"
    ran = run("uarch", "patch", str(tree), "-o", str(diff))
    assert (ran.status, ran.out) == (0, "")
    for words in (["--dry-run"], []):
        subprocess.run(["patch", "-p1", "-F0", "-s", *words, "-i", diff], cwd=tree, check=True)
    assert "has ktrial's patch" in run("uarch", "patch", str(tree), "--check").out
    assert run("uarch", "patch", str(tree)).status == 4
    assert run("uarch", "patch", str(tree), "--reverse").status == 0
    same = ["diff", "-r", "-q", str(source_tree(version) / "arch" / "x86"), str(tree / "arch" / "x86")]
    assert subprocess.run(same, capture_output=True, text=True, check=False).stdout == ""
    assert run("uarch", "patch", str(tree), "--apply").status == 0
    assert "from another patch" not in run("uarch", "patch", str(tree), "--check").out
    for needs in ((), ("POPCNT",), ("POPCNT", "MOVBE", "ABM")) if version != "forky" else ():
        check_masks(tree, needs)


@pytest.mark.parametrize("version, cc, target", [("6.12", "gcc", "bdver2"), ("forky", "gcc", "haswell")])
def test_an_object_of_a_real_tree(version: str, cc: str, target: str, tmp_path: Path) -> None:
    tree = copy_of(version, tmp_path / "linux")
    ran = run("uarch", "patch", str(tree), "--apply", "--verify", target, "--cc", cc, "--json")
    assert ran.status == 0, ran.err
    found = json.loads(ran.out)["verified"]
    assert (found["march"], found["object"]) == (f"-march={target}", "lib/ctype.o")
    assert [word for word in found["command"] if word.startswith("-march")] == [f"-march={target}"]
    assert ("-mno-tbm" in found["command"]) == (target == "bdver2")
    for line in run("uarch", "verify", str(tree), "znver5", "--cc", cc).err.splitlines():
        assert "-march=znver5" in line or line.startswith("  next: use gcc 14.1 or newer, or clang 19.1")


def test_native_in_a_real_tree_and_without_a_patch(tmp_path: Path) -> None:
    tree = copy_of("6.12", tmp_path / "linux")
    ran = run("uarch", "verify", str(tree), "native")
    assert (ran.status, "has no symbol MNATIVE_" in ran.err) == (4, True)
    ran = run("uarch", "patch", str(tree), "--apply", "--verify", "native", "--json")
    assert ran.status == 0, ran.err
    found = json.loads(ran.out)["verified"]
    assert [word for word in found["command"] if word.startswith("-march")] == ["-march=native"]
    assert list(found["symbols"].values()) == ["y"]
    flags = run("uarch", "flags", "native", "--json")
    told = json.loads(flags.out)
    assert f"native is {told['target']} here, for gcc" in flags.err
    assert told["target"] in {target.name for target in TARGETS}
    assert told["make"]["KCFLAGS"][0] == f"-march={told['target']}"


def test_compilers_for_arm64_are_asked_for_their_cpus() -> None:
    told = json.loads(run("cpu", "--arch", "arm64", "--cc", "clang", "--json").out)
    (clang,) = told["compilers"]
    assert (told["architecture"], clang["kind"]) == ("arm64", "clang")
    assert {"generic", "apple-m1", "neoverse-n1", "cortex-a72"} <= set(clang["accepted"])
    assert "cortex-a76.cortex-a55" in clang["refused"]
    assert "ATOMICS" in clang["kept"]["neoverse-n1"]
    assert clang["kept"]["generic"] == []
    listed = run("uarch", "list", "--arch", "arm64", "--cc", "clang").out
    assert max(map(len, listed.splitlines())) <= 80
    flags = run("uarch", "flags", "--arch", "arm64", "--cc", "clang", "apple-m1")
    assert flags.out.splitlines()[0] == "export KCFLAGS='-mcpu=apple-m1'"
    refused = run("uarch", "flags", "--arch", "arm64", "--cc", "clang", "cortex-a76.cortex-a55")
    assert (refused.status, "does not accept -mcpu=cortex-a76.cortex-a55" in refused.err) == (4, True)
    tuned = run("uarch", "flags", "--arch", "arm64", "--cc", "clang", "apple-m1", "--tune", "x")
    assert "--tune requires --arch x86_64" in tuned.err


def test_rust_in_a_real_tree_is_proven_or_refused_with_the_tree_s_own_words(tmp_path: Path) -> None:
    tree = copy_of("6.12", tmp_path / "linux")
    ran = run("uarch", "patch", str(tree), "--apply")
    assert ran.status == 0, ran.err
    ran = run("uarch", "verify", str(tree), "znver3", "--rust", "--json")
    if ran.status == 0:
        found = json.loads(ran.out)["verified"]
        assert (found["rust"], found["rust_object"], found["rust_cpu"]) == (True, "rust/core.o", "znver3")
    else:
        assert ran.status == 4, ran.err
        assert "cannot enable CONFIG_RUST in this tree: `make rustavailable` says: " in ran.err
        assert "Rust compiler" in ran.err or "bindgen" in ran.err or "standard library" in ran.err

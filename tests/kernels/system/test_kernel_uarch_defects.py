# SPDX-License-Identifier: Apache-2.0
"""What was wrong with older patches that add processors to kernels is not wrong here: one test for each defect.

And a target that the compilers here lack is refused, whichever command is asked for it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ktrial.kernels.uarch.patch import FEATURES, INIT, KCONFIG, MAKEFILE, make_patch
from ktrial.kernels.uarch.target_files import load_targets
from ktrial.kernels.uarch.targets import Compiler, find_target, gate_number
from ktrial.kernels.uarch.targets_text import targets_page
from tests.kernels.system.test_kernel_uarch import cache_of_answers, compilers, conf, configured, own_folders, run
from tests.support.buildable_tree import write_buildable
from tests.support.kernel_trees import SHAPES, files, write

__all__ = ["compilers", "conf", "own_folders"]
TARGETS = load_targets()
RUST = tuple(shape for shape in SHAPES if SHAPES[shape].rust)
#: None of them is known to gcc 12 or clang 14.
LACKING = (
    *("znver4", "znver5", "raptorlake", "meteorlake", "emeraldrapids", "diamondrapids", "graniterapids"),
    *("sierraforest", "lunarlake", "arrowlake"),
)
pytestmark = [pytest.mark.xdist_group("kernel-sources"), pytest.mark.timeout(900)]


def flags(shape: str, config: Mapping[str, str], folder: Path) -> tuple[list[str], list[str]]:
    """What make gives the compilers for C and Rust in such a tree; `cc-option` takes what is not refused."""
    patched = make_patch(files(SHAPES[shape]), TARGETS).after[MAKEFILE]
    top = [f"CONFIG_{name} = {value}" for name, value in config.items()]
    option = "cc-option = $(if $(shell gcc $(1) -c -x c /dev/null -o /dev/null 2>&1),$(2),$(1))"
    top += [option, patched, "all: ; @echo '$(KBUILD_CFLAGS)/$(KBUILD_RUSTFLAGS)'"]
    (folder / "Makefile").write_text("\n".join(top) + "\n")
    done = subprocess.run(["make", "-s", "-C", folder], capture_output=True, text=True, check=True)
    for_c, _, for_rust = done.stdout.partition("/")
    return for_c.split(), for_rust.split()


def marches(words: list[str]) -> list[str]:
    return [word for word in words if word.startswith(("-march", "-Ctarget-cpu"))]


@pytest.mark.parametrize("shape", SHAPES)
def test_1_without_a_level_generic_code_is_for_every_cpu(shape: str, conf: Path, tmp_path: Path) -> None:
    """The level's symbol is hidden from a gcc before 11: -march=x86-64-v, with nothing behind it, failed."""
    tree = write(SHAPES[shape] if shape != "4.19.0" else SHAPES["5.10.0"], tmp_path / "tree")
    assert run("uarch", "patch", str(tree), "--apply").status == 0
    old = configured(conf, tree, "CONFIG_GENERIC_CPU=y\n", gcc=100200)
    assert not [line for line in old if line.startswith("X86_64_VERSION")]
    assert marches(flags(shape, {"GENERIC_CPU": "y"}, tmp_path)[0]) == ["-march=x86-64"]
    assert marches(flags(shape, {"GENERIC_CPU": "y", "X86_64_VERSION": ""}, tmp_path)[0]) == ["-march=x86-64"]
    assert "X86_64_VERSION=1" in configured(conf, tree, "CONFIG_GENERIC_CPU=y\n"), "1 where nothing is said"


def test_2_native_is_not_undone(tmp_path: Path) -> None:
    for more in ({}, {"GENERIC_CPU": "y", "X86_64_VERSION": "3"}):
        for_c, for_rust = flags("6.16.0", {"X86_NATIVE_CPU": "y", **more}, tmp_path)
        assert (marches(for_c), marches(for_rust)) == (["-march=native"], ["-Ctarget-cpu=native"])


@pytest.mark.parametrize("shape", RUST)
def test_3_rust_gets_its_own_flags_and_is_asked_for_its_own_llvm(shape: str, conf: Path, tmp_path: Path) -> None:
    for_c, for_rust = flags(shape, {"MPILEDRIVER": "y"}, tmp_path)
    assert "-mno-tbm" in for_c
    assert for_rust == ["-Ctarget-cpu=bdver2"]
    if not SHAPES[shape].rust_gate:
        return
    tree = write(SHAPES[shape], tmp_path / "tree")
    assert run("uarch", "patch", str(tree), "--apply").status == 0
    behind = configured(conf, tree, "CONFIG_MZEN5=y\nCONFIG_RUST=y\n", gcc=140100, llvm=180100)
    target_asks = SHAPES[shape].rust_first
    assert ("MZEN5=y" in behind, "RUST=y" in behind) == (not target_asks, target_asks)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "4.19.0"])
def test_4_nothing_of_it_is_there_for_32_bit(shape: str, conf: Path, tmp_path: Path) -> None:
    """Kconfig picked K8 for a 586, whose kernel then needed what the CPU has not."""
    tree = write(SHAPES[shape], tmp_path / "tree")
    before = configured(conf, tree, "CONFIG_M586=y\n", bits=32)
    assert run("uarch", "patch", str(tree), "--apply").status == 0
    assert configured(conf, tree, "CONFIG_M586=y\n", bits=32) == before
    assert "M586=y" in before


@pytest.mark.parametrize("target", ["bdver2", "bdver3", "bdver4"])
def test_5_tbm_is_off_where_it_would_be_on(target: str, tmp_path: Path) -> None:
    """A second argument of cc-option is taken only where the first is refused."""
    symbol = find_target(target, TARGETS).symbol
    for shape in ("4.19.0", "5.10.0"):
        words = flags(shape, {symbol: "y"}, tmp_path)[0]
        assert words[words.index(f"-march={target}") + 1] == "-mno-tbm"
    argv = ["gcc", f"-march={target}", "-mno-tbm", "-dM", "-E", "-x", "c", "/dev/null"]
    assert "__TBM__" not in subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("shape", SHAPES)
def test_6_early_boot_code_asks_for_what_a_target_has(shape: str, conf: Path, tmp_path: Path) -> None:
    """Else a kernel for a newer CPU dies of an instruction that is not there, without a word."""
    tree = write(SHAPES[shape] if shape != "4.19.0" else SHAPES["5.10.0"], tmp_path / "tree")
    assert run("uarch", "patch", str(tree), "--apply").status == 0
    name = "X86_64_TARGET_NEEDS" if SHAPES[shape].kconfig == "mixed" else "X86_REQUIRED_FEATURE"
    for wish, needs in (("MHASWELL", {"POPCNT", "MOVBE", "ABM"}), ("MNEHALEM", {"POPCNT"}), ("MK8SSE3", set())):
        found = {line for line in configured(conf, tree, f"CONFIG_{wish}=y\n") if line.startswith(name)}
        assert found == {f"{name}_{need}=y" for need in needs}
    assert (tree / FEATURES).is_file() == (name == "X86_REQUIRED_FEATURE")


@pytest.mark.parametrize("shape", SHAPES)
def test_7_a_kernel_for_which_nothing_is_chosen_keeps_its_march(shape: str, tmp_path: Path) -> None:
    """A lite patch lost it where GENERIC_CPU was left off."""
    before = SHAPES[shape].makefile in ("direct", "native")
    assert marches(flags(shape, {}, tmp_path)[0]) == ["-march=x86-64"] * before


def test_8_one_table_says_it_all(compilers: dict[str, Compiler], tmp_path: Path) -> None:
    """Description, gates and flags of the older patches contradict each other."""
    page = targets_page(TARGETS)
    after = make_patch(files(SHAPES["6.16.0"]), TARGETS).after
    for target in TARGETS:
        row = next(line for line in page.splitlines() if f"| `{' '.join(target.c_flags)}` |" in line)
        until = "" if target.gcc_until is None else f" && GCC_VERSION < {gate_number(target.gcc_until)}"
        gates = f"GCC_VERSION >= {gate_number(target.gcc)}{until}) || "
        gates += f"(CC_IS_CLANG && CLANG_VERSION >= {gate_number(target.clang)})\n"
        assert f"| {target.gcc}" in row
        assert f"| {target.clang} |" in row
        if target.generic_level is None:
            entry = after[KCONFIG].partition(f"config {target.symbol}\n")[2].partition("\nconfig ")[0]
            assert entry.startswith(f'\tbool "{target.prompt}"\n')
            assert gates in entry
            assert f"-march={target.name}." in " ".join(entry.split())
            assert f"$(CONFIG_{target.symbol}) += {' '.join(target.c_flags)}\n" in after[MAKEFILE]
    for compiler in compilers.values():
        let_pass = {one.name for one in TARGETS if one.accepted_by_version(compiler.kind, compiler.number)}
        assert set(compiler.accepted) == let_pass, "the gates are those of the compilers here, neither more nor less"
    assert INIT in after


@pytest.mark.parametrize("target", LACKING)
def test_9_what_the_compilers_lack_is_refused_and_no_other_kernel_made(
    target: str,
    conf: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Asked for through Kconfig such a wish gave a kernel for the K8 without a word."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_of_answers(tmp_path_factory.getbasetemp())))
    tree, out = write_buildable(tmp_path / "linux"), tmp_path / "out"
    assert run("uarch", "patch", str(tree), "--apply").status == 0
    wanted = find_target(target, TARGETS)
    for cc in ("gcc", "clang"):
        for words in (
            ("uarch", "verify", str(tree), target, "--cc", cc),
            ("uarch", "flags", target, "--cc", cc),
            ("build", str(tree), "--config", "tinyconfig", "--target", target, "--cc", cc, "-o", str(out)),
        ):
            ran = run(*words)
            assert (ran.status, ran.out) == (4, ""), ran.err
            assert f"does not accept -march={target}" in ran.err
            needs = f"use gcc {wanted.gcc} or newer, or clang {wanted.clang} or newer, which {target} needs"
            assert needs in " ".join(ran.err.split())
    assert not out.exists()
    assert json.loads(run("list", "--json").out)["built"] == []
    found = configured(conf, tree, f"CONFIG_{wanted.symbol}=y\n")
    assert (f"{wanted.symbol}=y" in found, "GENERIC_CPU=y" in found, "MK8=y" in found) == (False, True, False)

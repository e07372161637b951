# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from functools import cache

import pytest

from ktrial.kernels.uarch.patch import (
    FEATURES,
    INIT,
    KCONFIG,
    MAKEFILE,
    MASKS,
    TOP,
    UarchPatch,
    make_patch,
    make_reverse,
    survey,
)
from ktrial.kernels.uarch.target_files import load_targets
from ktrial.kit.errors import KtrialError, Refused, UnreadableOutput
from tests.support.kernel_trees import OWN, SHAPES, Shape, files

TARGETS = load_targets()
shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


@cache
def patch_of(shape: Shape) -> UarchPatch:
    return make_patch(files(shape), TARGETS)


def added(patch: UarchPatch, path: str) -> str:
    return "".join(line[1:] + "\n" for line in part(patch, path).splitlines() if line.startswith("+"))


def part(patch: UarchPatch, path: str) -> str:
    return patch.text.partition(f"+++ b/{path}\n")[2].partition("--- a/")[0]


@shapes
def test_a_tree_is_found_out_and_only_lines_are_added(shape: Shape) -> None:
    patch = patch_of(shape)
    assert (patch.tree.version, patch.tree.kconfig, patch.tree.makefile) == (
        shape.version,
        shape.kconfig,
        shape.makefile,
    )
    assert (patch.tree.rust, patch.tree.carries, patch.tree.applied) == (shape.rust, (), False)
    assert not [line for line in patch.text.splitlines() if line.startswith("-") and not line.startswith("---")]
    wanted = {
        KCONFIG,
        MAKEFILE,
        *([MASKS] if shape.kconfig == "mixed" else []),
        *([INIT] if shape.rust and not shape.rust_first else []),
    }
    assert set(patch.after) == wanted


@shapes
def test_taken_out_again_it_is_the_tree_that_it_was(shape: Shape) -> None:
    old = files(shape)
    new = {**old, **patch_of(shape).after}
    assert survey(new, TARGETS).applied
    back = make_reverse(new, TARGETS)
    assert {**new, **back.after} == old
    with pytest.raises(Refused, match="already has the patch"):
        make_patch(new, TARGETS)
    with pytest.raises(Refused, match="this tree lacks the patch"):
        make_reverse(old, TARGETS)


@shapes
def test_every_target_once_with_symbol_and_flags(shape: Shape) -> None:
    kconfig, makefile = patch_of(shape).after[KCONFIG], patch_of(shape).after[MAKEFILE]
    for target in TARGETS:
        assert len(re.findall(rf"^config {target.symbol}$", kconfig, re.M)) == 1, target.symbol
        if target.generic_level is None and (target.symbol not in OWN or shape.kconfig != "mixed"):
            line = f"uarch-cflags-$(CONFIG_{target.symbol}) += {' '.join(target.c_flags)}\n"
            assert makefile.count(line) == 1
            rust = f"uarch-rustflags-$(CONFIG_{target.symbol}) += -Ctarget-cpu={target.rust_cpu}\n"
            assert makefile.count(rust) == (shape.rust and not target.c_only)


@shapes
def test_all_of_it_is_for_64_bit_and_not_beside_native(shape: Shape) -> None:
    condition = "X86_64 && !X86_NATIVE_CPU" if shape.kconfig == "native" else "X86_64"
    blocks = re.findall(r"^config (\w+)\n((?:\t.*\n|\n(?=\t))*)", added(patch_of(shape), KCONFIG), re.M)
    assert len(blocks) > len(TARGETS) - len(OWN)
    for name, block in blocks:
        assert f"\tdepends on {condition}\n" in block, name
    assert ("X86_NATIVE_CPU" in added(patch_of(shape), KCONFIG)) == (shape.kconfig == "native")


@shapes
def test_native_is_offered_where_the_tree_has_none_of_its_own(shape: Shape) -> None:
    kconfig, makefile = added(patch_of(shape), KCONFIG), added(patch_of(shape), MAKEFILE)
    assert "MNATIVE_" not in files(shape)[KCONFIG]
    offered = [line.split()[1] for line in kconfig.splitlines() if line.startswith("config MNATIVE_")]
    assert offered == ([] if shape.kconfig == "native" else ["MNATIVE_INTEL", "MNATIVE_AMD"])
    assert "default MNATIVE" not in kconfig
    flags = re.findall(r"(?<=\(CONFIG_MNATIVE_)(\w+)\) \+= (.*)", makefile)
    assert (
        flags
        == [
            ("INTEL", "-march=native $(call cc-option,-mno-apxf)"),
            ("AMD", "-march=native -mno-tbm $(call cc-option,-mno-apxf)"),
            *([(vendor, "-Ctarget-cpu=native") for vendor in ("INTEL", "AMD")] if shape.rust else []),
        ][: None if offered else 0]
    )


@shapes
def test_rust_is_told_no_flag_of_c_and_asked_for_its_own_llvm(shape: Shape) -> None:
    kconfig, makefile = added(patch_of(shape), KCONFIG), added(patch_of(shape), MAKEFILE)
    assert "-mno-tbm" in makefile
    assert not [line for line in makefile.splitlines() if "rustflags" in line and "-mno" in line]
    rust_asks = shape.rust and not shape.rust_first
    assert ("(MZEN5 && RUSTC_LLVM_VERSION < 190100)" in kconfig) == (shape.rust_gate and rust_asks)
    assert ("depends on !X86_64_TARGET_NOT_IN_RUSTC" in patch_of(shape).after.get(INIT, "")) == rust_asks
    assert ("\tdepends on !RUST || RUSTC_LLVM_VERSION >= 190100\n" in kconfig) == shape.rust_first


@shapes
def test_early_boot_code_asks_for_what_the_target_needs(shape: Shape) -> None:
    kconfig = added(patch_of(shape), KCONFIG)
    name = "X86_64_TARGET_NEEDS" if shape.kconfig == "mixed" else "X86_REQUIRED_FEATURE"
    for feature in ("POPCNT", "MOVBE", "ABM"):
        block = kconfig.partition(f"config {name}_{feature}\n")[2].partition("\tdepends on M")[2].partition("\n")[0]
        assert "|| MHASWELL ||" in block
        assert "X86_64_VERSION = 3" in block
        assert ("|| MNEHALEM ||" in block, "X86_64_VERSION = 2" in block) == (feature == "POPCNT",) * 2
    if shape.kconfig == "mixed":
        masks = patch_of(shape).after[MASKS]
        assert "#define REQUIRED_MASK4\t((NEED_MOVBE)|NEED_TARGET_POPCNT|NEED_TARGET_MOVBE)\n" in masks
        assert "#define REQUIRED_MASK6\t(0|NEED_TARGET_ABM)\n" in masks


def test_a_target_older_than_a_compiler_and_one_it_lost_are_gated() -> None:
    kconfig = patch_of(SHAPES["6.16.0"]).after[KCONFIG]
    gate = "\tdepends on (CC_IS_GCC && GCC_VERSION >= 50000 && GCC_VERSION < 150000) || "
    assert f'config MKNL\n\tbool "Intel Knights Landing"\n\tdepends on X86_64 && !X86_NATIVE_CPU\n{gate}' in kconfig


@pytest.mark.parametrize("symbol", ["MZEN3", "X86_64_VERSION", "MNATIVE_AMD"])
def test_a_tree_with_such_symbols_is_recognised(symbol: str) -> None:
    tree = files(SHAPES["6.6.0"])
    tree[KCONFIG] = tree[KCONFIG].replace("config GENERIC_CPU", f'config {symbol}\n\tbool "x"\n\nconfig GENERIC_CPU')
    assert survey(tree, TARGETS).carries == (symbol,)
    with pytest.raises(Refused, match=rf"already has symbols for CPUs \({symbol}\)"):
        make_patch(tree, TARGETS)


@pytest.mark.parametrize(
    "shape, path, old, new, said",
    [
        ("6.6.0", MAKEFILE, "-mno-red-zone", "-mred-zone", "it sets the flag 0 times"),
        ("6.6.0", MAKEFILE, "KBUILD_CFLAGS += -m64", "KBUILD_CFLAGS += -mlong", "preceded by -m64"),
        ("6.6.0", MAKEFILE, "KBUILD_CFLAGS += $(cflags-y)\n\n", "\n", "preceded by exactly one $(cflags-y) or"),
        ("6.16.0", MAKEFILE, "else\n        KBUILD_CFLAGS", "else\n#\n        KBUILD_CFLAGS", "preceded by"),
        ("6.6.0", KCONFIG, "config M686", "config M786", "M686 is in 0 choices"),
        ("6.6.0", KCONFIG, "endchoice\n", "", "'choice' is not closed: `endchoice` is missing"),
        ("6.6.0", KCONFIG, "X86_L1_CACHE_SHIFT", "X86_SHIFT", "X86_L1_CACHE_SHIFT has no default"),
        ("6.6.0", MASKS, "REQUIRED_MASK6", "REQUIRED_MASK7", "REQUIRED_MASK6 are not on one line each"),
        ("6.6.0", INIT, "\tdepends on", "\tneeds", "RUST has no dependency"),
        ("6.6.0", TOP, "SUBLEVEL = 0", "SUBLEVEL = x", "SUBLEVEL is missing or not a number"),
        ("6.6.0", "arch/x86/include/asm/vermagic.h", "CONFIG_X86_64", "CONFIG_M586", "need the name of a"),
        ("6.15.0", FEATURES, "", "", "REQUIRED_MASK6 are not on one line each"),
    ],
)  # fmt: skip
def test_what_fits_no_shape_is_refused_with_a_reason(shape: str, path: str, old: str, new: str, said: str) -> None:
    tree = files(SHAPES[shape])
    if old:
        assert old in tree[path]
        tree[path] = tree[path].replace(old, new)
    else:
        del tree[path]
    with pytest.raises((Refused, UnreadableOutput)) as caught:
        make_patch(tree, TARGETS)
    assert said in caught.value.message
    assert isinstance(caught.value, KtrialError)


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("-march=znver3", "-march=znver2", "another version of ktrial added it"),
        ("# ktrial-uarch: end\n", "", "line .* never ends"),
        ("# ktrial-uarch: begin\n", "", "ends in line .* never began"),
    ],
)
def test_a_patch_that_somebody_changed_is_not_taken_out(old: str, new: str, said: str) -> None:
    shape = SHAPES["6.6.0"]
    tree = {**files(shape), **patch_of(shape).after}
    tree[MAKEFILE] = tree[MAKEFILE].replace(old, new, 1)
    with pytest.raises(Refused, match=said):
        make_reverse(tree, TARGETS)

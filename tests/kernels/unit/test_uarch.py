# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.kernels.uarch.target_files import load_targets
from ktrial.kernels.uarch.targets import (
    Compiler,
    KernelTree,
    build_flags,
    extensions,
    find_target,
    gate_number,
    native_entry,
    native_target,
    native_words,
)
from ktrial.kit.errors import BadInput, UnknownName

TARGETS = load_targets()


def calling(native: str | None) -> Compiler:
    """A gcc that calls the CPU here so."""
    return Compiler(
        path="gcc", kind="gcc", version="12.2.0", number=120200, native=native,
        accepted=(), refused={}, extensions={}, kept={},
    )  # fmt: skip


@pytest.mark.parametrize(
    "native, level, name, words",
    [
        ("znver3", 3, "znver3", "native is znver3 here, for gcc 12.2.0"),
        ("rocketlake", 3, "rocketlake", "native is rocketlake here, for gcc 12.2.0"),
        ("k8", 1, "k8", "native is k8 here, for gcc 12.2.0"),
        ("x86-64", 1, "x86-64", "native is x86-64 here, for gcc 12.2.0"),
        ("x86-64", 4, "x86-64-v3", "has no name for this CPU, and ktrial uses the CPU's level"),
        (None, 2, "x86-64-v2", "has no name for this CPU"),
        (None, None, "x86-64", "native is x86-64 here, for gcc 12.2.0"),
        ("znver3", 2, "x86-64-v2", "calls this CPU znver3, but the CPU lacks some instructions of that target"),
        ("znver99", 3, "x86-64-v3", "calls this CPU znver99, but the CPU lacks"),
    ],
)
def test_native_has_a_name_or_is_a_level(native: str | None, level: int | None, name: str, words: str) -> None:
    found = native_target(calling(native), level, TARGETS)
    assert found.name == name
    assert words in native_words(calling(native), found)
    assert (":" in native_words(calling(native), found)) == (native != name and level is not None)


@pytest.mark.parametrize(
    "called, native, symbol",
    [("znver3", False, "MNATIVE_AMD"), ("haswell", False, "MNATIVE_INTEL"), ("znver3", True, "X86_NATIVE_CPU")],
)
def test_native_is_a_symbol_of_the_tree(called: str, native: bool, symbol: str) -> None:
    tree = KernelTree(
        version="6.12.0", kconfig="", makefile="", rust=False, native=native, symbols=(), carries=(), applied=True
    )
    entry = native_entry(tree, find_target(called, TARGETS))
    assert (entry.symbol, entry.c_flags[0]) == (symbol, "-march=native")


def test_the_table_tells_targets_apart_and_is_whole() -> None:
    assert len({target.name for target in TARGETS}) == len(TARGETS) == len({target.prompt for target in TARGETS})
    micro = [target.symbol for target in TARGETS if target.generic_level is None]
    assert len(set(micro)) == len(micro)
    assert [target.generic_level for target in TARGETS if target.generic_level] == [1, 2, 3]
    newer = {target.name for target in TARGETS if not target.published}
    wanted = (
        "tremont gracemont sierraforest grandridge graniterapids graniterapids-d clearwaterforest arrowlake arrowlake-s"
    )
    assert newer == {*wanted.split(), "lunarlake", "pantherlake", "novalake", "wildcatlake", "knl", "knm"}
    assert all("popcnt" in target.needs for target in TARGETS if target.level >= 2)
    assert all(set(target.needs) == {"popcnt", "movbe", "abm"} for target in TARGETS if target.level >= 3)


@pytest.mark.parametrize(
    "name, gcc, clang",
    [
        ("znver4", "12.3", "16"),
        ("znver5", "14.1", "19.1"),
        ("raptorlake", "13", "16"),
        ("tigerlake", "10.1", "10"),
        ("sapphirerapids", "11.1", "12"),
        ("diamondrapids", "15", "20"),
    ],
)
def test_gates(name: str, gcc: str, clang: str) -> None:
    target = find_target(name, TARGETS)
    assert (target.gcc, target.clang) == (gcc, clang)
    assert target.accepted_by_version("gcc", gate_number(gcc))
    assert not target.accepted_by_version("gcc", gate_number(gcc) - 1)
    assert target.accepted_by_version("clang", gate_number(clang))
    assert not target.accepted_by_version("clang", gate_number(clang) - 1)


def test_a_compiler_that_lost_a_target_does_not_pass() -> None:
    assert find_target("knl", TARGETS).accepted_by_version("gcc", 140300)
    assert not find_target("knl", TARGETS).accepted_by_version("gcc", 150000)


@pytest.mark.parametrize(
    "word, name",
    [
        ("znver4", "znver4"),
        ("Zen 4", "znver4"),
        ("zen4", "znver4"),
        ("AMD Zen 4", "znver4"),
        ("MZEN4", "znver4"),
        ("X86-64-V3", "x86-64-v3"),
        ("haswell", "haswell"),
        ("skylake x", "skylake-avx512"),
    ],
)
def test_a_target_is_found_by_what_people_call_it(word: str, name: str) -> None:
    assert find_target(word, TARGETS).name == name


def test_what_is_no_target() -> None:
    with pytest.raises(UnknownName, match="unknown target: 'znver9'") as caught:
        find_target("znver9", TARGETS)
    assert "znver" in str(caught.value.hint)
    with pytest.raises(BadInput, match="adds only AVX-512"):
        find_target("x86-64-v4", TARGETS)
    with pytest.raises(UnknownName):
        find_target("GENERIC_CPU", TARGETS)


def test_flags_without_a_patch() -> None:
    bdver2, v3, novalake = (find_target(name, TARGETS) for name in ("bdver2", "x86-64-v3", "novalake"))
    assert build_flags(bdver2)["KCFLAGS"] == ("-march=bdver2", "-mno-tbm")
    assert build_flags(bdver2)["KRUSTFLAGS"] == ("-Ctarget-cpu=bdver2",)
    tuned = build_flags(v3, find_target("znver4", TARGETS))
    assert tuned["KCPPFLAGS"] == ("-march=x86-64-v3", "-mtune=znver4")
    assert tuned["KRUSTFLAGS"] == ("-Ctarget-cpu=x86-64-v3", "-Ztune-cpu=znver4")
    assert "KRUSTFLAGS" not in build_flags(novalake)
    with pytest.raises(BadInput, match="cannot tune for"):
        build_flags(bdver2, v3)


def test_extensions_are_what_macros_add() -> None:
    base = {"__SSE__", "__GNUC__"}
    found = extensions({*base, "__BMI2__", "__znver3__", "__FLT16_DIG__", "__SSE2_MATH__", "__AVX512F__"}, base)
    assert found == ("AVX512F", "BMI2")


@pytest.mark.parametrize("gate", ["", "x", "12.", "1.2.3"])
def test_what_is_no_gate(gate: str) -> None:
    with pytest.raises(BadInput, match="not a compiler version"):
        gate_number(gate)

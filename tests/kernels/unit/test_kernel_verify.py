# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from ktrial.kernels.uarch.target_files import load_targets
from ktrial.kernels.uarch.targets import Compiler, KernelTree, find_target
from ktrial.kernels.uarch.verify import verify_target
from ktrial.kit.errors import KtrialError, Refused

TARGETS = load_targets()
TREE = KernelTree(
    version="6.12.0",
    kconfig="mixed",
    makefile="list",
    rust=True,
    native=False,
    symbols=(*(target.symbol for target in TARGETS), "X86_64_VERSION"),
    carries=(),
    applied=True,
)
GCC_12 = Compiler(
    path="/usr/bin/gcc",
    kind="gcc",
    version="12.2.0",
    number=120200,
    native="znver3",
    accepted=tuple(target.name for target in TARGETS if target.accepted_by_version("gcc", 120200)),
    refused={target.name: "bad value" for target in TARGETS if not target.accepted_by_version("gcc", 120200)},
    extensions={},
    kept={},
)
ALL = msgspec.structs.replace(GCC_12, accepted=tuple(target.name for target in TARGETS))


class Build:
    """A tree that answers with a configuration and a command."""

    def __init__(self, config: Mapping[str, str], flags: str = "", rust: str = "", problem: str | None = None) -> None:
        self._config = config
        self._flags = flags
        self._rust = rust
        self._problem = problem
        self.fragment = ""
        self.drop: frozenset[str] = frozenset()

    def configure(self, fragment: str, drop: frozenset[str]) -> Mapping[str, str]:
        self.fragment, self.drop = fragment, drop
        return self._config

    def compile(self, target: str) -> bytes:
        first = f"  OBJTREE=/x rustc {self._rust} --emit=obj=rust/core.o core.rs\n" if self._rust else ""
        return f"{first}  gcc {self._flags} -c -o {target} x.c\n".encode()

    def why_no_rust(self) -> str | None:
        return self._problem


def test_a_level_that_holds_and_is_compiled() -> None:
    build = Build({"GENERIC_CPU": "y", "X86_64_VERSION": "3"}, "-march=x86-64-v3 -mtune=generic")
    found = verify_target(find_target("x86-64-v3", TARGETS), TARGETS, TREE, GCC_12, build, 2)
    assert (found.march, found.symbols) == ("-march=x86-64-v3", {"GENERIC_CPU": "y", "X86_64_VERSION": "3"})
    assert (found.rust, found.runs_here, found.command[-1]) == (False, False, "x.c")
    assert build.fragment.splitlines() == [
        "CONFIG_64BIT=y",
        "# CONFIG_X86_NATIVE_CPU is not set",
        "CONFIG_GENERIC_CPU=y",
        "CONFIG_X86_64_VERSION=3",
    ]
    assert {"X86_NATIVE_CPU", "X86_64_VERSION", "MK8", "MZEN5"} <= build.drop


@pytest.mark.parametrize(
    "name",
    [
        *("znver4", "znver5", "raptorlake", "meteorlake", "emeraldrapids", "diamondrapids", "sierraforest"),
        *("graniterapids", "arrowlake", "lunarlake"),
    ],
)
def test_a_target_that_the_compiler_lacks_is_refused_never_another_built(name: str) -> None:
    target = find_target(name, TARGETS)
    with pytest.raises(Refused, match=f"does not accept -march={name}: bad value") as caught:
        verify_target(target, TARGETS, TREE, GCC_12, Build({}), 4)
    assert caught.value.hint == f"use gcc {target.gcc} or newer, or clang {target.clang} or newer, which {name} needs"
    with pytest.raises(Refused) as caught:
        verify_target(target, TARGETS, TREE, ALL, Build({"MK8": "y"}), 4)
    assert caught.value.message == (
        f"cannot set {target.symbol}=y in this tree: gcc 12.2.0 fails the version check of {target.symbol}; "
        "the kernel would be built for MK8"
    )


def test_another_reason_is_not_called_the_compiler() -> None:
    with pytest.raises(Refused, match=r"the dependencies of MZEN3 in .* are not met") as caught:
        verify_target(find_target("znver3", TARGETS), TARGETS, TREE, GCC_12, Build({"GENERIC_CPU": "y"}), 4)
    assert "--set MZEN3=y" in str(caught.value.hint)


def test_a_tree_without_the_symbol_says_how_to_get_it() -> None:
    bare = msgspec.structs.replace(TREE, symbols=("MK8", "GENERIC_CPU"))
    with pytest.raises(Refused, match="has no symbol MZEN3") as caught:
        verify_target(find_target("znver3", TARGETS), TARGETS, bare, GCC_12, Build({}), 4)
    assert "--apply" in str(caught.value.hint)


@pytest.mark.parametrize(
    "flags, said",
    [
        ("-march=znver3 -march=x86-64", "got -march=znver3 -march=x86-64"),
        ("-march=native", "got -march=native"),
        ("-O2", "got no -march"),
        ("-march=znver3 -march=znver3", "got -march=znver3 -march=znver3"),
    ],
)
def test_what_is_compiled_with_anything_else_is_an_error(flags: str, said: str) -> None:
    with pytest.raises(KtrialError, match=said):
        verify_target(find_target("znver3", TARGETS), TARGETS, TREE, GCC_12, Build({"MZEN3": "y"}, flags), 4)


ZEN3 = find_target("znver3", TARGETS)
WITH_RUST = {"MZEN3": "y", "RUST": "y"}


def test_with_rust_on_an_object_of_rust_s_is_proven_too() -> None:
    build = Build(WITH_RUST, "-march=znver3", "-Copt-level=2 -C target-cpu=znver3")
    found = verify_target(ZEN3, TARGETS, TREE, GCC_12, build, 4, rust=True)
    assert (found.rust, found.rust_object, found.rust_cpu) == (True, "rust/core.o", "znver3")
    assert build.fragment.splitlines()[-1] == "CONFIG_RUST=y"


@pytest.mark.parametrize(
    "flags, said",
    [
        ("-Ctarget-cpu=x86-64 -Ctarget-cpu=znver3", "got -Ctarget-cpu=x86-64 -Ctarget-cpu=znver3"),
        ("-Copt-level=2", "got no target-cpu"),
        ("-Ctarget-cpu=native", "got -Ctarget-cpu=native"),
    ],
)
def test_rust_compiled_with_anything_else_is_an_error(flags: str, said: str) -> None:
    with pytest.raises(KtrialError, match=said):
        verify_target(ZEN3, TARGETS, TREE, GCC_12, Build(WITH_RUST, "-march=znver3", flags), 4)


def test_a_build_that_compiles_no_rust_proves_nothing() -> None:
    with pytest.raises(KtrialError, match="no rustc command writes that file") as caught:
        verify_target(ZEN3, TARGETS, TREE, GCC_12, Build(WITH_RUST, "-march=znver3"), 4)
    assert "`make V=1 rust/core.o`" in str(caught.value.hint)


@pytest.mark.parametrize(
    "config, problem, said, step",
    [
        ({}, "Rust bindings generator 'bindgen' could not be found", "'bindgen' could not be found", "install rustc, "),
        ({}, None, "a dependency of RUST in init/Kconfig is not met", "another --config"),
        ({"X86_64_TARGET_NOT_IN_RUSTC": "y"}, None, "the LLVM in rustc does not know znver3", "a newer rustc"),
    ],
)
def test_rust_that_cannot_be_had_is_refused_with_the_reason(
    config: dict[str, str], problem: str | None, said: str, step: str
) -> None:
    build = Build({"MZEN3": "y", **config}, problem=problem)
    with pytest.raises(Refused, match="cannot enable CONFIG_RUST in this tree: .*" + said) as caught:
        verify_target(ZEN3, TARGETS, TREE, GCC_12, build, 4, rust=True)
    assert step in str(caught.value.hint)


def test_a_target_that_rustc_cannot_be_told_is_refused_with_rust() -> None:
    target = next(one for one in TARGETS if one.c_only)
    with pytest.raises(Refused, match="rustc does not support everything that a kernel for"):
        verify_target(target, TARGETS, TREE, ALL, Build({}), 4, rust=True)

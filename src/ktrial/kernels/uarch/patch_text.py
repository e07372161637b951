# SPDX-License-Identifier: Apache-2.0
"""The text added to a kernel tree for its targets: Kconfig entries, compiler flags, required CPU features."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

from ktrial.kernels.uarch.targets import Feature, Target, gate_number
from ktrial.kernels.uarch.x86_makefile import FlagBlock

LEVEL = "X86_64_VERSION"
NOT_IN_RUSTC = "X86_64_TARGET_NOT_IN_RUSTC"
#: The LLVM of the oldest rustc that any kernel supports.
_OLDEST_LLVM = 140000
_HELP_COLUMNS = 68
#: The CPUID word of each feature, as early boot code numbers it.
WORDS: dict[Feature, int] = {"popcnt": 4, "movbe": 4, "abm": 6}
FEATURES: tuple[Feature, ...] = get_args(Feature)


class Facts:
    """The properties of a tree that determine the text: its own symbols, and its notation for required features."""

    def __init__(
        self, *, native: bool, rust: bool, rust_gate: bool, rust_first: bool, features_in_kconfig: bool
    ) -> None:
        self.native = native
        self.rust = rust
        self.rust_gate = rust_gate
        #: Whether the tree's native entry depends on Rust. Then targets depend on Rust too, and not Rust on targets,
        #: which would be a cycle.
        self.rust_first = rust_first
        self.features_in_kconfig = features_in_kconfig

    @property
    def sixty_four(self) -> str:
        """The condition on all added symbols."""
        return "X86_64 && !X86_NATIVE_CPU" if self.native else "X86_64"

    def feature_symbol(self, feature: Feature) -> str:
        """Return the symbol of a required feature: the tree's own symbol if the tree has one, otherwise ktrial's."""
        return f"X86_{'REQUIRED_FEATURE' if self.features_in_kconfig else '64_TARGET_NEEDS'}_{feature.upper()}"


def entries(targets: Iterable[Target], facts: Facts) -> str:
    return "\n".join(_entry(target, facts) for target in targets)


def _entry(target: Target, facts: Facts) -> str:
    lines = [f"config {target.symbol}", f'\tbool "{target.prompt}"', f"\tdepends on {facts.sixty_four}"]
    lines += [f"\tdepends on {gate}" for gate in (*_gates(target), *_rust_gates(target, facts))]
    what = f"Compile the kernel with -march={target.name}. It then runs only on CPUs with all of its instructions."
    lines += _help(f"{what} {target.note}".strip())
    return "\n".join(lines) + "\n"


def _gates(target: Target) -> Iterator[str]:
    gcc = f"CC_IS_GCC && GCC_VERSION >= {gate_number(target.gcc)}"
    if target.gcc_until is not None:
        gcc += f" && GCC_VERSION < {gate_number(target.gcc_until)}"
    yield f"({gcc}) || (CC_IS_CLANG && CLANG_VERSION >= {gate_number(target.clang)})"


def _rust_gates(target: Target, facts: Facts) -> Iterator[str]:
    gate = gate_number(target.clang)
    if facts.rust_first and target.c_only:
        yield "!RUST"
    elif facts.rust_first and facts.rust_gate and gate > _OLDEST_LLVM:
        yield f"!RUST || RUSTC_LLVM_VERSION >= {gate}"


def generic_entry(facts: Facts) -> str:
    """Return the Kconfig entry for any x86-64 CPU, for trees that lack this entry."""
    lines = ["config GENERIC_CPU", '\tbool "Any x86-64 CPU"', f"\tdepends on {facts.sixty_four}"]
    lines += _help(f"Compile the kernel for a level of x86-64, which {LEVEL} selects.")
    return "\n".join(lines) + "\n"


def choice(body: str, facts: Facts) -> str:
    """Return a separate choice for 64-bit code with the entries in `body`."""
    head = ["choice", '\tprompt "Target of 64-bit code"', f"\tdepends on {facts.sixty_four}", "\tdefault GENERIC_CPU"]
    head += _help("The CPU whose instructions the compiler may use.")
    return "\n" + "\n".join(head) + "\n\n" + body + "\nendchoice\n"


def level_entry(levels: Sequence[Target], facts: Facts) -> str:
    """Return the Kconfig entry for the level of generic code, which is 1 by default."""
    gated = next(target for target in levels if target.level > 1)
    lines = [f"config {LEVEL}", '\tint "x86-64 level of generic code"', "\trange 1 3", "\tdefault 1"]
    lines += [f"\tdepends on {facts.sixty_four}", "\tdepends on GENERIC_CPU"]
    lines += [f"\tdepends on {gate}" for gate in _gates(gated)]
    notes = " ".join(f"{target.level}: {target.note}" for target in levels if target.note)
    what = f"1: every x86-64 CPU. {notes} There is no 4: it adds only AVX-512, which kernel code must not use."
    return "\n" + "\n".join([*lines, *_help(what)]) + "\n"


def feature_entries(targets: Sequence[Target], facts: Facts) -> str:
    """Return Kconfig entries for the CPU features that early boot code checks."""
    parts = []
    for feature in FEATURES:
        needing = [target for target in targets if feature in target.needs]
        symbols = [target.symbol for target in needing if target.generic_level is None]
        levels = [f"{LEVEL} = {target.level}" for target in needing if target.generic_level is not None]
        lines = [f"config {facts.feature_symbol(feature)}", "\tdef_bool y", f"\tdepends on {facts.sixty_four}"]
        parts.append("\n".join([*lines, f"\tdepends on {' || '.join([*symbols, *levels])}"]) + "\n")
    return "\n" + "\n".join(parts)


def rustc_entry(targets: Sequence[Target], facts: Facts) -> str:
    """Return the Kconfig entry of a symbol that is on if rustc lacks the target; empty if rustc knows all targets.

    Rust depends on this symbol. If targets depended on Rust instead, that would close a cycle, because much that Rust
    needs depends on the CPU. In a tree that has already broken this cycle, targets do depend on Rust.
    """
    parts = []
    for target in targets:
        level = target.generic_level
        chosen = target.symbol if level is None else f"{LEVEL} = {level}"
        gate = gate_number(target.clang)
        if target.c_only:
            parts.append(chosen)
        elif facts.rust_gate and gate > _OLDEST_LLVM:
            parts.append(f"({chosen} && RUSTC_LLVM_VERSION < {gate})")
    lines = [f"config {NOT_IN_RUSTC}", "\tdef_bool y", f"\tdepends on {facts.sixty_four}"]
    return "\n" + "\n".join([*lines, f"\tdepends on {' || '.join(parts)}"]) + "\n" if parts else ""


def shift_lines(targets: Sequence[Target], *, covered: bool) -> str:
    """Return the Kconfig defaults for the cache line size of new targets: 64 bytes, but 128 for Nocona, as upstream.

    `covered` means that the tree already sets 64 bytes.
    """
    long_line = [target.symbol for target in targets if target.symbol == "MPSC"]
    others = [target.symbol for target in targets if target.symbol not in (*long_line, "GENERIC_CPU")]
    lines = [f'\tdefault "7" if X86_64 && {symbol}' for symbol in long_line]
    if not covered:
        lines.append(f'\tdefault "6" if X86_64 && ({" || ".join(others)})')
    return "\n".join(lines)


def flag_lines(targets: Sequence[Target], block: FlagBlock) -> str:
    """Return the Makefile lines that set the flags of each target.

    An empty level means 1. A tree that passes -march=x86-64 itself keeps this flag for level 1.
    """
    named = block.shape in ("direct", "native")
    suffix = f"$(addprefix -v,$(filter 2 3,$(CONFIG_{LEVEL})))"
    micro = [target for target in targets if target.generic_level is None]
    generic = "$(addprefix -march=x86-64-v,$(filter 2 3,{}))" if named else f"-march=x86-64{suffix}"
    rust_generic = "$(addprefix -Ctarget-cpu=x86-64-v,$(filter 2 3,{}))" if named else f"-Ctarget-cpu=x86-64{suffix}"
    value = f"$(CONFIG_{LEVEL})"
    lines = [f"uarch-cflags-$(CONFIG_GENERIC_CPU) += {generic.format(value) if named else generic}"]
    lines += [f"uarch-cflags-$(CONFIG_{one.symbol}) += {' '.join(one.c_flags)}" for one in micro]
    if block.rust:
        rust_flag = rust_generic.format(value) if named else rust_generic
        lines.append(f"uarch-rustflags-$(CONFIG_GENERIC_CPU) += {rust_flag}")
        lines += [
            f"uarch-rustflags-$(CONFIG_{one.symbol}) += -Ctarget-cpu={one.rust_cpu}" for one in micro if not one.c_only
        ]
    use = ["KBUILD_CFLAGS += $(uarch-cflags-y)", *(["KBUILD_RUSTFLAGS += $(uarch-rustflags-y)"] * block.rust)]
    if not named:
        return "\n".join(block.indent + line for line in (*lines, *use))
    indented = [block.indent + line for line in (*lines, "ifneq ($(strip $(uarch-cflags-y)),)", *use, "else")]
    return "\n".join(indented)


def mask_lines(old: dict[int, str]) -> str:
    """Return the required-feature masks: the `old` value of each word plus the features of the target."""
    lines = []
    for feature in FEATURES:
        name = feature.upper()
        lines += [f"#ifdef CONFIG_X86_64_TARGET_NEEDS_{name}"]
        lines += [f"# define NEED_TARGET_{name}\t(1<<(X86_FEATURE_{name} & 31))", "#else"]
        lines += [f"# define NEED_TARGET_{name}\t0", "#endif"]
    for word, value in sorted(old.items()):
        needs = "|".join(f"NEED_TARGET_{feature.upper()}" for feature in FEATURES if WORDS[feature] == word)
        lines += [f"#undef REQUIRED_MASK{word}", f"#define REQUIRED_MASK{word}\t({value}|{needs})"]
    return "\n".join(lines)


def _help(text: str) -> list[str]:
    return ["\thelp", *(f"\t  {line}" for line in textwrap.wrap(text, _HELP_COLUMNS, break_on_hyphens=False))]

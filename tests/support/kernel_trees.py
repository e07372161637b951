# SPDX-License-Identifier: Apache-2.0
"""Kernel trees reduced to the files that decide which CPU they are compiled for, in all shapes of real kernels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ktrial.kernels.uarch.patch import FEATURES, INIT, KCONFIG, MAKEFILE, MASKS, TOP

OWN = ("MK8", "MPSC", "MCORE2", "MATOM")


@dataclass(frozen=True)
class Shape:
    """The common features of kernels in a range of versions."""

    version: str
    kconfig: str
    makefile: str
    rust: bool = False
    rust_gate: bool = False
    rust_first: bool = False
    old_vermagic: bool = False
    old_help: bool = False


SHAPES = {
    shape.version: shape
    for shape in (
        Shape("4.19.0", "mixed", "cc-option", old_vermagic=True, old_help=True),
        Shape("5.10.0", "mixed", "cc-option"),
        Shape("5.15.0", "mixed", "list"),
        Shape("6.6.0", "mixed", "list", rust=True),
        Shape("6.14.0", "mixed", "list", rust=True, rust_gate=True),
        Shape("6.15.0", "32-bit", "direct", rust=True, rust_gate=True),
        Shape("6.16.0", "native", "native", rust=True, rust_gate=True),
        Shape("7.2.0-rc1", "native", "native", rust=True, rust_gate=True),
        Shape("7.2.0", "native", "native", rust=True, rust_gate=True, rust_first=True),
    )
}


def files(shape: Shape) -> dict[str, str]:
    """Return the files of such a tree by path."""
    release, _, extra = shape.version.partition("-")
    major, minor, patch = release.split(".")
    extra = f"-{extra}" if extra else ""
    found = {
        TOP: f"VERSION = {major}\nPATCHLEVEL = {minor}\nSUBLEVEL = {patch}\nEXTRAVERSION = {extra}\n",
        KCONFIG: kconfig(shape),
        MAKEFILE: makefile(shape),
        INIT: init(shape),
    }
    if shape.kconfig == "mixed":
        found[MASKS] = "#define REQUIRED_MASK4\t(NEED_MOVBE)\n#define REQUIRED_MASK5\t0\n#define REQUIRED_MASK6\t0\n"
    else:
        found[FEATURES] = "config X86_REQUIRED_FEATURE_MOVBE\n\tdef_bool y\n\tdepends on MATOM\n"
    header = "arch/x86/include/asm/" + ("module.h" if shape.old_vermagic else "vermagic.h")
    found[header] = (
        "#ifndef _ASM_HEADER\n#ifdef CONFIG_X86_64\n/* nothing */\n#elif defined CONFIG_M686\n"
        '#define MODULE_PROC_FAMILY "686 "\n#endif\n#endif\n'
    )
    return found


def write(shape: Shape, folder: Path) -> Path:
    """Write the tree into a folder."""
    for path, text in files(shape).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def kconfig(shape: Shape) -> str:
    """Return the Kconfig file of processors."""
    word = "---help---" if shape.old_help else "help"
    mixed = shape.kconfig == "mixed"
    lines = ["# Choices", "choice", '\tprompt "Family"']
    lines += ["\tdefault M686 if X86_32", "\tdefault GENERIC_CPU if X86_64"] if mixed else []
    lines += ["\tdepends on X86_32", "\tdefault M686"] * (not mixed)
    lines += [f"\t{word}", "\t  What it is.", "", '\t  - "config" and choice are words of this text.', ""]
    only_32 = ["\tdepends on X86_32"] * mixed
    for symbol in ("M586", "M686"):
        lines += [f"config {symbol}", f'\tbool "{symbol}"', *only_32, f"\t{word}", f"\t  {symbol} it is.", ""]
    for symbol in OWN if mixed else ("MATOM",):
        lines += [f"config {symbol}", f'\tbool "{symbol}"', ""]
    if mixed:
        lines += ["config GENERIC_CPU", '\tbool "Any"', "\tdepends on X86_64", f"\t{word}", "\t  Any.", ""]
    lines += ["endchoice", ""]
    if shape.kconfig == "native":
        asks = ["\tdepends on !RUST || RUSTC_LLVM_VERSION >= 200100"] * shape.rust_first
        lines += ["config X86_NATIVE_CPU", '\tbool "This CPU"', "\tdepends on X86_64", *asks]
        lines += ["\thelp", "\t  As it is.", ""]
    own = "MK8 || MCORE2 || MATOM || GENERIC_CPU" if mixed else "MATOM || X86_64"
    lines += ["config X86_L1_CACHE_SHIFT", "\tint", *(['\tdefault "7" if MPSC'] * mixed)]
    lines += [f'\tdefault "6" if {own}', '\tdefault "5" if M686 || M586', ""]
    return "\n".join(lines)


def makefile(shape: Shape) -> str:
    """Return the Makefile with compiler flags."""
    pad = " " * 8
    lines = ["ifeq ($(CONFIG_X86_32),y)", f"{pad}KBUILD_CFLAGS += -m32", f"{pad}KBUILD_CFLAGS += $(cflags-y)", "else"]
    lines += [f"{pad}KBUILD_CFLAGS += -m64", ""]
    marches = {"MK8": "k8", "MPSC": "nocona", "MCORE2": "core2", "MATOM": "atom"}
    if shape.makefile in ("cc-option", "list"):
        for symbol, march in marches.items():
            flag = f"-march={march}" if shape.makefile == "list" else f"$(call cc-option,-march={march})"
            lines.append(f"{pad}cflags-$(CONFIG_{symbol}) += {flag}")
        lines += [f"{pad}cflags-$(CONFIG_GENERIC_CPU) += -mtune=generic", f"{pad}KBUILD_CFLAGS += $(cflags-y)", ""]
        if shape.rust:
            lines += [f"{pad}rustflags-$(CONFIG_{name}) += -Ctarget-cpu={march}" for name, march in marches.items()]
            lines += [f"{pad}rustflags-$(CONFIG_GENERIC_CPU) += -Ztune-cpu=generic"]
            lines += [f"{pad}KBUILD_RUSTFLAGS += $(rustflags-y)", ""]
    else:
        native = shape.makefile == "native"
        lines += ["ifdef CONFIG_X86_NATIVE_CPU", f"{pad}KBUILD_CFLAGS += -march=native"] * native
        lines += [f"{pad}KBUILD_RUSTFLAGS += -Ctarget-cpu=native", "else"] * native
        lines += [f"{pad}KBUILD_CFLAGS += -march=x86-64 -mtune=generic"]
        lines += [f"{pad}KBUILD_RUSTFLAGS += -Ctarget-cpu=x86-64 -Ztune-cpu=generic", *(["endif"] * native), ""]
    lines += [f"{pad}KBUILD_CFLAGS += -mno-red-zone", f"{pad}KBUILD_CFLAGS += -mcmodel=kernel", "endif", ""]
    return "\n".join(lines)


def init(shape: Shape) -> str:
    """Return the Kconfig file that finds out which compilers there are."""
    lines = ["config CC_IS_GCC", "\tdef_bool y", ""]
    if shape.rust_gate:
        lines += ["config RUSTC_LLVM_VERSION", "\tint", "\tdefault $(RUSTC_LLVM)", ""]
    if shape.rust:
        lines += ["config RUST", '\tbool "Rust"', "\tdepends on CC_IS_GCC", "\tdepends on M686 || X86_64", ""]
    return "\n".join(lines)

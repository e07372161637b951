# SPDX-License-Identifier: Apache-2.0
"""The targets of x86-64 kernels, which compilers accept them, and which extensions kernel code can use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from ktrial.kit.errors import BadInput, UnknownName

CompilerKind = Literal["gcc", "clang"]
#: CPU features that early boot code can check, in the kernel's spelling.
Feature = Literal["popcnt", "movbe", "abm"]

#: The flags of all 64-bit kernel code: it must not use vector registers.
KERNEL_FLAGS = ("-mno-sse", "-mno-mmx", "-mno-sse2", "-mno-3dnow", "-mno-avx")
#: The target whose code runs on every x86-64 CPU.
BASE = "x86-64"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_SYMBOL = re.compile(r"[A-Z][A-Z0-9_]*")
_VERSION = re.compile(r"(\d{1,3})(?:\.(\d{1,2}))?", re.ASCII)
_EXTENSION = re.compile(r"__([A-Z][A-Z0-9_]*)__")
#: Macros that match these patterns do not stand for instructions.
_NO_EXTENSION = re.compile(r"B?FLT\d+|FP_FAST|GCC_|\w+_MATH$|\w+_WITH_SSE$")


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A value of `-march` that a kernel configuration can offer.

    `symbol` is the Kconfig symbol; the levels of x86-64 share GENERIC_CPU. `gcc` and `clang` (also the LLVM in rustc)
    are the first versions that know the target, `gcc_until` the first gcc without it. `flags` go to the C compiler
    only; rustc does not support all that a `c_only` target needs. `level` is the x86-64 level that the target includes.
    `needs` are features of the target that a compiler uses on its own and early boot code can check.
    """

    name: str
    prompt: str
    family: str
    symbol: str
    level: int
    gcc: str
    clang: str
    needs: tuple[Feature, ...] = ()
    rust: str | None = None
    gcc_until: str | None = None
    flags: tuple[str, ...] = ()
    c_only: bool = False
    published: bool = True
    note: str = ""

    @property
    def rust_cpu(self) -> str:
        return self.rust or self.name

    @property
    def generic_level(self) -> int | None:
        """The required value of X86_64_VERSION; None for a microarchitecture."""
        return self.level if self.symbol == "GENERIC_CPU" else None

    @property
    def wanted(self) -> dict[str, str]:
        """The symbols of a configuration that selects this target, with their values."""
        level = self.generic_level
        return {self.symbol: "y"} if level is None else {self.symbol: "y", "X86_64_VERSION": str(level)}

    @property
    def c_flags(self) -> tuple[str, ...]:
        return (f"-march={self.name}", *self.flags)

    def accepted_by_version(self, kind: CompilerKind, version: int) -> bool:
        """Return whether the Kconfig gates of the target accept this compiler version."""
        if kind == "clang":
            return version >= gate_number(self.clang)
        before = self.gcc_until is None or version < gate_number(self.gcc_until)
        return version >= gate_number(self.gcc) and before

    def check(self) -> None:
        if not _NAME.fullmatch(self.name) or (self.rust is not None and not _NAME.fullmatch(self.rust)):
            raise BadInput(f"{self.name!r} is not a valid value of -march", hint="use a name that gcc -march= accepts")
        if not _SYMBOL.fullmatch(self.symbol):
            raise BadInput(f"{self.symbol!r} is not a Kconfig symbol", hint="write capital letters, digits and _")
        for gate in (self.gcc, self.clang, self.gcc_until):
            if gate is not None:
                gate_number(gate)
        if self.level not in (1, 2, 3, 4):
            raise BadInput(
                f"{self.name}: expected a level from 1 to 4, got {self.level}",
                hint="write the x86-64 level that the target includes",
            )


#: The `-march=native` entries for a tree without X86_NATIVE_CPU: chosen by symbol, never by default.
NATIVE = tuple(
    Target(
        name="native",
        prompt=f"{vendor}-Native (the CPU that compiles it)",
        family="This CPU",
        symbol=f"MNATIVE_{vendor.upper()}",
        level=1,
        gcc="4.9",
        clang="3.9",
        flags=(*flags, "$(call cc-option,-mno-apxf)"),
        note="Early boot code does not check for them. Choose this only for the machine that compiles the kernel.",
    )
    for vendor, flags in (("Intel", ()), ("AMD", ("-mno-tbm",)))
)


class KernelTree(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a kernel's sources. `kconfig` and `makefile` are the shapes of the files that define targets.

    `carries` are symbols from other people's patches; `applied` is true if the tree has ktrial's own patch. `symbols`
    are all symbols in the Kconfig file for processors.
    """

    version: str
    kconfig: str
    makefile: str
    rust: bool
    native: bool
    symbols: tuple[str, ...]
    carries: tuple[str, ...]
    applied: bool


class VerifiedTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target that a tree builds for: the symbols that Kconfig accepted, and the command that compiled an object.

    If Rust is on, `rust_object` was compiled with `rust_cpu` too.
    """

    target: str
    kernel: str
    compiler: str
    symbols: Mapping[str, str]
    object: str
    march: str
    command: tuple[str, ...]
    rust: bool
    runs_here: bool | None
    rust_object: str | None = None
    rust_cpu: str | None = None


class Compiler(msgspec.Struct, frozen=True, kw_only=True):
    """A C compiler: its name for this CPU, and the targets for which it compiled an empty file.

    `extensions` is what each target adds to x86-64, as the compiler's macros show. `kept` is the part that remains
    under the kernel's own flags.
    """

    path: str
    kind: CompilerKind
    version: str
    number: int
    native: str | None
    accepted: tuple[str, ...]
    refused: Mapping[str, str]
    extensions: Mapping[str, tuple[str, ...]]
    kept: Mapping[str, tuple[str, ...]]


class RustCompiler(msgspec.Struct, frozen=True, kw_only=True):
    """A rustc: its name for this CPU, and the targets that it accepts."""

    path: str
    version: str
    llvm: int
    native: str | None
    accepted: tuple[str, ...]


def gate_number(gate: str) -> int:
    """Return a version as Kconfig encodes it: `15.1` -> 150100."""
    match = _VERSION.fullmatch(gate)
    if match is None:
        raise BadInput(f"{gate!r} is not a compiler version", hint="write 12 or 15.1")
    return int(match[1]) * 10_000 + int(match[2] or 0) * 100


def version_text(number: int) -> str:
    """Return an encoded version as text: 120200 -> 12.2.0."""
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"


def extensions(macros: Iterable[str], base: Iterable[str]) -> tuple[str, ...]:
    """Return the instruction set extensions in `macros` that `base` lacks, without their underscores."""
    found = (_EXTENSION.fullmatch(name) for name in set(macros) - set(base))
    return tuple(sorted(match[1] for match in found if match and not _NO_EXTENSION.match(match[1])))


def find_target(word: str, targets: Iterable[Target]) -> Target:
    """Return the target with this -march, symbol or prompt (`znver4`, `MZEN4`, `zen4`, `zen 4`)."""
    known = tuple(targets)
    wanted = _folded(word)
    if wanted == "x86-64-v4":
        raise BadInput(
            "x86-64-v4 is not supported: it adds only AVX-512, which kernel code cannot use, to x86-64-v3",
            hint="use x86-64-v3",
        )
    for target in known:
        symbol = target.symbol.lower()
        called = (symbol, symbol.removeprefix("m")) if target.generic_level is None else ()
        if wanted in (target.name, _folded(target.prompt), *called):
            return target
    short = [target for target in known if wanted == _folded(target.prompt).partition("-")[2]]
    if len(short) == 1:
        return short[0]
    names = [name for target in known for name in (target.name, target.symbol)]
    raise UnknownName("target", word, dict.fromkeys(names), hint="run `ktrial kernel uarch list` to list targets")


def native_target(compiler: Compiler, level: int | None, targets: Iterable[Target]) -> Target:
    """Return the target that `native` means here: the compiler's name for this CPU, or else the CPU's level.

    The compiler may have no name for this CPU, or a name that implies instructions that a hypervisor hides.
    """
    known = {target.name: target for target in targets}
    called = known.get(compiler.native or "", known[BASE])
    has = min(level or 1, 3)
    if called.generic_level is None and (level is None or min(called.level, 3) <= has):
        return called
    return next(target for target in known.values() if target.generic_level == has)


def native_words(compiler: Compiler, found: Target) -> str:
    """Return the meaning of `native`, with the reason if it is not the compiler's name for this CPU."""
    head = f"native is {found.name} here, for {compiler.kind} {compiler.version}"
    if compiler.native in (None, BASE) and found.name != BASE:
        return f"{head}: the compiler has no name for this CPU, and ktrial uses the CPU's level"
    if compiler.native not in (None, BASE, found.name):
        return (
            f"{head}: the compiler calls this CPU {compiler.native}, but the CPU lacks some instructions of that "
            "target, or ktrial does not know the name"
        )
    return head


def native_entry(tree: KernelTree, called: Target) -> Target:
    """Return the entry for -march=native in a tree; `called` is the target that `native` means on this machine."""
    if tree.native:
        return msgspec.structs.replace(NATIVE[0], symbol="X86_NATIVE_CPU", flags=())
    return NATIVE[called.family.startswith("AMD")]


def build_flags(target: Target, tune: Target | None = None) -> dict[str, tuple[str, ...]]:
    """Return the flags to append to each kbuild variable. Raise BadInput if `tune` is a level and not a CPU."""
    if tune is not None and tune.generic_level is not None:
        raise BadInput(f"cannot tune for {tune.name}: it is not a CPU", hint="use a microarchitecture, such as znver3")
    c_flags = target.c_flags if tune is None else (*target.c_flags, f"-mtune={tune.name}")
    flags = {"KCFLAGS": c_flags, "KCPPFLAGS": c_flags}
    if target.c_only:
        return flags
    rust = (f"-Ctarget-cpu={target.rust_cpu}", *(() if tune is None else (f"-Ztune-cpu={tune.rust_cpu}",)))
    return {**flags, "KRUSTFLAGS": rust}


def _folded(word: str) -> str:
    return "-".join(re.sub(r"[(),/]", " ", word.lower()).split())

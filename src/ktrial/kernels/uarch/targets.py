# SPDX-License-Identifier: Apache-2.0
"""Targets that a kernel for x86-64 can be built for, what compilers accept, and what is left in the kernel's code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from ktrial.kit.errors import BadInput, UnknownName

CompilerKind = Literal["gcc", "clang"]
#: What early boot code can ask a CPU for, in the kernel's spelling.
Feature = Literal["popcnt", "movbe", "abm"]

#: What the kernel gives all its 64-bit code: none of it may touch vector registers.
KERNEL_FLAGS = ("-mno-sse", "-mno-mmx", "-mno-sse2", "-mno-3dnow", "-mno-avx")
#: The target whose code runs on every x86-64 CPU.
BASE = "x86-64"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_SYMBOL = re.compile(r"[A-Z][A-Z0-9_]*")
_VERSION = re.compile(r"(\d{1,3})(?:\.(\d{1,2}))?", re.ASCII)
_EXTENSION = re.compile(r"__([A-Z][A-Z0-9_]*)__")
#: Macros of that form that tell of something else than instructions.
_NO_EXTENSION = re.compile(r"B?FLT\d+|FP_FAST|GCC_|\w+_MATH$|\w+_WITH_SSE$")


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One thing that `-march` takes, as a kernel option.

    `symbol` is the Kconfig symbol; the levels of x86-64 share GENERIC_CPU. `gcc` and `clang` (and the LLVM in rustc)
    are the first versions that know it, `gcc_until` the first gcc that no longer does. `flags` go to the C compiler
    only; a `c_only` target cannot be told to rustc with all that the kernel needs. `level` is the x86-64 level whose
    instructions the target has, `needs` those of them that a compiler uses of its own accord and that early boot code
    can ask for.
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
        """The level that X86_64_VERSION must have; None of a microarchitecture."""
        return self.level if self.symbol == "GENERIC_CPU" else None

    @property
    def wanted(self) -> dict[str, str]:
        """Symbol -> value that a configuration has when this was chosen."""
        level = self.generic_level
        return {self.symbol: "y"} if level is None else {self.symbol: "y", "X86_64_VERSION": str(level)}

    @property
    def c_flags(self) -> tuple[str, ...]:
        return (f"-march={self.name}", *self.flags)

    def accepted_by_version(self, kind: CompilerKind, version: int) -> bool:
        """Return whether its gates let a compiler of this version pass."""
        if kind == "clang":
            return version >= gate_number(self.clang)
        before = self.gcc_until is None or version < gate_number(self.gcc_until)
        return version >= gate_number(self.gcc) and before

    def check(self) -> None:
        if not _NAME.fullmatch(self.name) or (self.rust is not None and not _NAME.fullmatch(self.rust)):
            raise BadInput(f"{self.name!r} is not a name that -march takes")
        if not _SYMBOL.fullmatch(self.symbol):
            raise BadInput(f"{self.symbol!r} is no Kconfig symbol")
        for gate in (self.gcc, self.clang, self.gcc_until):
            if gate is not None:
                gate_number(gate)
        if self.level not in (1, 2, 3, 4):
            raise BadInput(f"level {self.level} of {self.name}: there are 1 to 4")


#: What a tree without X86_NATIVE_CPU is given for `-march=native`: asked for by symbol, never by default.
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
        note="Early boot code asks for none of them: take it for the machine that compiles it.",
    )
    for vendor, flags in (("Intel", ()), ("AMD", ("-mno-tbm",)))
)


class KernelTree(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel's sources: the shapes of the two files that matter, and what they have already.

    `carries` are symbols of somebody else's patch, `applied` tells whether ktrial's own is in; `symbols` are all that
    the file of processors defines.
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
    """A target that a tree builds for: what was asked of Kconfig and held, and the command that compiled an object.

    Where Rust is on, `rust_object` was compiled with `rust_cpu` too.
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
    """A C compiler: what it calls this CPU, and the targets that it compiled an empty unit for.

    `extensions` are what each target has beyond x86-64, `kept` those of them under the kernel's own flags, both as the
    compiler's macros say.
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
    """A rustc: what it calls this CPU, and the targets that it lists."""

    path: str
    version: str
    llvm: int
    native: str | None
    accepted: tuple[str, ...]


def gate_number(gate: str) -> int:
    """`15.1` -> 150100, as the kernel's configuration counts versions."""
    match = _VERSION.fullmatch(gate)
    if match is None:
        raise BadInput(f"{gate!r} is not a version of a compiler", hint="write 12 or 15.1")
    return int(match[1]) * 10_000 + int(match[2] or 0) * 100


def version_text(number: int) -> str:
    """120200 -> 12.2.0."""
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"


def extensions(macros: Iterable[str], base: Iterable[str]) -> tuple[str, ...]:
    """Return the instruction set extensions among `macros` that are not in `base`, without their underscores."""
    found = (_EXTENSION.fullmatch(name) for name in set(macros) - set(base))
    return tuple(sorted(match[1] for match in found if match and not _NO_EXTENSION.match(match[1])))


def find_target(word: str, targets: Iterable[Target]) -> Target:
    """The target that a person means: its -march, its symbol or its prompt (`znver4`, `MZEN4`, `zen4`, `zen 4`)."""
    known = tuple(targets)
    wanted = _folded(word)
    if wanted == "x86-64-v4":
        raise BadInput(
            "x86-64-v4 is not offered: it adds only AVX-512 to x86-64-v3, which the kernel's own flags take away",
            hint="take x86-64-v3",
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
    raise UnknownName("target", word, dict.fromkeys(names), hint="`ktrial kernel uarch list` lists them")


def native_target(compiler: Compiler, level: int | None, targets: Iterable[Target]) -> Target:
    """Return what native is here: the compiler's name for this CPU, or the CPU's level where that name does not fit it.

    A compiler may know no name, or one whose instructions a hypervisor hides in part.
    """
    known = {target.name: target for target in targets}
    called = known.get(compiler.native or "", known[BASE])
    has = min(level or 1, 3)
    if called.generic_level is None and (level is None or min(called.level, 3) <= has):
        return called
    return next(target for target in known.values() if target.generic_level == has)


def native_words(compiler: Compiler, found: Target) -> str:
    """Return what native became, and why where it is not what the compiler calls this CPU."""
    head = f"native is {found.name} here, for {compiler.kind} {compiler.version}"
    if compiler.native in (None, BASE) and found.name != BASE:
        return f"{head}: it has no name for this CPU, and this is the CPU's level"
    if compiler.native not in (None, BASE, found.name):
        return (
            f"{head}: it calls this CPU {compiler.native}, of which the CPU lacks instructions or ktrial knows nothing"
        )
    return head


def native_entry(tree: KernelTree, called: Target) -> Target:
    """Return the symbol of a tree that stands for -march=native; `called` is what native is here."""
    if tree.native:
        return msgspec.structs.replace(NATIVE[0], symbol="X86_NATIVE_CPU", flags=())
    return NATIVE[called.family.startswith("AMD")]


def build_flags(target: Target, tune: Target | None = None) -> dict[str, tuple[str, ...]]:
    """Variables of a kernel's build -> flags that it puts behind its own."""
    if tune is not None and tune.generic_level is not None:
        raise BadInput(f"{tune.name} is no CPU to tune for", hint="give a microarchitecture, such as znver3")
    c_flags = target.c_flags if tune is None else (*target.c_flags, f"-mtune={tune.name}")
    flags = {"KCFLAGS": c_flags, "KCPPFLAGS": c_flags}
    if target.c_only:
        return flags
    rust = (f"-Ctarget-cpu={target.rust_cpu}", *(() if tune is None else (f"-Ztune-cpu={tune.rust_cpu}",)))
    return {**flags, "KRUSTFLAGS": rust}


def _folded(word: str) -> str:
    return "-".join(re.sub(r"[(),/]", " ", word.lower()).split())

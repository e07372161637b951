# SPDX-License-Identifier: Apache-2.0
"""The compilers in PATH: their versions and the targets they accept, cached per binary."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from ktrial.kernels.images.architectures import host_architecture
from ktrial.kernels.uarch import arm_targets
from ktrial.kernels.uarch import targets as uarch
from ktrial.kernels.uarch.arm_targets import CpuTarget
from ktrial.kernels.uarch.compiler_output import (
    read_clang_cpu,
    read_gcc_march,
    read_macros,
    read_rust_cpus,
    read_rustc_version,
    version_number,
)
from ktrial.kernels.uarch.targets import Compiler, CompilerKind, RustCompiler, Target
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.formats.tool_output import with_hint

T = TypeVar("T")
_LIMIT_S = 60.0
_DEFINES = ("-dM", "-E", "-x", "c", os.devnull)
_OBJECT = ("-c", "-x", "c", os.devnull, "-o", os.devnull)
_VERSION_MACROS = {
    "gcc": ("__GNUC__", "__GNUC_MINOR__", "__GNUC_PATCHLEVEL__"),
    "clang": ("__clang_major__", "__clang_minor__", "__clang_patchlevel__"),
}
#: What rustc's LLVM prints about an unknown CPU.
_UNKNOWN_CPU = b"is not a recognized processor"
#: Part of each cache key. A new value invalidates all cached answers.
_SHAPE = "ktrial.compiler/2"


class Builds(NamedTuple):
    """How to query compilers for one architecture.

    A compiler that defines `macro` builds for this architecture. `flag` is the option that selects a target; code for
    the target `base` runs on every CPU. `kernel_flags` apply to all kernel code. `told_by` finds in macros what a
    target adds.
    """

    architecture: str
    words: str
    macro: str
    flag: str
    base: str
    kernel_flags: tuple[str, ...]
    told_by: Callable[[Iterable[str], Iterable[str]], tuple[str, ...]]

    @property
    def clang_words(self) -> tuple[str, ...]:
        """The flags that make this machine's clang build for the architecture."""
        foreign = self.architecture != host_architecture()
        return (f"--target={self.architecture}-linux-gnu",) if foreign else ()

    @property
    def program(self) -> re.Pattern[str]:
        """A pattern for the names of programs that may be compilers for the architecture."""
        prefix = f"{self.architecture.replace('_', '[-_]')}-(?:[a-z]+-)?linux-gnu-"
        return re.compile(rf"(?:(?:{prefix})?gcc|clang)(?:-\d{{1,3}})?", re.ASCII)


X86_64 = Builds("x86_64", "x86-64", "__x86_64__", "-march=", uarch.BASE, uarch.KERNEL_FLAGS, uarch.extensions)
ARM64 = Builds(
    "aarch64", "arm64", "__aarch64__", "-mcpu=", arm_targets.BASE, arm_targets.KERNEL_FLAGS, arm_targets.features
)


class Compilers:
    """Queries compilers. `cache` is a folder for their answers; `say` gets a warning about each compiler that fails."""

    def __init__(
        self, cache: Path, targets: Sequence[Target | CpuTarget], say: Callable[[str], None], builds: Builds = X86_64
    ) -> None:
        self._cache = cache
        self._say = say
        self._targets = tuple(targets)
        self._builds = builds

    def find(self, names: Iterable[str] = ()) -> list[Compiler]:
        """Return the named compilers or, without names, all compilers in PATH for this architecture, each binary once.

        Raise BadInput if a named compiler is missing or cannot build for this architecture.
        """
        wanted = tuple(names)
        words = self._builds.words
        found: dict[Path, Compiler] = {}
        for name in wanted or _in_path(self._builds.program):
            path = shutil.which(name)
            if path is None:
                raise BadInput(f"{name}: no such program", hint="install the compiler, or give its path with --cc")
            real = Path(path).resolve()
            if real in found:
                continue
            ask = partial(self._cached, real, path)
            answer = ask() if wanted else self._left_out(path, ask)
            if answer is not None:
                found[real] = answer
            elif wanted:
                raise BadInput(f"{name} cannot build for {words}", hint=f"use a gcc or clang for {words} with --cc")
        return list(found.values())

    def rustc(self, name: str = "rustc") -> RustCompiler | None:
        """Return rustc's version and the targets that it accepts; None without a working rustc."""
        path = shutil.which(name)
        return None if path is None else self._left_out(path, partial(self._rustc, path))

    def _left_out(self, path: str, ask: Callable[[], T]) -> T | None:
        """Return the result of `ask`; if it fails, warn and return None."""
        try:
            return ask()
        except KtrialError as error:
            self._say(f"skipping {path}: {error.message}")
            return None

    def _rustc(self, path: str) -> RustCompiler:
        version = read_rustc_version(_output_of(path, "-vV"))
        triple = f"{self._builds.architecture}-unknown-linux-gnu"
        cpus = read_rust_cpus(_output_of(path, "--print", "target-cpus", "--target", triple))
        known = set(cpus.names)
        accepted = tuple(
            target.name
            for target in self._targets
            if target.rust_cpu in known or _knows_alias(path, target.rust_cpu, triple)
        )
        return RustCompiler(path=path, version=version.text, llvm=version.llvm, native=cpus.native, accepted=accepted)

    def _cached(self, real: Path, path: str) -> Compiler | None:
        status = real.stat()
        asked = (_SHAPE, str(real), status.st_size, status.st_mtime_ns, self._builds[:-1], self._targets)
        kept = self._cache / f"{hashlib.sha256(msgspec.msgpack.encode(asked)).hexdigest()[:32]}.msgpack"
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.structs.replace(msgspec.msgpack.decode(kept.read_bytes(), type=Compiler), path=path)
        with with_hint("name another compiler with --cc"):
            answer = _query(path, self._builds, self._targets)
        if answer is not None:
            _keep(kept, msgspec.msgpack.encode(answer))
        return answer


def _knows_alias(path: str, cpu: str, triple: str) -> bool:
    """Return whether rustc accepts a CPU that it does not list, such as an alias. For unknown CPUs rustc only warns."""
    done = _run(path, "--print", "cfg", f"-Ctarget-cpu={cpu}", "--target", triple)
    return done.returncode == 0 and _UNKNOWN_CPU not in done.stderr


def _keep(path: Path, data: bytes) -> None:
    """Cache an answer. If that fails, ktrial queries the compiler again next time."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.write_bytes(data)
        part.replace(path)


def _in_path(program: re.Pattern[str]) -> list[str]:
    """Return the programs in PATH whose names match `program`, short names first."""
    names: dict[str, None] = {}
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        with contextlib.suppress(OSError):
            names |= dict.fromkeys(entry.name for entry in os.scandir(folder) if program.fullmatch(entry.name))
    return sorted((name for name in names if shutil.which(name)), key=lambda name: (len(name), name))


def _query(path: str, builds: Builds, targets: Iterable[Target | CpuTarget]) -> Compiler | None:
    start: tuple[str, ...] = (path,)
    macros = read_macros(_output_of(path, *_DEFINES))
    kind: CompilerKind = "clang" if "__clang__" in macros else "gcc"
    if kind == "clang" and builds.clang_words:
        start = (path, *builds.clang_words)
        macros = read_macros(_output_of(*start, *_DEFINES))
    if builds.macro not in macros:
        return None
    version = ".".join(macros[name] for name in _VERSION_MACROS[kind])
    base = read_macros(_output_of(*start, f"{builds.flag}{builds.base}", *_DEFINES))
    accepted, refused, all_of, kept = [], {}, {}, {}
    for target in targets:
        flag = f"{builds.flag}{target.name}"
        problem = _problem(*start, flag, *builds.kernel_flags, *_OBJECT)
        if problem is not None:
            refused[target.name] = problem
            continue
        accepted.append(target.name)
        all_of[target.name] = builds.told_by(read_macros(_output_of(*start, flag, *_DEFINES)), base)
        kept[target.name] = builds.told_by(read_macros(_output_of(*start, flag, *builds.kernel_flags, *_DEFINES)), base)
    return Compiler(
        path=path,
        kind=kind,
        version=version,
        number=version_number(version, path),
        native=_native(path, kind) if builds is X86_64 else None,
        accepted=tuple(accepted),
        refused=refused,
        extensions=all_of,
        kept=kept,
    )


def _native(path: str, kind: CompilerKind) -> str | None:
    """Return the meaning of `-march=native`; None if the compiler doesn't say."""
    with contextlib.suppress(KtrialError):
        if kind == "gcc":
            return read_gcc_march(_output_of(path, "-march=native", "-Q", "--help=target"))
        return read_clang_cpu(_run(path, "-march=native", "-###", *_OBJECT).stderr)
    return None


def _problem(*argv: str) -> str | None:
    """Return the first line of the compiler's error; None if it succeeds."""
    done = _run(*argv)
    if done.returncode == 0:
        return None
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[0] if lines else f"ended with status {done.returncode}"


def _output_of(*argv: str) -> bytes:
    done = _run(*argv)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise KtrialError(
            f"{' '.join(argv)} ended with status {done.returncode} ({said or 'no message'})",
            hint="name another compiler with --cc",
        )
    return done.stdout


def _run(*argv: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_LIMIT_S, env=environment
        )
    except OSError as error:
        raise KtrialError(f"cannot start {argv[0]}: {error.strerror}", hint=f"install {argv[0]}") from None
    except subprocess.TimeoutExpired:
        raise KtrialError(
            f"{' '.join(argv)} did not end within {_LIMIT_S:g} s", hint="name another compiler with --cc"
        ) from None

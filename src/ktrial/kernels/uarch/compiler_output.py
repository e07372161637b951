# SPDX-License-Identifier: Apache-2.0
"""Readers for compiler output: the CPU behind `native`, predefined macros, the CPUs that rustc knows."""

from __future__ import annotations

import re

import msgspec

from ktrial.kit.formats.tool_output import numbered, unreadable

_MARCH = re.compile(r"\s+-march=\s+(\S+)")
_TARGET_CPU = re.compile(r'"-target-cpu" "([^"\s]+)"')
_DEFINE = re.compile(r"#define (\w+)(?:\([^)]*\))?(?: (.*))?", re.ASCII)
_NATIVE = re.compile(r"\s+native\s+- .*\(currently (\S+)\)\.?")
_CPU = re.compile(r"    ([A-Za-z0-9][\w.-]*)(?:\s+- .*)?", re.ASCII)
_RUSTC = re.compile(r"(release|LLVM version): (\S+)")
_VERSION = re.compile(r"\d{1,4}(?:\.\d{1,4}){0,2}", re.ASCII)


class RustCpus(msgspec.Struct, frozen=True):
    """The CPUs that rustc can target, and the CPU that `native` means here."""

    names: tuple[str, ...]
    native: str | None


class RustcVersion(msgspec.Struct, frozen=True):
    """rustc's version as printed, and the version of its LLVM as a comparable number (22.1.2 -> 220102)."""

    text: str
    llvm: int


def read_gcc_march(data: bytes, source: str = "stdout") -> str:
    """Return the -march in effect, from the output of `gcc -Q --help=target`."""
    for _, text in numbered(data, source):
        if match := _MARCH.fullmatch(text.rstrip()):
            return match[1]
    raise unreadable(source, None, "", "gcc's list of target options: -march= is missing")


def read_clang_cpu(data: bytes, source: str = "stderr") -> str:
    """Return the CPU that clang generates code for, from the output of `clang -###`."""
    for _, text in numbered(data, source):
        if match := _TARGET_CPU.search(text):
            return match[1]
    raise unreadable(source, None, "", 'a clang command line: "-target-cpu" is missing')


def read_macros(data: bytes, source: str = "stdout") -> dict[str, str]:
    """Return the predefined macros of a compiler, from the output of its `-dM -E`."""
    macros: dict[str, str] = {}
    for line, text in numbered(data, source):
        if not text.strip():
            continue
        match = _DEFINE.fullmatch(text)
        if match is None:
            raise unreadable(source, line, text, "a #define")
        macros[match[1]] = match[2] or ""
    return macros


def read_rust_cpus(data: bytes, source: str = "stdout") -> RustCpus:
    names: list[str] = []
    native: str | None = None
    for _, text in numbered(data, source):
        if match := _NATIVE.fullmatch(text):
            native = match[1]
        elif (match := _CPU.fullmatch(text)) and match[1] != "native":
            names.append(match[1])
    if not names:
        raise unreadable(source, None, "", "rustc's list of target CPUs")
    return RustCpus(tuple(names), native)


def read_rustc_version(data: bytes, source: str = "stdout") -> RustcVersion:
    found: dict[str, str] = {}
    for _, text in numbered(data, source):
        if match := _RUSTC.match(text):
            found[match[1]] = match[2]
    missing = next((name for name in ("release", "LLVM version") if name not in found), None)
    if missing is not None:
        raise unreadable(source, None, "", f"the output of `rustc -vV`: the line {missing!r} is missing")
    return RustcVersion(found["release"], version_number(found["LLVM version"], source))


def version_number(text: str, source: str) -> int:
    """Return a version as Kconfig encodes it: 12.2.0 -> 120200."""
    if not _VERSION.fullmatch(text):
        raise unreadable(source, None, text, "a version")
    parts = [int(part) for part in text.split(".")] + [0, 0]
    return parts[0] * 10_000 + parts[1] * 100 + parts[2]

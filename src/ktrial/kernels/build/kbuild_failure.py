# SPDX-License-Identifier: Apache-2.0
"""Why a kernel's build failed: the cause in the toolchain where it is a known one, and the lines of the log."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

_ERROR = re.compile(
    r"(?:\berror(?:\[\w+\])?:|\bfatal error:|undefined reference to|^FAILED:|: not found$|\*\*\* (?!\[)|"
    r"No such file or directory|No rule to make target|No space left on device|Killed|LLVM ERROR|out of memory)",
    re.IGNORECASE,
)
_MAKE = re.compile(r"^make(?:\[\d+\])?: \*\*\* ")
_BEFORE, _AFTER, _LONGEST = 2, 6, 220


class _KnownFailure(NamedTuple):
    sign: re.Pattern[str]
    cause: str
    step: str


_KNOWN = (
    _KnownFailure(re.compile(r"No space left on device"), "the disk is full", "make room; the same command goes on"),
    _KnownFailure(
        re.compile(r"LLVM ERROR: out of memory|virtual memory exhausted|Cannot allocate memory|memory allocating"),
        "memory ran out",
        "give fewer --jobs, more memory, or leave lto-thin or btf out",
    ),
    _KnownFailure(
        re.compile(r"\bKilled\b|signal 9|fatal error: Killed signal"),
        "a compiler or linker was killed, most likely as memory ran out",
        "give fewer --jobs, more memory, or leave lto-thin or btf out",
    ),
    _KnownFailure(
        re.compile(r"debian/certs/|debian/canonical-|certs/[\w-]+\.pem'?, needed by|certs/signing_key"),
        "the configuration names a distribution's certificates, which are not in these sources",
        '--set SYSTEM_TRUSTED_KEYS="" --set SYSTEM_REVOCATION_KEYS=""',
    ),
    _KnownFailure(
        re.compile(r"gelf\.h|libelf\.h|cannot generate ORC|libelf-dev|elfutils-libelf"),
        "the headers of libelf are missing",
        "apt-get install libelf-dev",
    ),
    _KnownFailure(re.compile(r"openssl/\w+\.h"), "the headers of OpenSSL are missing", "apt-get install libssl-dev"),
    _KnownFailure(re.compile(r"ncurses\.h"), "the headers of ncurses are missing", "apt-get install libncurses-dev"),
    _KnownFailure(
        re.compile(r"pahole.*(?:not available|not found)|BTF: .*pahole"),
        "pahole, which makes BTF, is missing",
        "apt-get install dwarves, or leave btf out",
    ),
    _KnownFailure(
        re.compile(r"FAILED: load BTF|FAILED elf_update|Failed to generate BTF|btf_encoder__|die__process|"
                   r"resolve_btfids.*(?:FAILED|failed)"),
        "BTF could not be made: pahole does not take what this compiler, LTO or Rust wrote",
        "take a newer pahole, or leave one out of btf, lto-thin and Rust",
    ),
    _KnownFailure(
        re.compile(r"Rust compiler|bindgen|rust-src|can't find crate for `core`|RUST_LIB_SRC|\.rs:\d+"),
        "Rust's part could not be built",
        "`make -C TREE rustavailable` says what Rust lacks; --set RUST=n builds without it",
    ),
    _KnownFailure(
        re.compile(r"bad value \(.*\) for .-m(?:arch|tune)|unknown target CPU|unknown argument|"
                   r"unrecognized command.line option|unsupported argument"),
        "the compiler does not know a flag",
        "take a newer compiler with --cc, or another --target",
    ),
    _KnownFailure(
        re.compile(r"ld\.lld: error|undefined symbol|undefined reference|relocation truncated"),
        "linking failed",
        "take the compiler and linker of one release; without lto-thin it may link",
    ),
    _KnownFailure(re.compile(r"\b(?:flex|bison|bc|cpio|perl|lz4|zstd|rsync|depmod|gawk): (?:command )?not found"),
           "a program is missing", "install the program that the log names"),
    _KnownFailure(
        re.compile(r"\[-Werror[=\]]|being treated as errors"),
        "a warning counts as an error here, as this compiler warns of what the tree's own did not",
        "--set WERROR=n",
    ),
)  # fmt: skip


class Failure(msgspec.Struct, frozen=True):
    """`cause` and `step` are None of a failure that is not a known one; `excerpt` are lines of the log."""

    cause: str | None
    step: str | None
    excerpt: tuple[str, ...]


def read_failure(log: str) -> Failure:
    """What a log that ended in failure says. A build on several CPUs goes on for a while after its first error."""
    lines = log.splitlines()
    first = next((number for number, line in enumerate(lines) if _ERROR.search(line)), None)
    if first is None:
        first = next((number for number, line in enumerate(lines) if _MAKE.match(line)), max(0, len(lines) - _AFTER))
    excerpt = lines[max(0, first - _BEFORE) : first + _AFTER]
    near = "\n".join(lines[max(0, first - _BEFORE) :])
    known = next((one for one in _KNOWN if one.sign.search(near)), None)
    shown = tuple(line[:_LONGEST] for line in excerpt)
    return Failure(known.cause if known else None, known.step if known else None, shown)

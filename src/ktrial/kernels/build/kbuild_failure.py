# SPDX-License-Identifier: Apache-2.0
"""Finds out why a kernel build failed: the relevant lines of the log, and the cause if it is known."""

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
    _KnownFailure(
        re.compile(r"No space left on device"),
        "the disk is full",
        "free some space, then run the same command again",
    ),
    _KnownFailure(
        re.compile(r"LLVM ERROR: out of memory|virtual memory exhausted|Cannot allocate memory|memory allocating"),
        "the machine ran out of memory",
        "lower --jobs, or leave out the fragments lto-thin and btf",
    ),
    _KnownFailure(
        re.compile(r"\bKilled\b|signal 9|fatal error: Killed signal"),
        "a compiler or linker was killed, most likely because memory ran out",
        "lower --jobs, or leave out the fragments lto-thin and btf",
    ),
    _KnownFailure(
        re.compile(r"debian/certs/|debian/canonical-|certs/[\w-]+\.pem'?, needed by|certs/signing_key"),
        "the configuration names a distribution's certificates, which these sources lack",
        """add --set 'SYSTEM_TRUSTED_KEYS=""' --set 'SYSTEM_REVOCATION_KEYS=""'""",
    ),
    _KnownFailure(
        re.compile(r"gelf\.h|libelf\.h|cannot generate ORC|libelf-dev|elfutils-libelf"),
        "the headers of libelf are missing",
        "install libelf-dev (on Fedora: elfutils-libelf-devel)",
    ),
    _KnownFailure(
        re.compile(r"openssl/\w+\.h"),
        "the headers of OpenSSL are missing",
        "install libssl-dev (on Fedora: openssl-devel)",
    ),
    _KnownFailure(
        re.compile(r"ncurses\.h"),
        "the headers of ncurses are missing",
        "install libncurses-dev (on Fedora: ncurses-devel)",
    ),
    _KnownFailure(
        re.compile(r"pahole.*(?:not available|not found)|BTF: .*pahole"),
        "pahole, which generates BTF, is missing",
        "install dwarves (on Arch: pahole), or leave out the fragment btf",
    ),
    _KnownFailure(
        re.compile(r"FAILED: load BTF|FAILED elf_update|Failed to generate BTF|btf_encoder__|die__process|"
                   r"resolve_btfids.*(?:FAILED|failed)"),
        "BTF generation failed: pahole cannot read what this compiler, LTO or Rust wrote",
        "use a newer pahole, or leave out btf, lto-thin or Rust",
    ),
    _KnownFailure(
        re.compile(r"Rust compiler|bindgen|rust-src|can't find crate for `core`|RUST_LIB_SRC|\.rs:\d+"),
        "the Rust code did not build",
        "run `make -C TREE rustavailable` to see what Rust lacks, or add --set RUST=n",
    ),
    _KnownFailure(
        re.compile(r"bad value \(.*\) for .-m(?:arch|tune)|unknown target CPU|unknown argument|"
                   r"unrecognized command.line option|unsupported argument"),
        "the compiler does not know a flag",
        "use a newer compiler with --cc, or another --target",
    ),
    _KnownFailure(
        re.compile(r"ld\.lld: error|undefined symbol|undefined reference|relocation truncated"),
        "linking failed",
        "use a compiler and linker of the same release, or leave out lto-thin",
    ),
    _KnownFailure(re.compile(r"\b(?:flex|bison|bc|cpio|perl|lz4|zstd|rsync|depmod|gawk): (?:command )?not found"),
           "a program is missing", "install the program that the log names"),
    _KnownFailure(
        re.compile(r"\[-Werror[=\]]|being treated as errors"),
        "a warning counts as an error, and this compiler warns about more than the tree expects",
        "add --set WERROR=n",
    ),
)  # fmt: skip


class Failure(msgspec.Struct, frozen=True):
    """Why a build failed. `cause` and the next `step` are None if unknown; `excerpt` contains lines of the log."""

    cause: str | None
    step: str | None
    excerpt: tuple[str, ...]


def read_failure(log: str) -> Failure:
    """Return the first error in the log of a failed build, with its cause and the next step if they are known."""
    lines = log.splitlines()
    first = next((number for number, line in enumerate(lines) if _ERROR.search(line)), None)
    if first is None:
        first = next((number for number, line in enumerate(lines) if _MAKE.match(line)), max(0, len(lines) - _AFTER))
    excerpt = lines[max(0, first - _BEFORE) : first + _AFTER]
    near = "\n".join(lines[max(0, first - _BEFORE) :])
    known = next((one for one in _KNOWN if one.sign.search(near)), None)
    shown = tuple(line[:_LONGEST] for line in excerpt)
    return Failure(known.cause if known else None, known.step if known else None, shown)

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import zlib
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kernels.build.objects import Compiled, comments, producers, read_cmd
from ktrial.kit.errors import BadInput
from ktrial.kit.formats.elf import Elf
from tests.support import kernels

FORK = (
    b"savedcmd_kernel/fork.o := gcc-12 -nostdinc -D__KERNEL__ -std=gnu11 -m64 -O2 -march=x86-64 "
    b"-mtune=generic -march=znver3 -DKBUILD_MODFILE='\"kernel/fork\"' -c -o kernel/fork.o ../kernel/fork.c  ; "
    b"./tools/objtool/objtool -O3 -march=no kernel/fork.o\n\nsource_kernel/fork.o := ../kernel/fork.c\n\n"
    b"deps_kernel/fork.o := \\\n  include/linux/slab.h \\\n"
)
CORE = (
    b"savedcmd_rust/core.o := RUST_MODFILE=rust/core rustc -Cpanic=abort -Copt-level=2 -Ctarget-cpu=x86-64 "
    b"-C target-cpu=znver3 --crate-type rlib --emit=obj=rust/core.o core/src/lib.rs\n"
)


@pytest.mark.parametrize(
    "data, found",
    [
        (FORK, Compiled("kernel/fork.o", "C", "-march=znver3 -mtune=generic", "-O2")),
        (FORK.replace(b"savedcmd_", b"cmd_"), Compiled("kernel/fork.o", "C", "-march=znver3 -mtune=generic", "-O2")),
        (FORK.replace(b"-O2", b"-O2 -Os"), Compiled("kernel/fork.o", "C", "-march=znver3 -mtune=generic", "-Os")),
        (CORE, Compiled("rust/core.o", "Rust", "-Ctarget-cpu=znver3", "-Copt-level=2")),
        (FORK.replace(b"fork.c", b"fork.S"), None),
        (b"savedcmd_kernel/x.o := ld -m elf_x86_64 -r -o kernel/x.o kernel/a.o\n", None),
        (b"cmd_a.o := gcc -c -o a.o a.c\nsource_a.o := a.c\n", Compiled("a.o", "C", "", "")),
        (b"", None),
        (b"nothing of the kind\n", None),
    ],
    ids=["C", "older", "last wins", "Rust", "assembler", "link", "no flags", "empty", "other"],
)
def test_what_a_build_noted(data: bytes, found: Compiled | None) -> None:
    assert read_cmd(data) == found


@settings(max_examples=50)
@given(st.data())
def test_any_damage_is_read_or_nothing(data: st.DataObject) -> None:
    whole = bytearray(data.draw(st.sampled_from([FORK, CORE])))
    for _ in range(data.draw(st.integers(0, 5))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    read_cmd(bytes(whole[: data.draw(st.integers(0, len(whole)))]))


STRINGS = (
    b"GNU C11 12.2.0 -mno-sse -mcmodel=kernel -march=znver3 -g -O2 -std=gnu11 -fno-PIE\0other\0GNU AS 2.40\0"
    b"Debian clang version 14.0.6\0GNU C11 12.2.0 -march=i386 -O2\0"
)


def test_compilers_in_their_own_words() -> None:
    file = Elf(kernels.elf({".comment": b"GCC: (Debian) 12.2.0\0GCC: (Debian) 12.2.0\0", ".debug_str": STRINGS}), "x")
    assert comments(file) == ("GCC: (Debian) 12.2.0",)
    assert producers(file) == (
        "Debian clang version 14.0.6",
        "GNU AS 2.40",
        "GNU C11 12.2.0 -march=i386 -O2",
        "GNU C11 12.2.0 -march=znver3 -O2",
    )
    assert producers(Elf(kernels.elf({}), "x")) == comments(Elf(kernels.elf({}), "x")) == ()


def test_debug_information_may_be_packed() -> None:
    packed = b"\1" + b"\0" * 7 + len(STRINGS).to_bytes(8, "little") + b"\1" + b"\0" * 7 + zlib.compress(STRINGS)
    assert len(producers(Elf(kernels.elf({".debug_str": packed}), "x"))) == 4
    assert producers(Elf(kernels.elf({".debug_str": packed[:30]}), "x")) == ()


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_any_strings_have_no_or_some_compilers(data: bytes) -> None:
    with suppress(BadInput):
        file = Elf(kernels.elf({".comment": data, ".debug_str": data}), "x")
        assert all(isinstance(text, str) for text in (*comments(file), *producers(file)))

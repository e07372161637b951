# SPDX-License-Identifier: Apache-2.0
"""Readers of a kernel's sources, of its build and of what compilers say."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kernels.build.kbuild_log import marches, read_compile
from ktrial.kernels.config.kconfig import read_kconfig
from ktrial.kernels.uarch.compiler_output import (
    read_clang_cpu,
    read_gcc_march,
    read_macros,
    read_rust_cpus,
    read_rustc_version,
    version_number,
)
from ktrial.kernels.uarch.x86_makefile import read_flag_block, read_tree_version
from ktrial.kit.errors import UnreadableOutput
from ktrial.kit.formats.kernel_config import read_symbols
from tests.support.kernel_trees import SHAPES, files, kconfig, makefile

GCC = b"The following options are target specific:\n  -m64    \t\t[enabled]\n  -march=                     \t\tznver3\n"
CLANG = b'clang version 14\n "/usr/lib/clang" "-cc1" "-target-cpu" "skylake" "-o" "/dev/null"\n'
RUST = b"Available CPUs for this target:\n    native                  - Select the CPU of the current host (currently znver5).\n    x86-64                  - This is the default target CPU for the current build target.\n    znver5\n\n"  # noqa: E501
RUSTC = b"rustc 1.95.0 (abc)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\nLLVM version: 22.1.2\n"
MACROS = b"#define __GNUC__ 12\n#define __x86_64 1\n#define __INT64_C(c) c ## L\n#define __EMPTY__ \n"
LOG = b"  gcc -MMD,lib/.ctype.o.d  -march=k8 -DX='a b' -march=znver3  -c -o lib/ctype.o lib/ctype.c ; ./objtool x\n"
CONFIG = b'#\n# Automatically generated\n#\nCONFIG_64BIT=y\n# CONFIG_MK8 is not set\nCONFIG_TEXT="a=b"\n'

READERS: dict[str, tuple[Callable[[bytes], Any], bytes]] = {
    "gcc": (read_gcc_march, GCC),
    "clang": (read_clang_cpu, CLANG),
    "macros": (read_macros, MACROS),
    "rust cpus": (read_rust_cpus, RUST),
    "rustc": (read_rustc_version, RUSTC),
    "log": (lambda data: read_compile(data, "lib/ctype.o"), LOG),
    "config": (read_symbols, CONFIG),
    "kconfig": (read_kconfig, kconfig(SHAPES["4.19.0"]).encode()),
    "flags": (read_flag_block, makefile(SHAPES["6.16.0"]).encode()),
    "version": (read_tree_version, files(SHAPES["7.2.0-rc1"])["Makefile"].encode()),
}
every = pytest.mark.parametrize("name", READERS)


def test_what_they_read() -> None:
    assert read_gcc_march(GCC) == "znver3"
    assert read_clang_cpu(CLANG) == "skylake"
    assert (read_rust_cpus(RUST).native, read_rust_cpus(RUST).names) == ("znver5", ("x86-64", "znver5"))
    assert (read_rustc_version(RUSTC).text, read_rustc_version(RUSTC).llvm) == ("1.95.0", 220102)
    assert read_macros(MACROS) == {"__GNUC__": "12", "__x86_64": "1", "__INT64_C": "c ## L", "__EMPTY__": ""}
    assert marches(read_compile(LOG, "lib/ctype.o")) == ("-march=k8", "-march=znver3")
    assert read_symbols(CONFIG) == {"64BIT": "y", "TEXT": '"a=b"'}
    assert read_tree_version(READERS["version"][1]) == "7.2.0-rc1"
    assert (version_number("14.0.6", "x"), version_number("12", "x")) == (140006, 120000)


def test_the_structure_of_a_file_of_processors() -> None:
    found = read_kconfig(kconfig(SHAPES["6.16.0"]).encode())
    (family,) = found.choices
    assert family.symbols == ("M586", "M686", "MATOM")
    assert family.lines == ('prompt "Family"', "depends on X86_32", "default M686")
    shift = found.entry("X86_L1_CACHE_SHIFT")
    assert shift is not None
    assert shift.lines == ("int", 'default "6" if MATOM || X86_64', 'default "5" if M686 || M586')
    lines = kconfig(SHAPES["6.16.0"]).splitlines()
    assert lines[shift.first - 1] == "config X86_L1_CACHE_SHIFT"
    assert lines[shift.last - 1] == '\tdefault "5" if M686 || M586'
    assert found.names == {"M586", "M686", "MATOM", "X86_NATIVE_CPU", "X86_L1_CACHE_SHIFT"}


def test_words_of_a_help_are_no_structure() -> None:
    text = "config A\n\tbool\n\thelp\n\t  endchoice is a word,\n\n\t    config B too\n\nconfig C\n\tint\n"
    found = read_kconfig(text.encode())
    assert [(entry.name, entry.first, entry.last) for entry in found.entries] == [("A", 1, 6), ("C", 8, 9)]
    assert [entry.lines for entry in found.entries] == [("bool",), ("int",)]


@pytest.mark.parametrize(
    "name, data, said",
    [
        ("gcc", b"  -m64 [enabled]\n", "-march= is missing"),
        ("clang", b"clang version 14\n", '"-target-cpu" is missing'),
        ("macros", b"int x;\n", "is not a #define"),
        ("rust cpus", b"nothing\n", "rustc's list of target CPUs"),
        ("rustc", b"release: 1.95.0\nhost: x\n", "the line 'LLVM version' is missing"),
        ("rustc", b"release: 1.95.0\nLLVM version: one\n", "'one' is not a version"),
        ("log", b"  gcc -c -o lib/other.o x.c\n", "no command writes that file"),
        ("log", b"  gcc -c 'x -o lib/ctype.o \n", "is not a command line"),
        ("config", b"CONFIG_A\n", "is not a line `CONFIG_NAME=VALUE`"),
        ("kconfig", b"choice\nchoice\n", "is not a line that a choice can contain"),
        ("kconfig", b"endchoice\n", "in its place: no block is open"),
        ("kconfig", b"choice\nconfig A\n", "'choice' is not closed: `endchoice` is missing"),
        ("kconfig", b"# nothing\n", "it defines no symbol"),
        ("version", b"VERSION = 6\nPATCHLEVEL = x\n", "PATCHLEVEL is missing or not a number"),
        ("flags", b"all:\n", "it sets the flag 0 times"),
    ],
)
def test_what_they_cannot_read_is_said(name: str, data: bytes, said: str) -> None:
    with pytest.raises(UnreadableOutput) as caught:
        READERS[name][0](data)
    assert said in caught.value.message


@every
@settings(max_examples=20)
@given(
    data=st.binary(max_size=200) | st.text(alphabet="configCONFIG_chie dn\t\n=#-\"'$()", max_size=200).map(str.encode)
)
def test_anything_is_read_or_refused(name: str, data: bytes) -> None:
    with contextlib.suppress(UnreadableOutput):
        READERS[name][0](data)


@every
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_a_damaged_text_is_read_or_refused(name: str, seed: int) -> None:
    read, data = READERS[name]
    random = Random(seed)
    broken = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(broken))
        broken[at : at + random.randint(0, 12)] = random.randbytes(random.randint(0, 3))
    with contextlib.suppress(UnreadableOutput):
        read(bytes(broken))

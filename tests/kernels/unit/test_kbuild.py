# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kernels.build.kbuild_failure import read_failure
from ktrial.kernels.build.kbuild_log import compiled, last_flag, read_cache_log, read_cmd_file, read_sccache
from ktrial.kernels.build.patches import Patch, check_names
from ktrial.kit.errors import Refused, UnreadableOutput
from ktrial.kit.formats.kernel_config import ConfigLine, fragment_line, read_fragment
from ktrial.kit.formats.unified_diff import read_patch

CMD = (
    b"savedcmd_init/main.o := ccache gcc -Wp,-MMD,init/.main.o.d -O2 -march=x86-64 -O3 -DX='a b' -c -o init/main.o "
    b"init/main.c ; ./tools/objtool init/main.o\n\nsource_init/main.o := init/main.c\n"
)


@pytest.mark.parametrize(
    "line, counts",
    [
        ("  CC      init/main.o", True),
        ("  CC [M]  fs/ext4/ext4.o", True),
        ("  AS      arch/x86/entry/entry.o", True),
        ("  HOSTCC  scripts/basic/fixdep", True),
        ("  LD      vmlinux.o", False),
        ("make[1]: Entering directory '/x'", False),
        ("  CC", False),
    ],
)
def test_what_counts_as_compiled(line: str, counts: bool) -> None:
    assert compiled(line) is counts


def test_a_patch_whose_names_have_no_folder_to_strip(tmp_path: Path) -> None:
    data = b"--- main.c\n+++ main.c\n@@ -1 +1 @@\n-a\n+b\n"
    patch = Patch("x.patch", "x.patch", "", data, 1, read_patch(data))
    with pytest.raises(Refused, match=r"x.patch: 'main.c' has no folder for -p1 to strip"):
        check_names(patch, tmp_path)
    check_names(patch._replace(strip=0), tmp_path)


def test_the_command_that_kbuild_kept() -> None:
    argv = read_cmd_file(CMD, "init/.main.o.cmd")
    assert argv[:2] == ("ccache", "gcc")
    assert (last_flag(argv, "-O"), last_flag(argv, "-march="), last_flag(argv, "-mtune=")) == ("3", "x86-64", None)
    assert "-DX=a b" in argv
    with pytest.raises(UnreadableOutput, match="the line cmd_"):
        read_cmd_file(b"source_x := y\n", "x")


def test_what_a_cache_noted() -> None:
    log = b"# a.c\ndirect_cache_hit\nlocal_storage_hit\n# b.c\npreprocessed_cache_hit\n# c.c\ncache_miss\n"
    assert read_cache_log(log) == (2, 1)


def test_what_the_server_of_a_cache_counted() -> None:
    told = b'{"stats":{"compile_requests":5,"cache_hits":{"counts":{"C/C++":1,"Rust":2}},"cache_misses":{"counts":{}}}}'
    assert read_sccache(told) == (3, 0)
    for wrong in (b"", b"no server", b'{"stats":{}}'):
        with pytest.raises(UnreadableOutput, match="sccache statistics"):
            read_sccache(wrong)


@pytest.mark.parametrize(
    "log, cause, step",
    [
        ("make[3]: *** No rule to make target 'debian/certs/a.pem', needed by 'x'.", "certificates", "KEYS=\"\"'"),
        ("tools/x.h:7:10: fatal error: gelf.h: No such file or directory", "libelf", "libelf-dev"),
        ("FAILED: load BTF from vmlinux: Invalid argument", "BTF generation failed", "pahole"),
        ("BTF: .tmp_vmlinux.btf: pahole (pahole) is not available", "pahole, which generates BTF", "dwarves"),
        ("ld.lld: error: undefined symbol: foo\n>>> referenced by x.c", "linking failed", "same release"),
        ("collect2: fatal error: ld terminated with signal 9 [Killed]", "killed", "--jobs"),
        ("fs/x.c:1: fatal error: error writing to x.s: No space left on device", "the disk is full", "free some space"),
        ("cc1: error: bad value (‘znver9’) for ‘-march=’ switch", "does not know a flag", "--cc"),
        ("error[E0463]: can't find crate for `core`", "the Rust code", "rustavailable"),
        ("x.c:3: error: y [-Werror=format]\ncc1: all warnings being treated as errors", "a warning counts", "WERROR=n"),
    ],
)  # fmt: skip
def test_known_causes(log: str, cause: str, step: str) -> None:
    found = read_failure("  CC      init/main.o\n" * 50 + log + "\nmake: *** [Makefile:240: __sub-make] Error 2\n")
    assert found.cause is not None
    assert cause in found.cause
    assert step in (found.step or "")
    assert len(found.excerpt) <= 8


def test_what_is_not_known_is_shown() -> None:
    found = read_failure("  CC      a.o\na.c:3:1: error: expected ';'\n  CC      b.o\nmake: *** [x] Error 2\n")
    assert (found.cause, found.step) == (None, None)
    assert found.excerpt[1] == "a.c:3:1: error: expected ';'"
    assert read_failure("").excerpt == ()


def test_fragments_as_files() -> None:
    data = b'# why\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C="x=y"\n'
    assert read_fragment(data) == (ConfigLine(2, "A", "y"), ConfigLine(3, "B", "n"), ConfigLine(4, "C", '"x=y"'))
    for wrong, said in ((b"A=y\n", "a line `CONFIG_NAME=VALUE`"), (b"# nothing\n", "it sets no symbol")):
        with pytest.raises(UnreadableOutput, match=said):
            read_fragment(wrong)


@pytest.mark.parametrize(
    "symbol, value, kind, line",
    [
        ("A", "y", "bool", "CONFIG_A=y\n"),
        ("A", "n", "tristate", "# CONFIG_A is not set\n"),
        ("A", "n", None, "# CONFIG_A is not set\n"),
        ("L", "-lab", "string", 'CONFIG_L="-lab"\n'),
        ("L", 'a"b', "string", 'CONFIG_L="a\\"b"\n'),
        ("L", '""', "string", 'CONFIG_L=""\n'),
        ("N", "8", "int", "CONFIG_N=8\n"),
    ],
)
def test_lines_of_a_fragment(symbol: str, value: str, kind: str | None, line: str) -> None:
    assert fragment_line(symbol, value, kind) == line


@settings(max_examples=30)
@given(st.binary(max_size=120) | st.text(alphabet="CONFIG_A=yn#is not set\n\"'", max_size=120).map(str.encode))
def test_anything_is_read_or_refused(data: bytes) -> None:
    read_failure(data.decode(errors="replace"))
    for read in (read_fragment, read_cache_log, read_sccache, lambda one: read_cmd_file(one, "x")):
        with contextlib.suppress(UnreadableOutput):
            read(data)

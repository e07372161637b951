# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from ktrial.kernels.build.objects import built_objects, is_built_tree
from ktrial.kernels.images.images import Images, read_kernel
from ktrial.kernels.images.text import inspect_json, inspect_text
from ktrial.kit.errors import BadInput
from tests.support import kernels

VMLINUX = kernels.elf({".rodata": kernels.BANNER, ".comment": b"GCC: (Debian 12.2.0-14) 12.2.0\0"})


def note(tree: Path, name: str, flags: str, source: str = "x.c") -> None:
    """What a build leaves beside an object."""
    place = tree / name
    place.parent.mkdir(parents=True, exist_ok=True)
    text = f"savedcmd_{name} := gcc {flags} -c -o {name} {source}\n\nsource_{name} := {source}\n"
    place.with_name(f".{place.name}.cmd").write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / ".config").write_bytes(kernels.CONFIG)
    (tmp_path / "vmlinux").write_bytes(VMLINUX)
    for number in range(5):
        note(tmp_path, f"kernel/a{number}.o", "-O2 -march=znver3")
    note(tmp_path, "lib/odd.o", "-Os -march=znver3")
    note(tmp_path, "drivers/b.o", "-O2")
    note(tmp_path, "arch/x86/boot/main.o", "-Os -march=i386 -m16")
    note(tmp_path, "scripts/kconfig/conf.o", "-O2 -march=native")
    note(tmp_path, "lib/asm.o", "-march=no", source="x.S")
    return tmp_path


def test_objects_are_counted_by_what_they_were_compiled_with(tree: Path) -> None:
    assert is_built_tree(tree)
    found = built_objects(tree)
    assert (found.c.count, found.rust.count, found.apart) == (7, 0, 1)
    assert found.c.targets == {"-march=znver3": 6, "": 1}
    assert found.c.levels == {"-O2": 6, "-Os": 1}
    assert found.examples == {"": ("drivers/b.o",), "-Os": ("lib/odd.o",)}
    assert found.comments == ("GCC: (Debian 12.2.0-14) 12.2.0",)


def test_a_built_tree_is_told_with_its_objects_in_80_columns(tree: Path) -> None:
    found = read_kernel(Images(tree / "nothing"), str(tree))
    text = inspect_text(found, width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert (
        "objects        7 in C: -march=znver3 (6), no -march (1: drivers/b.o), -O2 (6),\n"
        "               -Os (1: lib/odd.o)\n"
        "               1 in boot code, the vDSO and the like, which use their own flags\n"
        "names itself   GCC: (Debian 12.2.0-14) 12.2.0\n"
        "recorded       vmlinux records no flags: it has no debug information from gcc\n"
    ) in text
    told = json.loads(msgspec.json.encode(inspect_json(found, with_config=False)))
    assert told["objects"]["c"] == {
        "count": 7,
        "targets": {"-march=znver3": 6, "": 1},
        "levels": {"-O2": 6, "-Os": 1},
    }


def test_what_was_compiled_alike_is_said_in_a_word(tree: Path) -> None:
    for name in ("lib/.odd.o.cmd", "drivers/.b.o.cmd"):
        (tree / name).unlink()
    assert "objects        5 in C: all -march=znver3, all -O2\n" in inspect_text(
        read_kernel(Images(tree), str(tree)), width=80
    )


def test_a_tree_without_what_was_built_has_no_objects(tree: Path) -> None:
    (tree / "vmlinux").write_bytes(b"")
    with pytest.raises(BadInput, match="vmlinux: not a kernel: the file is empty"):
        built_objects(tree)
    (tree / "vmlinux").unlink()
    assert not is_built_tree(tree)

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.guests.modules import take_modules
from ktrial.kernels.images.kernel_module import module_name, read_module
from ktrial.kit.errors import BadInput, UnknownName
from tests.support import kernels


def module(**entries: str) -> bytes:
    info = b"".join(f"{key}={value}".encode() + b"\0" for key, value in entries.items())
    return kernels.elf({".modinfo": info})


@pytest.fixture
def image(tmp_path: Path) -> str:
    """A kernel with modules beside it: `zram` needs `zsmalloc`, would like `lz4` and `gone`; they need each other."""
    folder = tmp_path / "lib/modules/6.12.7-test"
    files = {
        "kernel/drivers/zram.ko.xz": lzma.compress(module(depends="zsmalloc", softdep="pre: lz4-x gone post: later")),
        "kernel/mm/zsmalloc.ko": module(depends=""),
        "kernel/lib/lz4-x.ko": module(depends="zsmalloc", softdep="pre: zram"),
        "kernel/fs/jbd2.ko": module(depends="", softdep="pre: crypto-crc32c"),
        "kernel/crypto/crc32c_generic.ko": module(depends=""),
        "kernel/bad.ko": b"no module",
        "kernel/lone.ko": module(depends="absent"),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "modules.builtin").write_text("kernel/fs/ext4/ext4.ko\n")
    return str(tmp_path / "boot/vmlinuz-6.12.7-test")


def names(found: dict[str, bytes]) -> list[str]:
    return [path.rpartition("/")[2] for path in found]


def test_what_a_module_needs_is_loaded_before_it(image: str) -> None:
    found = take_modules(["zram", "ext4"], image)
    assert names(found) == ["000-zsmalloc.ko", "001-lz4_x.ko", "002-zram.ko"]
    assert all(content.startswith(b"\x7fELF") for content in found.values())
    assert names(take_modules(["jbd2"], image)) == ["000-crc32c_generic.ko", "001-jbd2.ko"]
    assert take_modules([], image) == {}
    assert names(take_modules([], image, wanted=["zrom", "jbd2"])) == ["000-crc32c_generic.ko", "001-jbd2.ko"]
    assert take_modules([], "/nowhere/boot/vmlinuz-1", wanted=["jbd2"]) == {}


def test_modules_that_cannot_be_taken(image: str) -> None:
    with pytest.raises(UnknownName) as caught:
        take_modules(["zrom"], image)
    assert caught.value.nearest == ("zram",)
    with pytest.raises(UnknownName, match="absent"):
        take_modules(["lone"], image)
    with pytest.raises(BadInput, match="not an ELF file"):
        take_modules(["bad"], image)
    with pytest.raises(BadInput, match="no modules beside"):
        take_modules(["zram"], "/nowhere/boot/vmlinuz-1")


def test_names_of_modules() -> None:
    assert [module_name(name) for name in ("a/snd-hda.ko.zst", "x.ko", "x.kobj", "modules.dep")] == [
        *("snd_hda", "x", None, None)
    ]


@settings(max_examples=30)
@given(st.binary(max_size=200), st.integers(0, 300))
def test_any_bytes_are_bad_input_or_read(data: bytes, cut: int) -> None:
    for content in (data, module(depends="a,b")[:cut] + data):
        try:
            read_module(content, "x.ko")
        except BadInput as error:
            assert error.message.startswith("x.ko: ")

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import bz2
import gzip
import lzma
import struct
from collections.abc import Callable
from contextlib import suppress

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kernels.images.kernel_image import architecture, bootable, read_banner, read_image
from ktrial.kernels.images.read_identity import built_in, identify, identify_running, read_symbols
from ktrial.kit.errors import BadInput
from ktrial.kit.formats import elf, lz4
from tests.support import kernels

KERNEL = kernels.kernel()
FLAT = kernels.flat()


def lz4_stored(data: bytes) -> bytes:
    """One block of literals, as the kernel's build frames it."""
    rest = len(data) - 15
    block = b"\xf0" + b"\xff" * (rest // 255) + bytes([rest % 255]) + data
    return lz4.MAGIC + struct.pack("<I", len(block)) + block


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
    "zstd": zstandard.ZstdCompressor().compress,
    "lz4": lz4_stored,
    "none": bytes,
}


@pytest.mark.parametrize("name", PACKERS)
def test_the_kernel_inside_an_image(name: str) -> None:
    found = read_image(kernels.bzimage(PACKERS[name](KERNEL)), "vmlinuz")
    assert (found.architecture, found.packing) == ("x86_64", name)
    assert found.kernel.startswith(KERNEL)
    assert found.header_version == "6.12.7-test (me@here) #3"


def test_a_vmlinux_is_the_kernel_itself() -> None:
    assert read_image(KERNEL, "vmlinux")[2:] == ("none", KERNEL)


@pytest.mark.parametrize(
    "data, why",
    [
        (b"", "not a kernel image: it begins with nothing"),
        (b"#!/bin/sh\n", "begins with 23 21 2f 62"),
        (kernels.image()[:-100], "100 B of its kernel is missing"),
        (kernels.image()[:0x210], "truncated within its header"),
        (kernels.bzimage(b"\x89LZO\0rest"), "lzo is not supported"),
        (kernels.bzimage(b"what is this"), r"damaged, or of an unknown compression \(77 68 61 74 20 69\)"),
        (kernels.bzimage(gzip.compress(KERNEL)[:60]), "the end is missing"),
        (kernels.bzimage(lz4.MAGIC + b"\x04\0\0\0\x0f\x01\0\x09"), "refers to data outside of the block"),
        (kernels.bzimage(KERNEL, protocol=0x0207), "unsupported boot protocol 2.07"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_whole_image(data: bytes, why: str) -> None:
    with pytest.raises(BadInput, match="(?s)" + why) as caught:
        read_image(data, "FILE")
    assert str(caught.value).startswith("FILE: ")


def test_for_which_machine() -> None:
    assert architecture(kernels.bzimage(b"", loads=0), "x") == "i386"
    assert architecture(b"\0" * 56 + b"ARM\x64" + b"\0" * 600, "x") == "aarch64"
    assert architecture(kernels.elf({}, machine=243), "x") == "riscv64"
    assert architecture(b"\0" * 56 + b"RSC\x05" + b"\0" * 600, "x") == "riscv64"
    assert architecture(gzip.compress(FLAT), "x") == "aarch64"


def test_lz4_repeats_what_came_before() -> None:
    # 4 literals, then 11 bytes from 4 back (a copy that reaches into itself), then 5 literals.
    block = bytes([0x47]) + b"abcd" + b"\x04\0" + bytes([0x50]) + b"12345"
    assert lz4.unpacked(lz4.MAGIC + struct.pack("<I", len(block)) + block) == b"abcd" + b"abcdabcdabc" + b"12345"


def test_the_banner_in_its_parts() -> None:
    draft = kernels.BANNER.replace(b"#3 SMP", b"# SMP")
    banner = read_banner(b"Linux version %s (%s)\n" + draft + kernels.BANNER, "x")
    assert (banner.release, banner.built_by) == ("6.12.7-test", "me@here")
    assert banner.compiler == "gcc-12 (Distribution 12.2.0-14) 12.2.0"
    assert banner.linker == "GNU ld (GNU Binutils for Distribution) 2.40"
    assert banner.build == "#3 SMP PREEMPT_DYNAMIC Sun Nov 22 2026"
    with pytest.raises(BadInput, match='no "Linux version'):
        read_banner(b"nothing of the kind", "x")


def test_an_old_banner_has_no_linker() -> None:
    banner = read_banner(b"Linux version 4.19.0 (a@b) (gcc version 8.3.0 (GCC)) #1 SMP Mon\n", "x")
    assert (banner.compiler, banner.linker) == ("gcc version 8.3.0 (GCC)", None)


def test_an_identity_with_the_configuration_beside_it() -> None:
    found, symbols = identify(kernels.image(), "vmlinuz", kernels.CONFIG, "config")
    assert symbols is not None
    assert (symbols["ZRAM"], symbols["SCHED_CLASS_EXT"]) == ("m", "n")
    assert (found.release, found.packing, found.hz, found.lto) == ("6.12.7-test", "gzip", 250, "none")
    assert (found.btf, found.build_id) == (True, kernels.BUILD_ID.hex())
    assert (found.scheduler, found.sched_ext) == ("EEVDF", False)
    assert found.preemption == "chosen at boot, voluntary by default"
    assert (found.optimised, found.config_from, found.notes) == ("speed (-O2)", "config", ())


def test_the_configuration_inside_goes_before_the_one_beside() -> None:
    inside = kernels.CONFIG.replace(b"HZ=250", b"HZ=1000")
    found, _ = identify(kernels.image(config=inside), "vmlinuz", kernels.CONFIG, "config")
    assert (found.hz, found.config_from) == (1000, "inside the image")


def test_without_configuration_nothing_is_made_up() -> None:
    found, symbols = identify(kernels.image(words=b"nothing"), "vmlinuz", None, None)
    assert symbols is None
    assert (found.hz, found.lto, found.optimised, found.scheduler, found.sched_ext) == (None,) * 5
    assert found.preemption == "chosen at boot"


def test_another_compilers_configuration_is_doubted() -> None:
    found, _ = identify(kernels.image(), "vmlinuz", kernels.CONFIG.replace(b"12.2.0", b"13.1.0"), "config")
    assert len(found.notes) == 1
    assert "another compiler" in found.notes[0]


@pytest.mark.parametrize(
    "words, scheduler",
    [
        (b"BORE (Burst-Oriented Response Enhancer) CPU Scheduler modification 5.9.6 by\0base_slice_ns", "BORE 5.9.6"),
        (b"min_granularity_ns", "CFS"),
        (b"base_slice_ns\0sched_bore", "BORE"),
    ],
)
def test_schedulers_by_the_words_in_the_kernel(words: bytes, scheduler: str) -> None:
    assert identify(kernels.image(words=words), "x", None, None)[0].scheduler == scheduler


@pytest.mark.parametrize(
    "words, preemption", [(b"SMP PREEMPT_RT", "real-time"), (b"SMP PREEMPT", "full"), (b"SMP", None)]
)
def test_preemption_by_the_banner(words: bytes, preemption: str | None) -> None:
    banner = kernels.BANNER.replace(b"SMP PREEMPT_DYNAMIC", words)
    assert identify(kernels.image(banner=banner), "x", None, None)[0].preemption == preemption


def test_the_running_kernel() -> None:
    found, symbols = identify_running(
        kernels.BANNER.rstrip(b"\0"),
        architecture="x86_64",
        words=b"sched_entity\0vlag\0",
        notes=kernels.note(b"Xen", 6, b"abcd") + kernels.note(b"GNU", 3, kernels.BUILD_ID),
        btf=True,
        config=(None, None),
    )
    assert symbols is None
    assert (found.scheduler, found.build_id, found.packing) == ("EEVDF", kernels.BUILD_ID.hex(), None)


def test_symbols_of_a_configuration() -> None:
    assert read_symbols(b'# comment\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C="text"\n', "f") == {
        "A": "y",
        "B": "n",
        "C": "text",
    }
    with pytest.raises(BadInput, match="f:2: 'what'"):
        read_symbols(b"CONFIG_A=y\nwhat\n", "f")
    with pytest.raises(BadInput, match="no symbol"):
        read_symbols(b"# nothing\n", "f")


def test_a_damaged_built_in_configuration_is_none() -> None:
    assert built_in(b"IKCFG_ST" + gzip.compress(kernels.CONFIG)[:20] + b"IKCFG_ED") is None
    assert built_in(b"IKCFG_STnot gzipIKCFG_ED") is None
    assert built_in(b"nothing") is None


def test_a_programs_interpreter() -> None:
    assert elf.Elf(kernels.elf({}, interpreter=b"/lib64/ld.so"), "x").interpreter == "/lib64/ld.so"
    assert elf.Elf(kernels.elf({}), "x").interpreter is None


@settings(max_examples=25)
@given(st.data())
def test_damage_is_bad_input_or_read(data: st.DataObject) -> None:
    whole = bytearray(
        data.draw(
            st.sampled_from(
                [kernels.image(), KERNEL, kernels.bzimage(lz4_stored(KERNEL)), FLAT, kernels.zboot(gzip.compress(FLAT))]
            )
        )
    )
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    with suppress(BadInput):
        identify(cut, "x", None, None)


@settings(max_examples=25)
@given(st.binary(max_size=200))
def test_any_bytes_as_configuration_and_lz4(data: bytes) -> None:
    for read in (lambda: read_symbols(data, "x"), lambda: lz4.unpacked(lz4.MAGIC + data)):
        with suppress(BadInput):
            read()


@pytest.mark.parametrize(
    "image, packing",
    [
        (FLAT, "none"),
        (gzip.compress(FLAT), "gzip"),
        (kernels.zboot(gzip.compress(FLAT)), "gzip, EFI zboot"),
        (kernels.zboot(zstandard.ZstdCompressor().compress(FLAT), b"zstd"), "zstd, EFI zboot"),
    ],
    ids=["flat", "gz", "zboot", "zboot-zstd"],
)
def test_a_kernel_for_arm64_in_its_forms(image: bytes, packing: str) -> None:
    found, symbols = identify(image, "Image", kernels.CONFIG, "config")
    assert (found.architecture, found.packing, found.release) == ("aarch64", packing, "6.12.7-test")
    assert (found.build_id, found.btf, found.scheduler, found.hz) == (kernels.BUILD_ID.hex(), True, "EEVDF", 250)
    assert symbols is not None
    assert bootable(image, "Image", "aarch64") == FLAT


def test_a_flat_kernel_says_no_more_than_it_shows() -> None:
    two = FLAT + kernels.note(b"GNU", 3, b"\xaa" * 20)
    assert identify(two, "Image", None, None)[0].build_id is None
    bare = FLAT.replace(b"task_struct", b"tusk_struct")
    assert identify(bare, "Image", None, None)[0].btf is False
    inside = kernels.CONFIG.replace(b"HZ=250", b"HZ=1000")
    found, _ = identify(kernels.flat(config=inside), "Image", kernels.CONFIG, "config")
    assert (found.hz, found.config_from) == (1000, "inside the image")


@pytest.mark.parametrize(
    "image, why",
    [
        (kernels.image(), "cannot boot a kernel for x86_64 in a guest for aarch64"),
        (kernels.elf({".rodata": b"Linux version 6"}, machine=183), "QEMU cannot boot an arm64 vmlinux"),
        (kernels.elf({}, machine=183), "a program, not a kernel"),
        (kernels.zboot(gzip.compress(FLAT))[:-9], "9 B of its kernel is missing"),
        (kernels.zboot(b"\x89LZO\0"), "lzo is not supported"),
        (b"MZ\0\0zimg", "damaged: its kernel is empty"),
        (gzip.compress(b"text"), "begins with 74 65 78 74"),
    ],
    ids=["x86", "vmlinux", "program", "cut off", "lzo", "head only", "text"],
)
def test_what_no_guest_of_arm64_is_started_with(image: bytes, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        bootable(image, "Image", "aarch64")


@pytest.mark.parametrize(
    "said, configured, lto, doubts",
    [
        (b"\1\0\0\0", b"CONFIG_LTO_CLANG_THIN=y\n", "thin", 0),
        (b"\0\0\0\0", b"CONFIG_LTO_NONE=y\n", "none", 0),
        (b"\1\0\0\0", b"CONFIG_LTO_NONE=y\n", "yes", 1),
        (b"\0\0\0\0", b"CONFIG_LTO_CLANG_FULL=y\n", "none", 1),
        (b"\1\0\0\0", None, "yes", 0),
    ],
)
def test_lto_is_what_the_kernel_says(said: bytes, configured: bytes | None, lto: str, doubts: int) -> None:
    config = None if configured is None else kernels.CONFIG.replace(b"CONFIG_LTO_NONE=y\n", configured)
    notes = kernels.note(b"GNU", 3, kernels.BUILD_ID) + kernels.note(b"Linux", 0x101, said)
    image = kernels.elf({".rodata": kernels.BANNER, ".notes": notes})
    found, _ = identify(image, "vmlinux", config, "config")
    assert (found.lto, len(found.notes), found.build_id) == (lto, doubts, kernels.BUILD_ID.hex())

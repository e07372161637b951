# SPDX-License-Identifier: Apache-2.0
"""Whatever a kernel, a package, an archive or a recording holds, it is read or refused: in time, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kernels.build.objects import comments, producers
from ktrial.kernels.build.sources import _inner
from ktrial.kernels.images import flat_kernel, packages
from ktrial.kernels.images.kernel_image import bootable, read_image
from ktrial.kernels.images.kernel_module import read_module
from ktrial.kernels.images.packages import kernel_of
from ktrial.kernels.images.read_identity import identify, read_symbols
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.formats import cpio, packed
from ktrial.kit.formats.elf import Elf
from ktrial.recordings.formats import read_recording_file
from ktrial.recordings.growing import GrowingRecording
from ktrial.results.import_file import unpacked
from tests.kernels.unit.test_kernel_image import lz4_stored
from tests.support import kernels, written_recordings
from tests.support.long_lines import CAP_S, at_most, at_most_bytes, slower

ROOM_BYTES = 1 << 30
#: What lengths and places may be overwritten with.
NUMBERS = (0, 1, 0xFF, 1 << 15, 1 << 31, (1 << 31) - 1, (1 << 32) - 1, 1 << 63, (1 << 63) - 1, (1 << 64) - 1)
WORDS = (b"..", b"../../x", b"/", b"\0", b"TRAILER!!!", b"\xff\xfe", b"99999999999", b"-1", b"0x", b"ffffffff")


class Sample(NamedTuple):
    """What is mutated, and what it is packed in afterwards."""

    inner: bytes
    pack: Callable[[bytes], bytes] = bytes


class Subject(NamedTuple):
    """A reader, and good inputs of it."""

    read: Callable[[bytes], object]
    samples: tuple[Sample, ...]


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 1),
    "xz": lambda data: lzma.compress(data, preset=0),
    "bzip2": lambda data: bz2.compress(data, 1),
    "zstd": zstandard.ZstdCompressor().compress,
}


def of_file(read: Callable[[Path], object], ending: str) -> Callable[[bytes], object]:
    """A reader of a path."""

    def from_bytes(data: bytes) -> object:
        with tempfile.NamedTemporaryFile(suffix=ending) as file:
            file.write(data)
            file.flush()
            return read(Path(file.name))

    return from_bytes


def sources_of(path: Path) -> object:
    with tempfile.TemporaryDirectory() as into:
        return _inner(path, Path(into)).stat().st_size


def everything_of(data: bytes) -> object:
    found = Elf(data, "f")
    sections = [found.section(one.name) for one in found.sections]
    return found.interpreter, found.note(".notes", "GNU", 3), sections, comments(found), producers(found)


def image(data: bytes) -> object:
    found = identify(data, "f", kernels.CONFIG, "config")
    for machine in ("x86_64", "aarch64"):
        try:
            bootable(data, "f", machine)
        except BadInput:
            continue
    return found


def deb(inner: bytes, name: str = "data.tar.xz") -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(inner):<10}`\n".encode()
    return b"!<arch>\n" + head + inner + b"\n" * (len(inner) % 2)


def rpm(archive: bytes) -> bytes:
    return kernels.rpm({}, "zstd", archive=archive)


KERNEL = kernels.kernel(config=kernels.CONFIG)
FILES = {"boot/config-6.12.7": kernels.CONFIG, "boot/vmlinuz-6.12.7": kernels.image(), "usr/x": b"text" * 200}
SOURCE = {"usr/src/linux-source-6.12.tar.xz": b"an archive" * 100}
MODULE = kernels.elf({".modinfo": b"depends=a,b\0softdep=pre: c post: d\0", ".debug_str": b"GNU C17 12.2 -O2\0"})
TAR = kernels.packed_tar(FILES, None)
RECORDING = written_recordings.recording()
SUBJECTS: dict[str, Subject] = {
    "image": Subject(
        image,
        (
            *(Sample(KERNEL, lambda data, pack=pack: kernels.bzimage(pack(data))) for pack in PACKERS.values()),  # type: ignore[misc]
            Sample(KERNEL, lambda data: kernels.bzimage(lz4_stored(data))),
            *(Sample(kernels.bzimage(pack(KERNEL))) for pack in PACKERS.values()),
            Sample(kernels.bzimage(lz4_stored(KERNEL))),
            Sample(kernels.zboot(gzip.compress(kernels.flat()))),
            Sample(kernels.flat(config=kernels.CONFIG)),
            Sample(KERNEL),
        ),
    ),
    "elf": Subject(
        everything_of,
        (Sample(KERNEL), Sample(MODULE), Sample(kernels.elf({".comment": b"GCC: 1\0"}, interpreter=b"/lib/ld.so"))),
    ),
    "module": Subject(
        lambda data: read_module(data, "f"), (Sample(MODULE), *(Sample(MODULE, pack) for pack in PACKERS.values()))
    ),
    "configuration": Subject(lambda data: read_symbols(data, "f"), (Sample(kernels.CONFIG),)),
    "deb": Subject(
        of_file(lambda path: kernel_of(path, "f"), ".deb"),
        (
            Sample(kernels.package(FILES)),
            *(Sample(TAR, lambda data, pack=pack: deb(pack(data))) for pack in (bytes, *PACKERS.values())),  # type: ignore[misc]
        ),
    ),
    "source": Subject(of_file(sources_of, ".deb"), (Sample(kernels.packed_tar(SOURCE, None), deb),)),
    "rpm": Subject(
        of_file(lambda path: kernel_of(path, "f"), ".rpm"),
        (
            Sample(kernels.rpm({f"lib/modules/6/{name}": b"x" * 99 for name in ("vmlinuz", "config")}, "gzip")),
            Sample(kernels.cpio({"lib/modules/6/vmlinuz": b"x" * 99, "x": b"y" * 99}), rpm),
        ),
    ),
    "pacman": Subject(
        of_file(lambda path: kernel_of(path, "f"), ".pkg.tar.zst"), (Sample(TAR, PACKERS["zstd"]), Sample(TAR))
    ),
    "cpio": Subject(
        lambda data: list(cpio.files(io.BytesIO(data).read, lambda name: True, 1 << 28, "f")),
        (Sample(kernels.cpio(FILES)),),
    ),
    "packed": Subject(packed.opened, tuple(Sample(pack(TAR)) for pack in PACKERS.values())),
    "stream": Subject(packed.first_stream, (Sample(lzma.compress(TAR, lzma.FORMAT_ALONE)),)),
    "gzip": Subject(lambda data: unpacked(data, "f", 1 << 28), (Sample(gzip.compress(TAR)),)),
    "recording": Subject(lambda data: read_recording_file(data, "f"), (Sample(RECORDING),)),
    "growing": Subject(lambda data: GrowingRecording().feed(data), (Sample(RECORDING),)),
}


def mutated(chance: random.Random, good: bytes) -> bytes:
    """A few bytes of it changed, numbers overwritten, parts left out, doubled or cut off."""
    data = bytearray(good)
    for _ in range(chance.randint(1, 5)):
        at = chance.randrange(len(data) or 1)
        match chance.randrange(7):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1 | 2:
                at -= at % chance.choice((1, 4, 8))
                size = chance.choice((1, 2, 4, 8))
                number = chance.choice(NUMBERS) & ((1 << size * 8) - 1)
                data[at : at + size] = number.to_bytes(size, chance.choice(("little", "big")))
            case 3:
                word = chance.choice(WORDS)
                data[at : at + len(word)] = word
            case 4:
                del data[at : at + chance.randint(1, 600)]
            case 5:
                data[at:at] = data[chance.randrange(len(data) or 1) :][: chance.choice((1, 60, 512))]
            case _:
                del data[at:]
    return bytes(data)


def read_or_refused(read: Callable[[bytes], object], data: bytes) -> str | None:
    """What it says; None where it was read. All else that is raised is a failure, as are hanging and hoarding."""
    with at_most(CAP_S), at_most_bytes(ROOM_BYTES):
        try:
            read(data)
        except KtrialError as error:
            assert error.message
            return error.message
    return None


@pytest.mark.parametrize("name", SUBJECTS)
def test_good_inputs_are_read(name: str) -> None:
    for sample in SUBJECTS[name].samples:
        assert read_or_refused(SUBJECTS[name].read, sample.pack(sample.inner)) is None


@pytest.mark.parametrize("name", SUBJECTS)
@settings(max_examples=max(150, settings().max_examples * 10), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_mutated_inputs_are_read_or_refused(name: str, seed: int) -> None:
    chance = random.Random(seed)
    sample = chance.choice(SUBJECTS[name].samples)
    read_or_refused(SUBJECTS[name].read, sample.pack(mutated(chance, sample.inner)))


@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.parametrize("data", [b"", b"\0" * 5000, b"\xff" * 5000], ids=["nothing", "NULs", "ones"])
def test_nothing_at_all(name: str, data: bytes) -> None:
    read_or_refused(SUBJECTS[name].read, data)


def entry(
    name: str, kind: bytes, size: int, content: bytes, link: str = "", more: dict[str, str] | None = None
) -> bytes:
    """A tar entry that may lie about its size."""
    made = tarfile.TarInfo(name)
    made.type, made.size, made.linkname = kind, size, link
    made.pax_headers = more or {}
    head = made.tobuf(tarfile.PAX_FORMAT) if more else made.tobuf(tarfile.GNU_FORMAT)
    return head + content + b"\0" * (-len(content) % 512)


IMAGE_NAME = "boot/vmlinuz-6"
SPARSE = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": IMAGE_NAME}
ODD = {
    "a size below nothing": entry(IMAGE_NAME, tarfile.REGTYPE, 512, b"x" * 512, more={"size": "-5"}),
    "no number": entry(IMAGE_NAME, tarfile.REGTYPE, 5, b"x", more={"size": "9e99"}),
}
LIARS = {
    "a size of terabytes": entry(IMAGE_NAME, tarfile.REGTYPE, 1 << 45, b"x"),
    "a link to itself": entry(IMAGE_NAME, tarfile.SYMTYPE, 0, b"", IMAGE_NAME),
    "a link out of it": entry(IMAGE_NAME, tarfile.SYMTYPE, 0, b"", "../../../../etc/shadow"),
    "a hard link out of it": entry(IMAGE_NAME, tarfile.LNKTYPE, 0, b"", "/etc/shadow"),
    "a name out of it": entry("../" + IMAGE_NAME, tarfile.REGTYPE, 1, b"x"),
    "long names of long names": entry("L", tarfile.GNUTYPE_LONGNAME, 1, b"x") * 3000,
    "many parts": entry(IMAGE_NAME, tarfile.REGTYPE, 512, b"99999999999999\n".ljust(512, b"1"), more=SPARSE),
    "a long name without end": entry("L", tarfile.GNUTYPE_LONGNAME, 1 << 40, b"x") + b"y" * 2_000_000,
    "words without end": entry("x", tarfile.XHDTYPE, 1 << 40, b"x") + b"y" * 2_000_000,
    "parts without end": entry(
        IMAGE_NAME, tarfile.REGTYPE, 1 << 30, b"99999999999999\n" + b"1\n" * 1_000_000, more=SPARSE
    ),
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_sizes_that_are_none(data: bytes) -> None:
    for name in ("deb", "source"):
        read_or_refused(SUBJECTS[name].read, deb(PACKERS["zstd"](data + b"\0" * 1024)))


@pytest.mark.parametrize("data", LIARS.values(), ids=LIARS)
def test_archives_that_lie(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_CONTENTS_LIMIT_BYTES", 1 << 20)
    refused = read_or_refused(SUBJECTS["deb"].read, deb(PACKERS["zstd"](data + b"\0" * 1024)))
    assert refused is not None
    assert read_or_refused(SUBJECTS["source"].read, deb(PACKERS["zstd"](data + b"\0" * 1024))) is not None


def with_dictionary(data: bytes, byte: int) -> bytes:
    """xz whose stream asks for a dictionary of a size that the byte tells."""
    made = bytearray(lzma.compress(data, check=lzma.CHECK_CRC32))
    length = (made[12] + 1) * 4
    place = made.index(b"\x21\x01", 12) + 2
    made[place] = byte
    made[12 + length - 4 : 12 + length] = struct.pack("<I", zlib.crc32(made[12 : 12 + length - 4]))
    return bytes(made)


@pytest.mark.parametrize(
    "read", [packed.opened, packed.first_stream, lambda data: read_image(kernels.bzimage(data), "f")]
)
def test_a_dictionary_of_gigabytes_is_not_made(read: Callable[[bytes], object]) -> None:
    kept = with_dictionary(b"x" * 5000, 26)  # 32 MiB
    assert packed.first_stream(kept) == b"x" * 5000
    refused = read_or_refused(read, with_dictionary(b"x" * 5000, 36))  # 1 GiB
    assert refused is not None
    assert "emory" in refused
    raw = bytearray(lzma.compress(b"x" * 5000, lzma.FORMAT_ALONE))
    raw[1:5] = struct.pack("<I", 1 << 31)
    assert "emory" in str(read_or_refused(packed.first_stream, bytes(raw)))


def test_packages_ask_for_no_dictionary_of_gigabytes() -> None:
    refused = read_or_refused(SUBJECTS["deb"].read, deb(with_dictionary(TAR, 36)))
    assert refused is not None
    assert "emory" in refused


@pytest.mark.parametrize("name", ["deb", "source", "rpm"])
def test_no_more_is_unpacked_than_a_package_holds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_WHOLE_LIMIT_BYTES", 1 << 26)
    many = 100 << 20
    archive = entry("usr/x", tarfile.REGTYPE, many, bytes(many)) if name != "rpm" else kernels.cpio({"x": bytes(many)})
    whole = deb(PACKERS["zstd"](archive)) if name != "rpm" else rpm(archive)
    assert "is larger than" in str(read_or_refused(SUBJECTS[name].read, whole))


def places(size: int) -> bytes:
    """Notes and programs without end within a kernel."""
    program = struct.pack("<4sBB34xQ4xHHHHH", b"\x7fELF", 2, 1, 0, 64, 0, 0, 64, 0).ljust(64, b"\0")
    note = struct.pack("<III4s", 4, 0, 3, b"GNU\0")
    return b"MZ".ljust(56, b"\0") + b"ARM\x64" + program * (size // 128) + note * (size // 32) + kernels.BANNER


def types(size: int) -> bytes:
    """Heads of types without end, each of them saying that the rest is its own."""
    head = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 0, 0, 0xFFFF_FFFF)
    return b"MZ".ljust(56, b"\0") + b"ARM\x64" + head * (size // len(head)) + kernels.BANNER


GROWING: dict[str, tuple[Callable[[bytes], object], Callable[[int], bytes]]] = {
    "many streams": (packed.opened, lambda size: PACKERS["zstd"](b"") * (size // 9)),
    "many members": (SUBJECTS["gzip"].read, lambda size: gzip.compress(b"") * (size // 20)),
    "notes among programs": (flat_kernel.own_build_id, places),
    "heads of types": (flat_kernel.has_btf, types),
    "blocks of a recording": (
        SUBJECTS["recording"].read,
        lambda size: RECORDING[:200] + written_recordings.block("X", b"x") * (size // 20),
    ),
}


@pytest.mark.parametrize("name", GROWING)
def test_time_grows_with_the_length(name: str) -> None:
    read, make = GROWING[name]
    assert slower(read, make, (128 << 10, 1 << 20)) is None

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import bz2
import gzip
import lzma
import tracemalloc
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput
from ktrial.kit.formats import packed
from ktrial.kit.formats.packed import opened

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("name", PACKERS)
@given(data=st.binary(min_size=1))
def test_what_is_inside_and_the_way_back(name: str, data: bytes) -> None:
    found = opened(PACKERS[name](data))
    assert found is not None
    assert (found.inner, found.bare) == (data, True)
    again = opened(found.pack(data))
    assert again is not None
    assert again.inner == data
    assert found.pack(data) == found.pack(data)


@pytest.mark.parametrize("name", PACKERS)
def test_several_streams_are_one_file(name: str) -> None:
    found = opened(PACKERS[name](b"one") + PACKERS[name](b"two" * 5000) + b"\0" * 512)
    assert found is not None
    assert found.inner == b"one" + b"two" * 5000


@pytest.mark.parametrize("name", PACKERS)
def test_what_cannot_be_opened_whole_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PACKERS[name](b"some text, some text and more" * 100)
    with pytest.raises(BadInput, match="end is missing"):
        opened(whole[:-3])
    with pytest.raises(BadInput, match="cannot unpack"):
        opened(whole + b"more, which is not a stream")
    monkeypatch.setattr(packed, "LIMIT_BYTES", 1000)
    with pytest.raises(BadInput, match="exceeds 1000 B"):
        opened(whole)


def test_a_bomb_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "LIMIT_BYTES", 1 << 20)
    bomb = zstandard.ZstdCompressor().compress(bytes(200 << 20))
    tracemalloc.start()
    with pytest.raises(BadInput, match="the content exceeds"):
        opened(bomb)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 64 << 20


def test_other_archives_are_named() -> None:
    with pytest.raises(BadInput, match="cannot read zip archives"):
        opened(b"PK\x03\x04rest")


@pytest.mark.parametrize("data", [b"", b"plain", b"\x1f\x8b", b"BZh9 is not a bzip2", b"\0" * 99])
def test_all_else_is_not_packed(data: bytes) -> None:
    assert opened(data) is None


def test_the_name_in_a_header_tells_something() -> None:
    header = b"\x1f\x8b\x08\x08\0\0\0\0\0\x03of-alice.txt\0"
    found = opened(header + gzip.compress(b"text", mtime=0)[10:])
    assert found is not None
    assert (found.inner, found.bare) == (b"text", False)
    assert b"alice" not in found.pack(b"text")

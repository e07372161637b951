# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip

import pytest

from ktrial.kit.errors import KtrialError
from ktrial.results.import_file import unpacked


def test_files_that_were_packed_one_by_one_are_read_whole() -> None:
    data = gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n") + bytes(512)
    assert unpacked(data, "t.csv.gz", 100) == (b"a,b\n1,2\n3,4\n", "t.csv")


@pytest.mark.parametrize(
    "data, said",
    [
        (gzip.compress(b"a" * 200), "unpacks to more than 100 B"),
        (gzip.compress(b"a" * 60) + gzip.compress(b"b" * 60), "unpacks to more than 100 B"),
        (gzip.compress(b"abc")[:-3], "the end is missing"),
        (gzip.compress(b"abc")[:4], "the end is missing"),
        (gzip.compress(b"abc")[:12] + b"\xff" * 20, "cannot unpack gzip data: the end is missing after byte"),
        (gzip.compress(b"abc") + b"more", "cannot unpack gzip data: "),
    ],
    ids=["large", "large-together", "cut", "cut-header", "damaged", "more"],
)
def test_what_is_not_whole_or_too_large_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(KtrialError, match=said):
        unpacked(data, "t.csv.gz", 100)


def test_other_data_is_left_as_it_is() -> None:
    assert unpacked(b"a,b\n", "t.gz", 2) == (b"a,b\n", "t.gz")

# SPDX-License-Identifier: Apache-2.0
"""10 MB of one line, for every reader: at most in proportion slower than 1 MB, in bounded memory."""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.long_lines import FEW, filled, slower, texts
from tests.support.readers import readers

READERS = readers()


@pytest.mark.parametrize("name", sorted(READERS))
def test_ten_megabytes_of_one_line(name: str) -> None:
    for filling in FEW:
        told = slower(READERS[name], partial(filled, filling), (1_000_000, 10_000_000))
        assert told is None, f"{name}, {filling!r}: {told}"


@pytest.mark.parametrize("name", sorted(READERS))
def test_time_and_memory_grow_with_the_length(name: str) -> None:
    for what, make in texts(name):
        told = slower(READERS[name], make, (16 << 10, 128 << 10))
        assert told is None, f"{name}, {what}: {told}"

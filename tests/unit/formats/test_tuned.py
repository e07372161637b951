# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from ktrial.formats.tuned import parse


def test_a_kernel_argument_without_a_name_is_named() -> None:
    reading = parse("[bootloader]\ncmdline_x=+quiet =5\n", "f").reading()
    assert [item.name for item in reading.assignments] == ["quiet"]
    assert [item.line_number for item in reading.unread] == [2]

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kernels.images.debian_package import HEADER_BYTES, ArchiveMember, member
from ktrial.kit.errors import BadInput


def test_a_members_header() -> None:
    header = f"{'data.tar.xz/':<16}{0:<12}{0:<6}{0:<6}{100644:<8}{7:<10}`\n".encode()
    found = member(header, 68, "x.deb")
    assert found == ArchiveMember("data.tar.xz", 128, 7)
    assert found.next == 136


@given(st.binary(max_size=HEADER_BYTES))
def test_anything_else_is_bad_input(header: bytes) -> None:
    with pytest.raises(BadInput, match=r"x\.deb: truncated or damaged: no ar member header at byte 8"):
        member(header, 8, "x.deb")

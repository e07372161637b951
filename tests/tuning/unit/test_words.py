# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from ktrial.tuning.origin.formats.words import split_words


@given(st.text(alphabet="ab \t\n\r'\"\\#;é"))
def test_words_are_those_of_shlex(line: str) -> None:
    try:
        wanted = shlex.split(line)
    except ValueError:
        wanted = None
    try:
        found = split_words(line)
    except ValueError:
        found = None
    assert found == wanted

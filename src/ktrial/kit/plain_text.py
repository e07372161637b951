# SPDX-License-Identifier: Apache-2.0
"""Escape characters that control a terminal, reverse the direction of text, or are invisible."""

from __future__ import annotations

import re

#: Control characters (except line feed and tab), soft hyphens, direction marks and embeddings, zero-width characters,
#: line and paragraph separators, tags, and surrogates.
UNPLAIN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)


def plain(text: str) -> str:
    """Return the text with control and invisible characters (UNPLAIN) escaped as in a Python literal."""
    return UNPLAIN.sub(lambda found: ascii(found[0])[1:-1], text)

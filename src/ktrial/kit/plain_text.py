# SPDX-License-Identifier: Apache-2.0
"""Characters that steer a terminal, turn the direction of a line round, or cannot be seen."""

from __future__ import annotations

import re

#: Controls (but for the end of a line and a tab), soft hyphens, marks and embeddings of direction, what has no width,
#: separators of lines and paragraphs, tags, and halves of characters.
UNPLAIN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)


def plain(text: str) -> str:
    """Return the text with such characters as Python writes them in a literal."""
    return UNPLAIN.sub(lambda found: ascii(found[0])[1:-1], text)

# SPDX-License-Identifier: Apache-2.0
"""Words of a command line with quotes and backslashes, and patterns of names.

Words are split as `shlex.split` does, in time that grows with the line: that one needs four times as long for a word
that is twice as long.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

#: No name in /proc, /sys or /dev is longer, and to read a long pattern takes time that grows with its square.
_LONGEST = 255


def fits(name: str, pattern: str) -> bool:
    """Return whether the pattern (`*`, `?`, `[…]`) fits the whole name; one that is longer than any name fits none."""
    return len(pattern) <= _LONGEST and fnmatchcase(name, pattern)


#: What lies between two words, and the parts that a word is made of.
_PART = re.compile(
    r"""(?P<between>[ \t\r\n]+)
      | (?P<plain>[^ \t\r\n'"\\]+)
      | '(?P<single>[^']*)'
      | "(?P<double>[^"\\]*(?:\\.[^"\\]*)*)"
      | \\(?P<escaped>.)""",
    re.VERBOSE | re.DOTALL,
)
_IN_QUOTES = re.compile(r'\\(["\\])')


def split_words(line: str) -> list[str]:
    """Return the words. Raises ValueError for a quote without its end, and for a backslash at the end."""
    words: list[str] = []
    parts: list[str] = []
    at = 0
    while at < len(line):
        found = _PART.match(line, at)
        if found is None:
            raise ValueError("a quote or a backslash has no end")
        at = found.end()
        if found.lastgroup == "between":
            words += ["".join(parts)] if parts else []
            parts = []
        else:
            part = found[found.lastgroup or ""]
            parts.append(_IN_QUOTES.sub(r"\1", part) if found.lastgroup == "double" else part)
    return [*words, "".join(parts)] if parts else words

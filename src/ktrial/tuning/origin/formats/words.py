# SPDX-License-Identifier: Apache-2.0
"""Split command lines with quotes and backslashes into words, and match name patterns.

The words are the same as from `shlex.split`, whose time grows with the square of a word's length. Here the time grows
linearly.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

#: No name in /proc, /sys or /dev is longer, and the time to compile a pattern grows with the square of its length.
_LONGEST = 255


def fits(name: str, pattern: str) -> bool:
    """Return whether the pattern (`*`, `?`, `[…]`) matches the whole name; overlong patterns match nothing."""
    return len(pattern) <= _LONGEST and fnmatchcase(name, pattern)


#: The space between two words, and the parts of a word.
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
    """Return the words of `line`. Raise ValueError for an unclosed quote or a trailing backslash."""
    words: list[str] = []
    parts: list[str] = []
    at = 0
    while at < len(line):
        found = _PART.match(line, at)
        if found is None:
            raise ValueError("unclosed quote or trailing backslash")
        at = found.end()
        if found.lastgroup == "between":
            words += ["".join(parts)] if parts else []
            parts = []
        else:
            part = found[found.lastgroup or ""]
            parts.append(_IN_QUOTES.sub(r"\1", part) if found.lastgroup == "double" else part)
    return [*words, "".join(parts)] if parts else words

# SPDX-License-Identifier: Apache-2.0
"""The text of a saved web page, as lines: scripts and styles left out, rows of tables with `|` between their cells.

The page is read, never rendered or run. A line has the number of the page's line on which its text begins.
"""

from __future__ import annotations

import html
import re

from ktrial.tuning.origin.formats.lines import LONGEST_LINE_BYTES, Line, Unread, unread_line

_START = re.compile(r"\s*+(?:<\?xml[^<>]*+>\s*+)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_NAME = re.compile(r"\.x?html?$", re.IGNORECASE)
_PIECE = re.compile(
    r"""(?P<comment><!--)
      | <(?P<close>/?)(?P<tag>[A-Za-z][A-Za-z0-9-]*+)(?:[^<>"']|"[^"<]*+"|'[^'<]*+'|["'])*+>
      | (?P<other><[!?/][^<>]*+>)
      | (?P<text>[^<]++|<)""",
    re.VERBOSE,
)
_REFERENCE = re.compile(r"&(?:\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_BLANK = re.compile(r"[\s\xa0]+")
#: A row of a listing with its line numbers in the first cell.
_NUMBERED = re.compile(r"\|[ \t]*+\d*+[ \t]*+\|(?P<code>[^|]*+)\Z")
_ENDS = {tag: re.compile(f"</{tag}", re.IGNORECASE) for tag in ("script", "style", "svg", "template")}
_CELLS = frozenset(("td", "th"))
#: Tags that begin and end a line; those in the second set do so within a cell of a table too.
_BLOCKS = frozenset(
    (
        *("p", "div", "br", "section", "article", "main", "aside", "header", "footer", "nav", "blockquote", "form"),
        *("dl", "dt", "dd", "hr", "body", "html", "head", "title", "figure", "figcaption", "summary", "details"),
    )
)
_ALWAYS = frozenset(("pre", "table", "tr", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6", "textarea"))


def is_page(data: str | bytes, file: str) -> bool:
    """Return whether the name or the first tag shows a web page."""
    head = data[:1000] if isinstance(data, str) else data[:1000].decode("utf-8-sig", "replace")
    return _NAME.search(file) is not None or _START.match(head) is not None


def page_lines(data: str | bytes, file: str) -> tuple[list[Line], list[Unread]]:
    """Return the lines of a page's text, and the unread lines, which are too long."""
    text = data if isinstance(data, str) else data.decode("utf-8-sig", "replace")
    reader = _PageReader(file)
    at = 0
    while at < len(text) and (piece := _PIECE.match(text, at)) is not None:
        end = piece.end()
        if piece["comment"]:
            close = text.find("-->", end)
            end = len(text) if close < 0 else close + 3
        elif piece["text"]:
            reader.add(piece["text"])
        elif piece["tag"]:
            tag = piece["tag"].lower()
            reader.tag(tag, closes=bool(piece["close"]))
            if tag in _ENDS and not piece["close"] and not piece[0].endswith("/>"):
                found = _ENDS[tag].search(text, end)
                end = len(text) if found is None else found.start()
        if not piece["text"]:
            reader.number += text.count("\n", at, end)
        at = end
    reader.end_line()
    return reader.lines, reader.unread


class _PageReader:
    """Collects text into lines; `number` is the current line of the page."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.number = 1
        self.lines: list[Line] = []
        self.unread: list[Unread] = []
        self._parts: list[str] = []
        self._first: int | None = None  # the line with the first text of the line in progress
        self._in_row = self._as_written = False

    def add(self, text: str) -> None:
        """Add the text between two tags."""
        for index, part in enumerate(text.split("\n")):
            if index:
                self.number += 1
                if self._as_written:
                    self.end_line()
            plain = _REFERENCE.sub(lambda found: html.unescape(found[0]), part.replace("\0", ""))
            plain = _BLANK.sub(" ", plain)
            if self._first is None and plain.strip():
                self._first = self.number
            self._parts.append(plain if not index or self._as_written else f" {plain}")

    def tag(self, tag: str, *, closes: bool) -> None:
        """Process a tag, which may end a line or begin a cell of a table."""
        if tag in _CELLS:
            self._in_row = True
            if not closes:
                self._parts.append("| ")
        elif tag in _ALWAYS:
            self.end_line()
            self._in_row = False
            if tag in ("pre", "textarea"):
                self._as_written = not closes
        elif tag in _BLOCKS:
            if self._in_row:
                self._parts.append(" ")
            else:
                self.end_line()
        elif tag == "code" and not self._as_written:
            self._parts.append("`")

    def end_line(self) -> None:
        """End the line, if it has any text."""
        text, number = "".join(self._parts).strip(), self._first
        self._parts, self._first = [], None
        if number is None:
            return
        numbered = _NUMBERED.match(text)
        text = numbered["code"].strip() if numbered is not None else text
        if len(text.encode("utf-8", "replace")) > LONGEST_LINE_BYTES:
            self.unread.append(unread_line(self.file, number, text, f"longer than {LONGEST_LINE_BYTES} bytes"))
        else:
            self.lines.append(Line(number, text))

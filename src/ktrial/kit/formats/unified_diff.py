# SPDX-License-Identifier: Apache-2.0
"""Reader of unified diffs: the files that a patch touches, and its hunks. The program `patch` applies them."""

from __future__ import annotations

import re

import msgspec

from ktrial.kit.formats.tool_output import numbered, unreadable

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*", re.ASCII)
_GIT = re.compile(r"diff --git (\S+) (\S+)")
_MOVED = re.compile(r"(?:rename|copy) (?:from|to) (.+)")
_MODE = re.compile(r"(?:new file mode|new mode) (\d{6})", re.ASCII)
_BINARY = re.compile(r"GIT binary patch|Binary files .* differ")
_LINK = "120000"
_NOWHERE = "/dev/null"


class Hunk(msgspec.Struct, frozen=True):
    """A hunk of a patch: it stands on line `line` of the patch, and changes the old file from line `begin` on."""

    line: int
    begin: int
    lines: tuple[str, ...]


class FilePatch(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that a patch makes to one file.

    `link` means that the patch makes the file a symbolic link. `names` are all names of the file in the patch.
    `mentioned` are names without a prefix, from lines such as `rename from`.
    """

    names: tuple[str, ...]
    mentioned: tuple[str, ...] = ()
    link: bool = False
    hunks: tuple[Hunk, ...] = ()

    @property
    def added(self) -> str:
        return "".join(f"{line[1:]}\n" for hunk in self.hunks for line in hunk.lines if line.startswith("+"))


class _Open:
    """The changes of one file while the patch is being read."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.mentioned: list[str] = []
        self.link = False
        self.hunks: list[Hunk] = []

    def closed(self) -> FilePatch:
        return FilePatch(
            names=tuple(dict.fromkeys(self.names)),
            mentioned=tuple(self.mentioned),
            link=self.link,
            hunks=tuple(self.hunks),
        )


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._open: _Open | None = None
        self.files: list[FilePatch] = []
        self._hunk: list[str] | None = None
        self._head = (0, 0)
        #: Lines of the old and of the new file that the current hunk still lacks.
        self._left = (0, 0)
        self._dashes: str | None = None

    def line(self, number: int, text: str) -> None:
        if self._hunk is not None and self._left != (0, 0):
            self._content(number, text)
            return
        if self._hunk is not None and text.startswith("\\"):
            return
        self._end_hunk()
        if match := _HUNK.fullmatch(text):
            self._begin_hunk(number, match)
        else:
            self._header(number, text)

    def _header(self, number: int, text: str) -> None:
        if _BINARY.fullmatch(text):
            raise unreadable(self._source, number, text, "a patch of text: it changes a binary file")
        if match := _GIT.fullmatch(text):
            self._begin_file()
            self._file.names += [match[1], match[2]]
        elif text.startswith("--- "):
            self._dashes = _name(text)
        elif text.startswith("+++ ") and self._dashes is not None:
            if self._open is None or self._file.hunks or not self._file.names:
                self._begin_file()
            self._file.names += [name for name in (self._dashes, _name(text)) if name != _NOWHERE]
            self._dashes = None
        elif text.startswith("Index: "):
            self._begin_file()
            self._file.names.append(text.removeprefix("Index: ").strip())
        elif self._open is not None and (match := _MOVED.fullmatch(text)):
            self._file.mentioned.append(match[1])
        elif self._open is not None and (match := _MODE.fullmatch(text)):
            self._file.link = match[1] == _LINK

    @property
    def _file(self) -> _Open:
        assert self._open is not None, "a file has begun"
        return self._open

    def _begin_file(self) -> None:
        self._end_file()
        self._open = _Open()

    def _end_file(self) -> None:
        if self._open is not None and self._open.names:
            self.files.append(self._open.closed())
        self._open = None

    def _begin_hunk(self, number: int, match: re.Match[str]) -> None:
        if self._open is None:
            raise unreadable(self._source, number, match[0], "a hunk of a file: no --- and +++ lines precede it")
        old, new = (int(match[at]) if match[at] is not None else 1 for at in (2, 4))
        self._hunk, self._head, self._left = [], (number, int(match[1])), (old, new)

    def _content(self, number: int, text: str) -> None:
        assert self._hunk is not None, "a hunk has begun"
        old, new = self._left
        sign = text[:1] or " "
        if sign == "\\":
            return
        if sign not in " +-":
            raise unreadable(self._source, number, text, f"a line of a hunk: {old} old and {new} new lines are missing")
        self._left = old - (sign in " -"), new - (sign in " +")
        if min(self._left) < 0:
            raise unreadable(self._source, number, text, "a line of this hunk: the hunk's header counts fewer lines")
        self._hunk.append(text or " ")

    def _end_hunk(self) -> None:
        if self._hunk is not None:
            self._file.hunks.append(Hunk(*self._head, tuple(self._hunk)))
        self._hunk = None

    def end(self) -> tuple[FilePatch, ...]:
        if self._left != (0, 0):
            raise unreadable(
                self._source, self._head[0], "@@", "the start of a whole hunk: the patch ends within the hunk"
            )
        self._end_hunk()
        self._end_file()
        if not self.files:
            raise unreadable(self._source, None, "", "a patch: it has no --- and +++ lines")
        return tuple(self.files)


def read_patch(data: bytes, source: str = "a patch") -> tuple[FilePatch, ...]:
    """Read a unified diff, with or without a message around it. Replace bytes that are not UTF-8.

    Raise UnreadableOutput if the text is not a diff, or if a hunk is damaged.
    """
    reader = _Reader(source)
    for number, text in numbered(data.decode("utf-8", "replace").encode(), source):
        reader.line(number, text)
    return reader.end()


def strip_name(name: str, strip: int) -> str:
    """Return a name without its first `strip` folders, like `patch -pN`."""
    return "/".join(name.split("/")[strip:])


def _name(text: str) -> str:
    """Return the file name of a `---` or `+++` line, without the time that may follow after a tab."""
    name = text[4:].partition("\t")[0].strip()
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name

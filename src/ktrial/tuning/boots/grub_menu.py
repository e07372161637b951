# SPDX-License-Identifier: Apache-2.0
"""Reader of `grub.cfg`: its menu entries, and how it treats `next_entry`, `custom.cfg` and passwords.

The file is a script. The reader runs nothing: it takes the commands in order and marks those that depend on a
condition.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

#: Every text is a sequence of these pieces; none of them needs backtracking.
_PIECE = re.compile(
    r"""(?P<blank>(?:[ \t\r]|\\\n)+)
    |(?P<end>[\n;&|]+)
    |(?P<brace>[{}])
    |(?P<single>'[^']*'?)
    |(?P<double>"(?:[^"\\]|\\.)*"?)
    |(?P<variable>\$(?:\{[^}\s]*\}?|[A-Za-z_][A-Za-z0-9_]*|[0-9*@\#?])?)
    |(?P<plain>(?:[^\s;&|{}'"$\\]|\\[^\n])+|.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_DEVICE = re.compile(r"\([^()]*\)")
_UUID = re.compile(r"[A-Za-z0-9-]{1,64}")
_MODULE = re.compile(r"[a-z0-9_]{1,40}")
_LINUX = frozenset(("linux", "linuxefi", "linux16"))
_INITRD = frozenset(("initrd", "initrdefi", "initrd16"))
_XEN = frozenset(("multiboot", "multiboot2", "module", "module2", "xen_hypervisor", "xen_module", "xen_linux"))
#: Commands that an entry can do without.
_HARMLESS = frozenset(
    (
        "savedefault",
        "recordfail",
        "echo",
        "load_video",
        "gfxmode",
        "set",
        "unset",
        "export",
        "[",
        "test",
        "true",
        "false",
    )
) | frozenset(("sleep", "clear", "terminal_output", "terminal_input", "background_image", "loadfont", "play", ":"))
#: Commands that an entry may need and that ktrial's own entry cannot have -> what they do.
_UNFIT = {
    "cryptomount": "unlocks an encrypted disk",
    "loopback": "boots from a disk image",
    "chainloader": "starts another boot loader",
    "configfile": "reads another configuration",
    "devicetree": "loads a device tree",
    **dict.fromkeys(_XEN, "loads Xen, which then loads Linux"),
}


class MenuEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that loads Linux.

    Paths are GRUB's, without devices; `unfit` says what ktrial's own entry cannot reproduce. `ids` are the IDs of the
    submenus around the entry and its own ID; a missing ID is empty.
    """

    title: str
    kernel: str
    words: tuple[str, ...] = ()
    initrds: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    search: str | None = None
    unfit: str | None = None
    ids: tuple[str, ...] = ()


class GrubConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a `grub.cfg` does.

    `has_entry_files` means that the file runs GRUB's command `blscfg`, which reads entries from other files. `modules`
    are the modules that the file loads before `blscfg`, and `search` is the UUID that it searches for.
    `may_ask_password` means that GRUB asks for a password only under a condition, as Fedora's does if there is a
    `user.cfg`.
    """

    entries: tuple[MenuEntry, ...] = ()
    has_entry_files: bool = False
    modules: tuple[str, ...] = ()
    search: str | None = None
    variables: Mapping[str, str] = {}
    reads_next_entry: bool = False
    reads_custom: bool = False
    unlocks_disk: bool = False
    asks_password: bool = False
    may_ask_password: bool = False
    verifies_files: bool = False
    waits_for_key: bool = False


def read_grub_config(text: str) -> GrubConfig:
    """Return what a `grub.cfg` does; other texts give a result without entries."""
    script = _Script()
    for command in _commands(text):
        script.take(command)
    return script.config()


def grub_program(name: str, path: str) -> str:
    """Return `grub2-mkconfig` for `mkconfig` if `path` is in a folder `grub2`, otherwise `grub-mkconfig`."""
    return f"{'grub2' if 'grub2' in path.split('/') else 'grub'}-{name}"


def without_device(path: str) -> str:
    """Return a GRUB path without its device, such as `(hd0,gpt2)` or `($root)`."""
    found = _DEVICE.match(path)
    return path[found.end() :] if found is not None else path


class _Command(NamedTuple):
    """The words of one command; `mark` is the brace that ended it."""

    words: tuple[str, ...]
    mark: str


def _commands(text: str) -> Iterator[_Command]:
    words: list[str] = []
    word: list[str] = []
    at = 0
    while at < len(text):
        if not word and text[at] == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            continue
        piece = _PIECE.match(text, at)
        assert piece is not None, "a piece may be any character"
        at = piece.end()
        kind = piece.lastgroup
        if kind not in {"blank", "end", "brace"}:
            word.append(_plain(piece[0], str(kind)))
            continue
        if word:
            words.append("".join(word))
            word = []
        if kind == "blank":
            continue
        mark = piece[0] if kind == "brace" else ""
        if words or mark:
            yield _Command(tuple(words), mark)
            words = []
    if word:
        words.append("".join(word))
    if words:
        yield _Command(tuple(words), "")


def _plain(piece: str, kind: str) -> str:
    """Return a piece of a word without quotes and backslashes, with variables unexpanded."""
    if kind == "single":
        return piece[1:].removesuffix("'")
    if kind == "double":
        piece = piece[1:].removesuffix('"')
    return piece if kind == "variable" else _ESCAPED.sub(r"\1", piece)


class _Draft:
    """A menu entry whose commands are still being read."""

    def __init__(self, title: str, search: str | None, ids: tuple[str, ...]) -> None:
        self.title = title
        self.ids = ids
        self.kernel: str | None = None
        self.words: tuple[str, ...] = ()
        self.initrds: tuple[str, ...] = ()
        self.modules: list[str] = []
        self.searches: set[str] = set()
        self.outer_search = search
        self.sets_root = False
        self.unfit: str | None = None

    def take(self, words: Sequence[str], *, is_conditional: bool) -> None:
        name, rest = words[0], words[1:]
        if name in _LINUX | _INITRD:
            self._take_file(name, rest, is_conditional)
        elif name == "insmod":
            if not is_conditional:
                self.modules += [module for module in rest if _MODULE.fullmatch(module)]
        elif name == "search" or name.startswith("search."):
            self._take_search(words)
        elif name in _UNFIT:
            self._refuse(f"{_UNFIT[name]} ({name})")
            is_kernel = name in _XEN and rest and posixpath.basename(rest[0]).startswith("vmlinu")
            self.kernel = without_device(rest[0]) if is_kernel else self.kernel
        elif name == "set":
            self.sets_root = self.sets_root or any(word.startswith("root=") for word in rest)
        elif name not in _HARMLESS:
            self._refuse(f"runs {name}")

    def _take_file(self, name: str, rest: Sequence[str], is_conditional: bool) -> None:
        if is_conditional:
            self._refuse(f"runs {name} under a condition")
        if name in _LINUX and rest:
            if self.kernel is not None:
                self._refuse(f"runs {name} twice")
            self.kernel, self.words = without_device(rest[0]), tuple(rest[1:])
        elif name in _INITRD:
            self.initrds = tuple(without_device(path) for path in rest)
        for path in (self.kernel or "", *self.initrds):
            if "$" in path:
                self._refuse(f"has a variable in a path ({path})")
            elif path and not path.startswith("/"):
                self._refuse(f"names a file in an unknown form ({path})")

    def _take_search(self, words: Sequence[str]) -> None:
        variable, uuid = _search(words)
        if variable != "root":
            return
        if uuid is None:
            self._refuse("finds its disk by a label or a file instead of a UUID")
        else:
            self.searches.add(uuid)

    def _refuse(self, why: str) -> None:
        self.unfit = self.unfit or why

    def entry(self) -> MenuEntry | None:
        if self.kernel is None:
            return None
        if len(self.searches) > 1:
            self._refuse("finds its disk in two ways")
        if self.sets_root and not self.searches:
            self._refuse("names its disk by number instead of a UUID")
        return MenuEntry(
            title=self.title,
            kernel=self.kernel,
            words=self.words,
            initrds=self.initrds,
            modules=tuple(dict.fromkeys(self.modules)),
            search=next(iter(self.searches), self.outer_search),
            unfit=self.unfit,
            ids=self.ids,
        )


def _id(words: Sequence[str]) -> str:
    """Return the name of a menu or entry, which follows `--id` or grub-mkconfig's variable for it."""
    flags = ("--id", "$menuentry_id_option", "${menuentry_id_option}")
    return next((name for flag, name in pairwise(words) if flag in flags), "")


def _search(words: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the variable that `search` sets, and the UUID that it looks for; None for each that is missing."""
    if words[0] != "search":
        is_uuid = words[0] == "search.fs_uuid" and len(words) > 1 and _UUID.fullmatch(words[1])
        return words[2] if len(words) > 2 else "root", words[1] if is_uuid else None
    variable, by_uuid, names, takes_next = None, False, [], False
    for word in words[1:]:
        if takes_next:
            takes_next = False
        elif word.startswith("--set"):
            variable = word.partition("=")[2] or "root"
        elif word in {"--fs-uuid", "-u"}:
            by_uuid = True
        elif word == "--hint":
            takes_next = True
        elif not word.startswith("-"):
            names.append(word)
    return variable, names[0] if by_uuid and names and _UUID.fullmatch(names[0]) else None


class _Script:
    """The state of the reader while it goes through the commands of a file."""

    def __init__(self) -> None:
        #: The blocks that are open: kinds of braces, and "if" for conditions and loops.
        self.blocks: list[str] = []
        self.submenus: list[str] = []
        self.conditions = 0
        self.outer_conditions = 0
        self.functions = 0
        self.draft: _Draft | None = None
        self.entries: list[MenuEntry] = []
        self.modules: list[str] = []
        self.search: str | None = None
        self.before_files: tuple[tuple[str, ...], str | None] | None = None
        self.variables: dict[str, str | None] = {}
        self.next_entry: set[str] = set()
        self.signs: set[str] = set()

    def take(self, command: _Command) -> None:
        words = self._without_keywords(command.words)
        if command.mark == "{":
            self._open(words)
            return
        if words and not self.functions:
            if self.draft is not None:
                self.draft.take(words, is_conditional=self.conditions > self.outer_conditions)
            else:
                self._take_outside(words)
        if command.mark == "}":
            self._close()

    def _without_keywords(self, words: tuple[str, ...]) -> tuple[str, ...]:
        at = 0
        while at < len(words):
            if words[at] in {"if", "while", "until", "for"}:
                self.blocks.append("if")
                self.conditions += 1
                if words[at] == "for":
                    return ()
            elif words[at] in {"fi", "done"}:
                if self.blocks and self.blocks[-1] == "if":
                    self.blocks.pop()
                    self.conditions -= 1
            elif words[at] not in {"then", "else", "elif", "do", "!"}:
                break
            at += 1
        return words[at:]

    def _open(self, words: Sequence[str]) -> None:
        kind = words[0] if words and words[0] in {"menuentry", "submenu", "function"} else "group"
        if kind == "menuentry" and self.draft is None:
            ids = (*self.submenus, _id(words))
            self.draft = _Draft(words[1] if len(words) > 1 else "", self.search, ids)
            self.outer_conditions = self.conditions
        elif kind == "menuentry":
            kind = "group"
        self.functions += kind == "function"
        self.submenus += [_id(words)] if kind == "submenu" else []
        self.blocks.append(kind)

    def _close(self) -> None:
        kind = "if"
        while kind == "if" and self.blocks:
            kind = self.blocks.pop()
            self.conditions -= kind == "if"
        self.functions -= kind == "function"
        if kind == "submenu":
            self.submenus.pop()
        if kind == "menuentry" and self.draft is not None:
            entry = self.draft.entry()
            self.entries += [entry] if entry is not None else []
            self.draft = None

    def _take_outside(self, words: Sequence[str]) -> None:
        name, rest = words[0], words[1:]
        if name == "insmod" and not self.conditions:
            self.modules += [module for module in rest if _MODULE.fullmatch(module)]
        elif name == "search" or name.startswith("search."):
            variable, uuid = _search(words)
            self.search = uuid if variable == "root" else self.search
        elif name == "blscfg" and self.before_files is None:
            self.before_files = tuple(dict.fromkeys(self.modules)), self.search
        elif name == "set":
            self._take_set(rest)
        elif name == "save_env" and "next_entry" in rest:
            self.next_entry.add("saved")
        elif name in {"source", "."}:
            self.signs |= {"custom"} if any(word.endswith("/custom.cfg") for word in rest) else set()
        elif name in {"load_env", "cryptomount"}:
            self.signs.add(name)

    def _take_set(self, words: Sequence[str]) -> None:
        for word in words:
            name, equals, value = word.partition("=")
            if not equals:
                continue
            if name == "default" and value in {"${next_entry}", "$next_entry"}:
                self.next_entry.add("taken")
            if name == "superusers" and value:
                self.signs.add("may ask" if self.conditions else "asks")
            self.signs |= {"signatures"} if name == "check_signatures" and value == "enforce" else set()
            self.signs |= {"waits"} if name == "timeout" and value.startswith("-") else set()
            is_same = not self.conditions and self.variables.get(name, value) == value
            self.variables[name] = value if is_same and "$" not in value else None

    def config(self) -> GrubConfig:
        modules, search = self.before_files or ((), None)
        return GrubConfig(
            entries=tuple(self.entries),
            has_entry_files=self.before_files is not None,
            modules=modules,
            search=search,
            variables={name: value for name, value in self.variables.items() if value is not None},
            reads_next_entry=self.next_entry == {"saved", "taken"} and "load_env" in self.signs,
            reads_custom="custom" in self.signs,
            unlocks_disk="cryptomount" in self.signs,
            asks_password="asks" in self.signs,
            may_ask_password="may ask" in self.signs,
            verifies_files="signatures" in self.signs,
            waits_for_key="waits" in self.signs,
        )

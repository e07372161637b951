# SPDX-License-Identifier: Apache-2.0
"""sysctl.d files: `key = value` lines, and the rule that merges several files into one set of values.

Canonical names use dots between the parts of a name. A dot inside a part (interface `eth0.100`) is written as a slash,
as `sysctl` itself does: `net.ipv4.conf.eth0/100.rp_filter`. This module also reads all values below /proc/sys, as
`grep -rs "" /proc/sys` prints them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence

import msgspec

from ktrial.tuning.origin.formats.lines import (
    Assignment,
    FileReading,
    Unread,
    in_order,
    is_comment,
    require_something,
    split_lines,
    unread_line,
)
from ktrial.tuning.origin.formats.words import fits

_ROOT = "/proc/sys/"
#: Counters, values drawn at each boot, and the kernel's own name have no defaults.
_NO_DEFAULTS = (
    *("fs.aio-nr", "fs.dentry-state", "fs.file-nr", "fs.inode-nr", "fs.inode-state", "fs.quota.", "kernel.ns_last_pid"),
    *("crypto.fips_version", "kernel.osrelease", "kernel.pty.nr", "kernel.random.", "kernel.version", "kernel.tainted"),
    *("net.netfilter.nf_conntrack_count", "net.ipv4.tcp_fastopen_key", "kernel.hostname"),
)


def read_sysctl_values(data: bytes) -> dict[str, str]:
    """Return sysctls by canonical name. Semicolons join the lines of a value; files outside /proc/sys are ignored."""
    found: dict[str, str] = {}
    for line in data.decode(errors="replace").splitlines():
        path, colon, value = line.partition(":")
        if not colon or not path.startswith(_ROOT):
            continue
        name = path.removeprefix(_ROOT).replace(".", "\0").replace("/", ".").replace("\0", "/")
        if not name.startswith(_NO_DEFAULTS):
            text = " ".join(value.split())
            found[name] = f"{found[name]}; {text}" if name in found else text
    return found


def sysctl_differences(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Return each sysctl that differs, with its values before and after; None for a missing sysctl."""
    names = sorted(before.keys() | after.keys())
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


DIRECTORIES = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
"""Folders in order of preference: of files with the same name, the one in the first folder counts."""

SYSCTL_CONF = "/etc/sysctl.conf"
"""The file that `sysctl --system` applies after all folders; systemd reads it only if sysctl.d has a link to it."""

_KEY = re.compile(r"[A-Za-z0-9_*?\[\]!,@:+-]+(?:[./][A-Za-z0-9_*?\[\]!,@:+-]+)*")
_GLOB = re.compile(r"[*?\[]")


class SysctlFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file: its assignments, and the keys that it excludes from globs (`-key` without a value)."""

    file: str
    assignments: tuple[Assignment, ...] = ()
    exclusions: tuple[Assignment, ...] = ()
    unread: tuple[Unread, ...] = ()

    def reading(self) -> FileReading:
        return FileReading(file=self.file, assignments=self.assignments, unread=self.unread)


class Masked(msgspec.Struct, frozen=True, kw_only=True):
    """A file without effect, and the file of the same name that hides it."""

    file: str
    by: str


class Winner(msgspec.Struct, frozen=True, kw_only=True):
    """The assignment that wins for a key or glob, and the assignments that it overrode, oldest first."""

    assignment: Assignment
    overrode: tuple[Assignment, ...] = ()


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """The merged content of several files; `order` lists the files in force, in the order of application."""

    order: tuple[str, ...]
    winners: tuple[Winner, ...]
    exclusions: tuple[Assignment, ...]
    masked: tuple[Masked, ...]
    unread: tuple[Unread, ...]

    def winner(self, key: str) -> Winner | None:
        """Return the winner for the canonical name `key`: its own line, otherwise the last glob that matches.

        Return None if nothing sets the key, or if a file excludes it from globs.
        """
        for winner in self.winners:
            if winner.assignment.name == key:
                return winner
        if any(excluded.name == key for excluded in self.exclusions):
            return None
        matching = [
            item for item in self.winners if is_glob(item.assignment.name) and matches(item.assignment.name, key)
        ]
        if not matching:
            return None
        *earlier, last = matching
        overrode = tuple(item.assignment for item in earlier)
        return Winner(assignment=last.assignment, overrode=(*overrode, *last.overrode))


def canonical(key: str) -> str:
    """Return the canonical spelling of a sysctl name: its first separator decides what the others mean."""
    first = re.search(r"[./]", key)
    if first is not None and first.group() == "/":
        return key.translate(str.maketrans("./", "/."))
    return key


def is_glob(name: str) -> bool:
    return _GLOB.search(name) is not None


def matches(pattern: str, key: str) -> bool:
    """Return whether a glob over canonical names matches `key`; `*` does not match a dot."""
    wanted, given = pattern.split("."), key.split(".")
    return len(wanted) == len(given) and all(map(fits, given, wanted))


def parse(data: str | bytes, file: str) -> SysctlFile:
    """Read one sysctl.d file. Comments are whole lines that start with `#` or `;`."""
    lines, unread = split_lines(data, file)
    assignments: list[Assignment] = []
    exclusions: list[Assignment] = []
    for line in lines:
        if is_comment(line.text, "#;"):
            continue
        entry = _line(line.text.strip(), file, line.number)
        if isinstance(entry, Unread):
            unread.append(entry)
        elif entry.value is None:
            exclusions.append(entry)
        else:
            assignments.append(entry)
    require_something(file, len(assignments) + len(exclusions), unread, "sysctl.d")
    return SysctlFile(file=file, assignments=tuple(assignments), exclusions=tuple(exclusions), unread=in_order(unread))


def _line(text: str, file: str, number: int) -> Assignment | Unread:
    """Read a line that is not a comment: an assignment, or an exclusion (value None)."""
    dashed = text.startswith("-")
    left, equals, right = text.removeprefix("-").partition("=")
    key, value = left.strip(), right.strip()
    if not equals and not dashed:
        return unread_line(file, number, text, "no = in the line")
    if not _KEY.fullmatch(key):
        return unread_line(file, number, text, f"{key!r} is not a sysctl name")
    if re.search(r"\s[#;]", value):
        return unread_line(file, number, text, f"a comment cannot follow a value: the kernel receives {value!r}")
    return Assignment(
        kind="sysctl",
        name=canonical(key),
        value=value if equals else None,
        file=file,
        line_number=number,
        text=text,
        ignore_failure=dashed,
    )


def merge(files: Sequence[tuple[str, str | bytes | None]]) -> Merged:
    """Merge files as the system does at boot.

    `files` are (path, text) pairs; text None is a link to /dev/null, which sets nothing. Of files with the same
    name, the one in the first folder of `DIRECTORIES` counts. Files take effect in order of their names, then
    `/etc/sysctl.conf`; later lines win. Globs do not change a key that has its own line. Files that do not end in
    `.conf` are ignored.
    """
    chosen, masked = _choose(files)
    parsed: list[SysctlFile] = []
    unread: list[Unread] = []
    for path, text in chosen:
        if text is None:
            continue
        try:
            parsed.append(parse(text, path))
        except ValueError:
            unread.extend(_all_unread(text, path))
    by_name: dict[str, list[Assignment]] = {}
    for assignment in (item for one in parsed for item in one.assignments):
        previous = by_name.pop(assignment.name, [])
        by_name[assignment.name] = [*previous, assignment]
    return Merged(
        order=tuple(path for path, _ in chosen),
        winners=tuple(Winner(assignment=items[-1], overrode=tuple(items[:-1])) for items in by_name.values()),
        exclusions=tuple(item for one in parsed for item in one.exclusions),
        masked=tuple(masked),
        unread=(*unread, *(item for one in parsed for item in one.unread)),
    )


def _choose(
    files: Sequence[tuple[str, str | bytes | None]],
) -> tuple[list[tuple[str, str | bytes | None]], list[Masked]]:
    """Return the files in force in the order of application, and those that others hide."""

    def preference(path: str) -> int:
        folder = posixpath.dirname(path)
        return DIRECTORIES.index(folder) if folder in DIRECTORIES else len(DIRECTORIES)

    by_base: dict[str, tuple[str, str | bytes | None]] = {}
    masked: list[Masked] = []
    last: list[tuple[str, str | bytes | None]] = []
    for path, text in sorted(files, key=lambda item: preference(item[0])):
        base = posixpath.basename(path)
        if path == SYSCTL_CONF:
            last.append((path, text))
        elif not base.endswith(".conf"):
            continue
        elif base in by_base:
            masked.append(Masked(file=path, by=by_base[base][0]))
        else:
            by_base[base] = (path, text)
    return [by_base[base] for base in sorted(by_base)] + last, masked


def _all_unread(text: str | bytes, path: str) -> list[Unread]:
    lines, unread = split_lines(text, path)
    reason = "not a line of sysctl.d"
    return unread + [unread_line(path, x.number, x.text, reason) for x in lines if not is_comment(x.text, "#;")]

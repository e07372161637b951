# SPDX-License-Identifier: Apache-2.0
"""Remove what identifies a machine or its users from results: host and user names, serial numbers, MAC addresses.

A placeholder made of letters replaces each name; equal names get equal placeholders. ktrial always replaces a name that
the context marks (`/home/NAME`, `hostname: NAME`). Elsewhere it replaces the name only as a whole word, and only if
that is neither a number nor a common word. In keys of JSON it replaces only names that context or form mark. Names of
benchmarks, outcomes and raw files, and numbers, stay as they are.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

import msgspec

Kind = Literal["host", "user", "serial", "mac"]

#: Names of hosts and users that identify nobody, or that programs print for other reasons.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """
        admin android arch archlinux bazzite bench bluefin build builder cachyos centos client container
        debian default desktop false fedora gentoo guest home host kernel laptop linux localdomain localhost
        manjaro mint nixos nobody none null opensuse performance phone pi popos raspberrypi redhat root
        runner server steam steamdeck suse system test tester thread threads time total true ubuntu unknown
        user users vm void work workstation
        """,
    )
)
_SHORTEST = 4
_LETTERS = "bcdfghjklmnpqrst"
_PLACEHOLDER = re.compile(rf"(?:host|user|serial|mac)-[{_LETTERS}]{{10}}")
_NUMBER = re.compile(r"[-+]?(?:0x[0-9a-f]+|[\d.]+(?:e[-+]?\d+)?[a-z%]{0,3}|inf(?:inity)?|nan)", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
#: Keys of JSON and environment variables whose value identifies a host, a user or a device.
_KEYS: Mapping[str, Kind] = {
    **dict.fromkeys(("hostname", "host_name", "nodename"), "host"),
    **dict.fromkeys(("user", "logname", "username", "user_name", "sudo_user"), "user"),
    **dict.fromkeys(("serial", "serial_number", "serialnumber", "product_serial", "board_serial"), "serial"),
    **dict.fromkeys(("machine_id", "machine-id", "product_uuid"), "serial"),
}
#: A fact, stored as a table, whose value identifies the machine.
_FACT = "os.machine"
#: Keys of a document whose values name results or are checked against something else.
_KEPT_KEYS = frozenset(
    ("schema", "session", "benchmark", "tool", "outcome", "unit", "direction", "sha256", "kernel_release", "boot_id")
)
#: The name of a file's format, by which readers recognise it.
_SCHEMA = re.compile(rb'"schema"\s{0,9}:\s{0,9}"([^"\s]{1,99})"')
_IS = r"""["']?\s{0,3}[:=]\s{0,3}["']?"""
#: The same for text in columns, which may have more blanks around the sign.
_FAR = r"""["']?[ \t]{0,24}[:=][ \t]{0,24}["']?"""
_QUANTITY = r"[\d.]+(?:[A-Za-z]{0,3}|e[-+]?\d+)(?![A-Za-z0-9_-])"
_MIXED = r"(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])"
_PAIR = "[0-9A-Fa-f]{2}"
#: A longer row of pairs is not a MAC address.
_NOT_AFTER = rf"(?<![^A-Za-z]{_PAIR}[_-])"
_ENDS = rf"(?![_-]{_PAIR}(?![0-9A-Za-z]))"
#: Patterns of names that their context or form marks. Only the group, named after its kind, is replaced.
_PLACES = (
    rf"""(?<![A-Za-z0-9_])(?i:host[_ ]?name|nodename){_IS}(?P<host_a>[A-Za-z0-9][A-Za-z0-9.-]{{0,252}})""",
    r"""(?<![A-Za-z0-9_])Linux\ (?P<host_b>[A-Za-z0-9][A-Za-z0-9.-]{0,63})\ \d+\.\d+\.\S+\ \#""",
    r"""(?<![A-Za-z0-9_])(?:USER|LOGNAME|SUDO_USER|USERNAME)=(?P<user_a>[A-Za-z_][A-Za-z0-9_.-]{0,63})""",
    r"""(?<![A-Za-z0-9_.-])/(?:(?:var/|usr/)?home|Users)/(?P<user_b>[^/\s"':;,<>|\\\0()\[\]]{1,64})""",
    # A serial number as smartctl, udev, lshw, lsblk and nvme print it; a number with a unit is not one.
    rf"""(?<![A-Za-z0-9])(?i:serial[ _]?number|product_serial){_FAR}(?P<serial_a>[A-Za-z0-9][A-Za-z0-9_.-]{{2,63}})""",
    r"""(?<![A-Za-z0-9])ID_SERIAL(?:_SHORT)?=(?P<serial_c>[A-Za-z0-9][A-Za-z0-9_.-]{2,126})""",
    rf"""(?:(?<![A-Za-z0-9])(?i:serial)|(?m:^)sn){_FAR}(?!tty|{_QUANTITY})(?P<serial_d>{_MIXED}[A-Za-z0-9_-]{{7,64}})""",
    r"""(?<![A-Za-z0-9])(?:PART)?UUID=(?P<serial_b>[0-9A-Fa-f]{4,8}-[0-9A-Fa-f-]{4,28})""",
    rf"""(?<![0-9A-Fa-f:.]){_NOT_AFTER}(?P<mac_a>(?=[0-9:]{{0,17}}[A-Fa-f])(?:{_PAIR}:){{5}}{_PAIR})(?![:.]?[0-9A-Fa-f]){_ENDS}""",
    # A MAC address in the name of a sensor.
    rf"""(?<![0-9A-Za-z]){_NOT_AFTER}(?P<mac_c>(?=[0-9_]{{0,17}}[A-Fa-f])(?:{_PAIR}_){{5}}{_PAIR})(?![0-9A-Za-z]){_ENDS}""",
    r"""(?<![A-Za-z0-9])(?:en|wl|ww)x(?P<mac_b>[0-9a-f]{12})(?![0-9A-Za-z])""",
)
_NO_MAC = frozenset(("000000000000", "ffffffffffff"))


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Names that identify a machine and its users, by kind."""

    host: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    serial: tuple[str, ...] = ()
    mac: tuple[str, ...] = ()

    def items(self) -> Iterable[tuple[Kind, str]]:
        for kind in ("host", "user", "serial", "mac"):
            for name in getattr(self, kind):
                yield kind, name


class Scrubber:
    """Replaces identifying names in the results of one session.

    First call `learn` with everything that the session holds: a name that the context marks in one place is then
    replaced everywhere. `left` holds names that are too ambiguous to replace.
    """

    def __init__(self, identity: Identity, salt: bytes, names_of_results: Iterable[str] = ()) -> None:
        self.replaced: Counter[Kind] = Counter()
        self._salt = salt
        self._results = {name.lower() for name in names_of_results}
        self._known: dict[str, Kind] = {}
        self.left: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        for kind, name in identity.items():
            self._note(kind, name)

    def learn(self, data: bytes | Any) -> None:
        """Collect the names that the context marks in raw output or in a document."""
        self._pattern = None
        if not isinstance(data, bytes):
            self._learn_document(data)
            return
        for schema in _SCHEMA.finditer(data):
            for word in re.findall(r"[a-z0-9_]+", schema[1].decode("latin-1").lower()):
                self._spare(word)
        text = data.decode("latin-1")
        for match in _ALL_PLACES.finditer(text):
            kind, at = _kind(match)
            self._note(kind, match[at])
        self._learn_table(text)

    def _learn_table(self, text: str) -> None:
        """Collect the names in those columns of a table whose header names a host, a user or a device."""
        lines = text.removeprefix("\xef\xbb\xbf").lstrip("\r\n").split("\n")
        if not any(key in lines[0].lower() for key in _KEYS):
            return
        try:
            header, *rows = csv.reader(lines, delimiter=max(",;\t", key=lines[0].count))
        except (csv.Error, ValueError):
            return  # not a table
        columns = [cell.strip().lower() for cell in header]
        for row in rows:
            for column, cell in zip(columns, row, strict=False):
                name = cell.strip()
                # A column `user` may also hold seconds.
                if column in _KEYS and not _NUMBER.fullmatch(name):
                    self._note(_KEYS[column], name)

    def document(self, value: Any, key: str = "") -> Any:
        """Return the document with names replaced; only its strings may differ."""
        if key == _FACT and isinstance(value, Mapping) and isinstance(value.get("value"), str):
            return {**value, "value": self._replacement("serial", value["value"])}
        if isinstance(value, Mapping):
            names = {name: name if key == "raw" else self._text(name, places_only=True) for name in value}
            return {names[name]: self.document(one, name) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.document(one, key) for one in value]
        if not isinstance(value, str) or key in _KEPT_KEYS:
            return value
        kind = _KEYS.get(key.lower())
        return self._replacement(kind, value) if kind is not None else self._text(value)

    def raw(self, data: bytes, *, places_only: bool = False) -> bytes:
        """Return the bytes with names replaced; with `places_only`, only where the context marks a name.

        In binary data a replacement has the length of the name.
        """
        text = data.decode("latin-1")
        return self._text(text, binary=b"\0" in data, places_only=places_only).encode("latin-1")

    def _text(self, text: str, *, binary: bool = False, places_only: bool = False) -> str:
        def other(match: re.Match[str]) -> str:
            kind, at = _kind(match)
            found = match[at]
            if kind == "mac" and re.sub("[:_]", "", found) in _NO_MAC:
                return match[0]
            new = self._replacement(kind, found)
            new = (new * (len(found) // len(new) + 1))[: len(found)] if binary else new
            begin, end = match.start(at) - match.start(), match.end(at) - match.start()
            return match[0][:begin] + new + match[0][end:]

        text = _ALL_PLACES.sub(other, text)
        return text if places_only else self._words().sub(other, text)

    def _words(self) -> re.Pattern[str]:
        """Return a pattern of all known names as whole words, longest first."""
        if self._pattern is None:
            parts = []
            for kind in ("host", "user", "serial", "mac"):
                names = sorted((name for name, one in self._known.items() if one == kind), key=lambda n: (-len(n), n))
                if names:
                    listed = "|".join(map(re.escape, names))
                    parts.append(rf"(?P<{kind}_w>(?<![A-Za-z0-9_])(?:{listed})(?![A-Za-z0-9_]))")
            self._pattern = re.compile("|".join(parts) if parts else r"(?!)", re.IGNORECASE)
        return self._pattern

    def _replacement(self, kind: Kind, found: str) -> str:
        if not found or _PLACEHOLDER.fullmatch(found):
            return found
        if kind in {"host", "user"} and (found.lower() in _COMMON or _NUMBER.fullmatch(found)):
            return found
        self.replaced[kind] += 1
        digest = hmac.new(self._salt, f"{kind} {found.lower()}".encode(), hashlib.sha256).digest()
        return f"{kind}-{''.join(_LETTERS[byte & 15] for byte in digest[:10])}"

    def _note(self, kind: Kind, found: str) -> None:
        """Replace this name everywhere from now on, unless it is ambiguous."""
        name = found.lower()
        if _PLACEHOLDER.fullmatch(name) or not name or name in self._known:
            return
        plain = (kind == "mac" and ":" in name) or (
            len(name) >= _SHORTEST
            and _NAME.fullmatch(found) is not None
            and _NUMBER.fullmatch(name) is None
            and name not in _COMMON
            and name not in self._results
        )
        if plain:
            self._known[name] = kind
            self._pattern = None
            if kind == "host" and "." in name:
                self._note(kind, name.partition(".")[0])
        elif name not in _COMMON:
            self.left.add(found)

    def _spare(self, word: str) -> None:
        """Exempt this word from replacement, because it belongs to the format, even if a host has the same name."""
        self._results.add(word)
        if self._known.pop(word, None) is not None:
            self.left.add(word)

    def _learn_document(self, value: Any, key: str = "") -> None:
        if key == _FACT and isinstance(value, Mapping) and isinstance(value.get("value"), str):
            self._note("serial", value["value"])
        elif isinstance(value, Mapping):
            for name, one in value.items():
                self._learn_document(one, name)
        elif isinstance(value, list | tuple):
            for one in value:
                self._learn_document(one, key)
        elif isinstance(value, str):
            kind = _KEYS.get(key.lower())
            if kind is not None:
                self._note(kind, value)
            if key == "HOME" and value.rpartition("/")[2] not in {"", "root"}:
                self._note("user", value.rpartition("/")[2])
            for match in _ALL_PLACES.finditer(value):
                found, at = _kind(match)
                self._note(found, match[at])


_ALL_PLACES = re.compile("|".join(_PLACES))


def _kind(match: re.Match[str]) -> tuple[Kind, str]:
    """Return the kind of a matched name, and the group that holds it."""
    at = match.lastgroup
    assert at is not None, "every alternative has a group"
    return cast("Kind", at.partition("_")[0]), at

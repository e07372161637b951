# SPDX-License-Identifier: Apache-2.0
"""Find which other lines of GRUB's configuration set a kept kernel argument, and which of them win."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping

from ktrial.machine.ports import Machine
from ktrial.tuning.lasting.model import PLACES, LastingEntry, Rival
from ktrial.tuning.origin.formats.command_line import same_name

_FILES = ("/etc/default/grub", "/etc/default/grub.d/*.cfg")
_LINE = re.compile(r"\s*(?:export\s+)?(GRUB_CMDLINE_LINUX(?:_DEFAULT)?)(\+?)=(.*)")
_QUOTES = "\"' \t"


def read_grub(machine: Machine) -> dict[str, str]:
    """Return the texts of GRUB's configuration but for ktrial's own file, in the order in which GRUB reads them."""
    found = machine.list(_FILES)
    paths = [path for pattern in _FILES for path in found[pattern] if path != PLACES["grub.d"]]
    readings = machine.read(paths)
    return {
        path: reading.data.decode(errors="replace")
        for path in paths
        if (reading := readings.get(path)) is not None and reading.data is not None
    }


def rivals_of_words(entries: Iterable[LastingEntry], texts: Mapping[str, str]) -> Iterator[Rival]:
    """Yield the lines that set a kept word too, and those that drop all words of earlier files.

    The kernel takes the last of two values. GRUB puts the words of `GRUB_CMDLINE_LINUX_DEFAULT` last.
    """
    words = [entry for entry in entries if entry.form == "grub.d"]
    for path, text in texts.items():
        is_later = posixpath.basename(path) > posixpath.basename(PLACES["grub.d"]) and path.endswith(".cfg")
        for number, line in enumerate(text.splitlines(), 1):
            found = _LINE.fullmatch(line)
            if found is None:
                continue
            variable, appends, right = found.groups()
            drops = is_later and variable == "GRUB_CMDLINE_LINUX" and not appends and "$" not in right
            for entry in words:
                yield from _rivals(entry, f"{path}:{number}", right, drops, is_later or variable.endswith("_DEFAULT"))


def _rivals(entry: LastingEntry, place: str, right: str, drops: bool, is_last: bool) -> Iterator[Rival]:
    address = next(iter(entry.values))
    own = entry.holds.get("value")
    for word in right.strip(_QUOTES).split():
        name, _, value = word.partition("=")
        if same_name(name, entry.holds["name"]):
            wins = is_last and value != (own or "")
            yield Rival(address, place, value or None, wins=wins, when="at boot")
            return
    if drops:
        yield Rival(address, place, None, wins=True, when="at boot: it drops the arguments of earlier files")

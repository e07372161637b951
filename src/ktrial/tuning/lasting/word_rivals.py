# SPDX-License-Identifier: Apache-2.0
"""Read the other files of GRUB's configuration, and find lines that compete with kept kernel arguments."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping

from ktrial.machine.ports import Machine
from ktrial.tuning.lasting.boot_words import word_text
from ktrial.tuning.lasting.model import PLACES, LastingEntry, Rival
from ktrial.tuning.origin.formats.command_line import same_name

_FILES = ("/etc/default/grub", "/etc/default/grub.d/*.cfg")
_LINE = re.compile(r"\s*(?:export\s+)?(GRUB_CMDLINE_LINUX(?:_DEFAULT)?)(\+?)=(.*)")
_DEFAULT = re.compile(r"""\s*(?:export\s+)?GRUB_DEFAULT=([^#]*)(?:#.*)?""")
_QUOTES = "\"' \t"


def read_grub(machine: Machine) -> dict[str, str]:
    """Return the texts of GRUB's configuration without ktrial's own file, in the order in which GRUB reads them."""
    found = machine.list(_FILES)
    paths = [path for pattern in _FILES for path in found[pattern] if path != PLACES["grub.d"]]
    readings = machine.read(paths)
    return {
        path: reading.data.decode(errors="replace")
        for path in paths
        if (reading := readings.get(path)) is not None and reading.data is not None
    }


def words_in_grub(texts: Mapping[str, str]) -> list[str]:
    """Return the kernel arguments that `texts` add, except quoted words, which may be part of another argument."""
    found = []
    for text in texts.values():
        for line in filter(None, map(_LINE.fullmatch, text.splitlines())):
            quotes = 0
            for word in line[3].strip(_QUOTES).split():
                found += [word] if quotes % 2 == 0 else []
                quotes += word.count('"') + word.count("'")
    return found


def default_in_grub(texts: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the last line that sets the default entry in a file before ktrial's, and its value; None without one."""
    found = None
    for path, text in texts.items():
        for number, line in enumerate(text.splitlines() if not _is_later(path) else (), 1):
            default = _DEFAULT.fullmatch(line)
            found = (f"{path}:{number}", default[1].strip(_QUOTES)) if default is not None else found
    return found


def _is_later(path: str) -> bool:
    """Return whether GRUB reads a file after ktrial's."""
    return path.endswith(".cfg") and posixpath.basename(path) > posixpath.basename(PLACES["grub.d"])


def rivals_of_words(entries: Iterable[LastingEntry], texts: Mapping[str, str]) -> Iterator[Rival]:
    """Yield the lines that compete with kept entries.

    These lines set the same argument or the default entry, add a removed argument again, or drop all arguments of
    earlier files.

    The kernel takes the last of two values. GRUB puts the arguments of `GRUB_CMDLINE_LINUX_DEFAULT` last.
    """
    lines = [entry for entry in entries if entry.form == "grub.d"]
    kernels = [entry for entry in lines if "kernel" in entry.holds]
    removals = [entry for entry in lines if "removes" in entry.holds]
    words = [entry for entry in lines if "name" in entry.holds]
    for path, text in texts.items():
        is_later = _is_later(path)
        for number, line in enumerate(text.splitlines(), 1):
            place, default, found = f"{path}:{number}", _DEFAULT.fullmatch(line), _LINE.fullmatch(line)
            if default is not None:
                yield from (_rival_default(entry, place, default[1].strip(_QUOTES), is_later) for entry in kernels)
            if found is None:
                continue
            variable, appends, right = found.groups()
            drops = is_later and variable == "GRUB_CMDLINE_LINUX" and not appends and "$" not in right
            others = [text for text in right.strip(_QUOTES).split() if not any(_removes(one, text) for one in removals)]
            for entry in words:
                left = right.strip(_QUOTES).split() if is_later else others
                yield from _rivals(entry, place, left, drops, is_later or variable.endswith("_DEFAULT"))
            for entry in removals if is_later else ():
                if any(_removes(entry, word) for word in right.strip(_QUOTES).split()):
                    when = "at boot: it adds the argument again"
                    yield Rival(next(iter(entry.values)), place, None, wins=True, when=when)


def _rival_default(entry: LastingEntry, place: str, value: str, is_later: bool) -> Rival:
    wins = is_later and value != ">".join(entry.holds["entry"])
    return Rival(next(iter(entry.values)), place, value or None, wins=wins, when="at boot")


def _removes(entry: LastingEntry, word: str) -> bool:
    own = word_text(entry.holds)
    return word == own or ("value" not in entry.holds and word.partition("=")[0] == own)


def _rivals(entry: LastingEntry, place: str, words: Iterable[str], drops: bool, is_last: bool) -> Iterator[Rival]:
    address = next(iter(entry.values))
    own = entry.holds.get("value")
    for word in words:
        name, _, value = word.partition("=")
        if same_name(name, entry.holds["name"]):
            wins = is_last and value != (own or "")
            yield Rival(address, place, value or None, wins=wins, when="at boot")
            return
    if drops:
        yield Rival(address, place, None, wins=True, when="at boot: it drops the arguments of earlier files")

# SPDX-License-Identifier: Apache-2.0
"""Find the entry of GRUB's menu that makes an installed kernel the default one."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from ktrial.kit.errors import Refused
from ktrial.tuning.boots.grub_menu import MenuEntry, read_grub_config
from ktrial.tuning.exports.model import UNTESTED
from ktrial.tuning.lasting.boot_words import DEFAULT_KERNEL
from ktrial.tuning.lasting.model import LastingEntry, Rival
from ktrial.tuning.lasting.word_rivals import default_in_grub

#: Characters that the agent accepts in the name of an entry.
_ID = re.compile(r"[A-Za-z0-9_.+~:-]+")
_RELEASE = re.compile(r"(?:vmlinu[xz]|kernel|linux|Image|bzImage)-(.+)")
_RESCUE = frozenset(("single", "recovery", "rescue", "emergency"))
_SAVED = re.compile(rb"^saved_entry=(.+)$", re.MULTILINE)


def place_kernel(
    file: str, menu: str, command_line: str, settings: Mapping[str, str], environment: bytes
) -> LastingEntry:
    """Return what ktrial's drop-in for GRUB must contain to make the kernel `file` the default one.

    `menu` is the text of grub.cfg, `environment` the content of grubenv. `settings` maps the paths of GRUB's other
    configuration files to their texts. Raise Refused if the menu has no separate entry for this kernel, or if GRUB
    boots the saved entry.
    """
    found = _find(file, menu, command_line)
    name = ">".join(found.ids)
    default = default_in_grub(settings)
    if default is not None and default[1] == "saved":
        saved = _saved(environment)
        raise Refused(
            f"cannot make {file} the default: {default[0]} sets GRUB_DEFAULT=saved, so GRUB boots the saved entry"
            f" ({saved or 'none is saved'})",
            hint=f"run `grub-set-default '{name}' && ktrial boot undo`",
        )
    return LastingEntry(
        form="grub.d",
        holds={"kernel": file, "entry": list(found.ids)},
        values={DEFAULT_KERNEL: file},
        reasons={DEFAULT_KERNEL: f"{UNTESTED}; asked for after a healthy trial boot"},
    )


def saved_rival(environment: bytes, path: str) -> Rival | None:
    """Return grubenv's saved entry, which GRUB ignores if a file sets the default entry; None if none is saved."""
    saved = _saved(environment)
    if saved is None:
        return None
    return Rival(DEFAULT_KERNEL, path, saved, wins=False, when="which GRUB reads only with GRUB_DEFAULT=saved")


def _saved(environment: bytes) -> str | None:
    found = _SAVED.search(environment)
    return None if found is None else found[1].decode(errors="replace")


def _find(file: str, menu: str, command_line: str) -> MenuEntry:
    """Return the entry of this kernel that adds the fewest arguments of its own."""
    live = set(command_line.split())
    name = posixpath.basename(file)
    told = _RELEASE.fullmatch(name)
    own = [
        entry
        for entry in read_grub_config(menu).entries
        if posixpath.basename(entry.kernel) == name
        and told is not None
        and told[1] in entry.ids[-1]
        and _RESCUE.isdisjoint(entry.words)
        and all(_ID.fullmatch(one) for one in entry.ids)
    ]
    if not own:
        raise Refused(
            f"cannot make {file} the default: GRUB's menu has no separate entry for this kernel",
            hint="run `update-grub`, or choose an entry with `grub-set-default ENTRY && ktrial boot undo`",
        )
    return min(own, key=lambda entry: len({word for word in entry.words if "$" not in word} - live))

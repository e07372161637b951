# SPDX-License-Identifier: Apache-2.0
"""Which entry systemd-boot boots by default, and whether one more entry file would change that.

systemd-boot takes the first entry after sorting them. Entries with boot attempts left come before those without; then,
since version 250, entries with a sort key come before those without one. An entry of ktrial has no sort key. Entries
without a sort key are sorted by name, the greatest first.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping

from ktrial.tuning.boots.loader_entry import entry_id, read_loader_entry
from ktrial.tuning.boots.scene import SystemdBootScene

_OWN = "ktrial-"
#: A name that begins with one of these sorts above ktrial's, whatever else decides between names.
_GREATER = re.compile(r"[0-9l-z]")
_FIRST_WITH_KEYS = 250
_USED_UP = re.compile(r"\+0(?:-[0-9]{1,9})?\.conf$")


def default_would_change(entries: Mapping[str, str], scene: SystemdBootScene) -> bool:
    """Return whether an entry of ktrial could become the default."""
    others = {
        path: read_loader_entry(text, {}) for path, text in entries.items() if not entry_id(path).startswith(_OWN)
    }
    names = [f"{entry_id(path)}.conf" for path in others]
    pinned = scene.default or loader_setting(scene.loader_conf, "default") or ""
    if pinned == "@saved" or any(fnmatch.fnmatchcase(name, pinned) for name in names):
        return fnmatch.fnmatchcase(f"{_OWN}trial.conf", pinned) and pinned != "@saved"
    usable = [path for path in others if not _USED_UP.search(path)]
    has_keys = scene.version is not None and scene.version >= _FIRST_WITH_KEYS
    return not any((has_keys and others[path].sort_key) or _GREATER.match(entry_id(path)) for path in usable)


def loader_setting(loader_conf: str, name: str) -> str | None:
    """Return the last value of a setting in loader.conf; None if the file does not set it."""
    value = None
    for line in loader_conf.splitlines():
        fields = line.split(maxsplit=1)
        if len(fields) == 2 and fields[0] == name:
            value = fields[1].strip()
    return value

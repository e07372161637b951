# SPDX-License-Identifier: Apache-2.0
"""Whether a boot waits for the passphrase of an encrypted disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: Options of crypttab and of `rd.luks.options=` that open a disk without a person.
_ALONE = ("tpm2-device=", "pkcs11-uri=", "keyscript=", "_netdev")
_WORDS = ("rd.luks", "luks.", "cryptdevice=", "rd.auto")
_KEYS = ("rd.luks.key=", "luks.key=", "cryptkey=")


def asks_passphrase(filesystems: Iterable[Mapping[str, Any]], crypttab: str | None, command_line: str) -> bool:
    """Return whether nothing shows that the disk below `/` is opened without a person."""
    root = next((one for one in filesystems if one.get("mount") == "/"), None)
    words = command_line.split()
    is_encrypted = root is not None and any(layer.get("kind") == "luks" for layer in root.get("stack") or ())
    if not is_encrypted and not (root is None and any(word.startswith(_WORDS) for word in words)):
        return False
    if any(word.startswith(_KEYS) or (".options=" in word and "tpm2-device=" in word) for word in words):
        return False
    lines = [fields for line in (crypttab or "").splitlines() if (fields := line.split()) and fields[0][0] != "#"]
    disks = [fields for fields in lines if "noauto" not in _options(fields)]
    return not disks or any(_waits(fields) for fields in disks)


def _options(fields: list[str]) -> list[str]:
    return fields[3].split(",") if len(fields) > 3 else []


def _waits(fields: list[str]) -> bool:
    """Return whether a line of crypttab has neither a key file nor a device that opens the disk."""
    key = fields[2] if len(fields) > 2 else "none"
    options = _options(fields)
    if "tpm2-pin=yes" in options or "tpm2-pin=true" in options:
        return True
    return not key.startswith("/") and not any(option.startswith(_ALONE) for option in options)

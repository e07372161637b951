# SPDX-License-Identifier: Apache-2.0
"""Reader of the entry files of the Boot Loader Specification (`loader/entries/*.conf`)."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

_COUNTER = re.compile(r"\+[0-9]{1,9}(?:-[0-9]{1,9})?$")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_UNFIT = {
    "efi": "starts an EFI program",
    "uki": "boots a unified kernel image",
    "uki-url": "boots a unified kernel image",
    "devicetree": "loads a device tree",
    "devicetree-overlay": "loads a device tree",
}


class LoaderEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that loads Linux.

    Paths start at the root of the entry's partition; `unfit` says what ktrial's own entry cannot reproduce.
    """

    title: str = ""
    version: str = ""
    sort_key: str | None = None
    kernel: str | None = None
    initrds: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    unfit: str | None = None


def read_loader_entry(text: str, variables: Mapping[str, str]) -> LoaderEntry:
    """Return the entry that `text` describes.

    GRUB, unlike systemd-boot, replaces `$NAME` in the paths of initramfs images; `variables` holds the known values.
    """
    fields: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, *value = line.split(maxsplit=1)[:2] or [""]
        if key and not key.startswith("#") and value:
            fields.setdefault(key, []).append(value[0].strip())
    first = {key: values[0] for key, values in fields.items()}
    words = _resolve(" ".join(fields.get("initrd", ())), variables).split()
    kernel = first.get("linux")
    unfit = next((f"{what} ({key})" for key, what in _UNFIT.items() if key in fields), None)
    return LoaderEntry(
        title=first.get("title", ""),
        version=first.get("version", ""),
        sort_key=first.get("sort-key"),
        kernel=None if kernel is None else _path(kernel),
        initrds=tuple(_path(word) for word in words),
        words=tuple(" ".join(fields.get("options", ())).split()),
        unfit=unfit or next((f"has a variable in a path ({word})" for word in words if "$" in word), None),
    )


def entry_id(name: str) -> str:
    """Return the ID of an entry: its file's name without folder, boot counter (`+3-1`) and `.conf`."""
    return _COUNTER.sub("", name.rpartition("/")[2].removesuffix(".conf"))


def _resolve(text: str, variables: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: variables.get(found[1] or found[2], found[0]), text)


def _path(path: str) -> str:
    return "/" + path.replace("\\", "/").lstrip("/")

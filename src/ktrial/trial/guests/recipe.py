# SPDX-License-Identifier: Apache-2.0
"""How the kernel of an arm is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.kernels.source import parse_patch

#: What a kernel for guests begins with where nobody says otherwise.
CONFIG, FRAGMENTS = "tinyconfig", ("guest",)
Level = Literal[2, 3]


class KernelChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the kernel of an arm has beside that of `[guest]`.

    `fragments` and `patches` are added, `set` has the last word about symbols, and everything else stands in place.
    """

    tree: str | None = None
    config: str | None = None
    fragments: tuple[str, ...] = ()
    set: Mapping[str, str | int] = {}
    patches: tuple[str, ...] = ()
    cc: str | None = None
    target: str | None = None
    optimise: Level | None = None

    @property
    def told(self) -> dict[str, str]:
        """What it changes, as it is shown of an arm."""
        words = {f"kconfig:{symbol}": str(value) for symbol, value in self.set.items()}
        lists = {"fragments": self.fragments, "patches": tuple(map(_file_name, self.patches))}
        rest = {name: getattr(self, name) for name in ("tree", "config", "cc", "target", "optimise")}
        joined = {name: " ".join(value) for name, value in lists.items() if value}
        return words | joined | {name: str(value) for name, value in rest.items() if value is not None}


class KernelRecipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a kernel is built of, as `ktrial kernel build` is told it."""

    tree: str
    config: str = CONFIG
    fragments: tuple[str, ...] = FRAGMENTS
    set: Mapping[str, str | int] = {}
    patches: tuple[str, ...] = ()
    cc: str | None = None
    target: str | None = None
    optimise: Level | None = None

    def with_change(self, change: KernelChange) -> KernelRecipe:
        """Return the same with what an arm changes."""
        rest = {name: getattr(change, name) for name in ("tree", "config", "cc", "target", "optimise")}
        return msgspec.structs.replace(
            self,
            fragments=(*self.fragments, *(one for one in change.fragments if one not in self.fragments)),
            set={**self.set, **change.set},
            patches=(*self.patches, *change.patches),
            **{name: value for name, value in rest.items() if value is not None},
        )


def _file_name(patch: str) -> str:
    return parse_patch(patch).place.rstrip("/").rpartition("/")[2]

# SPDX-License-Identifier: Apache-2.0
"""Recipes for kernels that ktrial builds for an arm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.kernels.source import parse_patch

#: Default configuration of a kernel for guests.
CONFIG, FRAGMENTS = "tinyconfig", ("guest",)
Level = Literal[2, 3]


class KernelChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The changes of an arm's kernel relative to the kernel of `[guest]`.

    `fragments` and `patches` extend the same fields of `[guest]`. `set` overrides symbols. All other fields replace the
    same fields of `[guest]`.
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
        """The changes as text, to describe an arm."""
        words = {f"kconfig:{symbol}": str(value) for symbol, value in self.set.items()}
        lists = {"fragments": self.fragments, "patches": tuple(map(_file_name, self.patches))}
        rest = {name: getattr(self, name) for name in ("tree", "config", "cc", "target", "optimise")}
        joined = {name: " ".join(value) for name, value in lists.items() if value}
        return words | joined | {name: str(value) for name, value in rest.items() if value is not None}


class KernelRecipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The sources and options of a kernel, in the terms of `ktrial kernel build`."""

    tree: str
    config: str = CONFIG
    fragments: tuple[str, ...] = FRAGMENTS
    set: Mapping[str, str | int] = {}
    patches: tuple[str, ...] = ()
    cc: str | None = None
    target: str | None = None
    optimise: Level | None = None

    def with_change(self, change: KernelChange) -> KernelRecipe:
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

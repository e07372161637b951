# SPDX-License-Identifier: Apache-2.0
"""The kernels of a trial in guests: named by a word, or built of sources, each arm with changes of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from ktrial.kernels.request import parse_set
from ktrial.kernels.source import parse_patch
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from ktrial.trial.protocol.file import ArmFile, TrialFile

#: What a kernel for guests begins with where nobody says otherwise.
CONFIG, FRAGMENTS = "tinyconfig", ("guest",)
_TREE = '[guest.kernel]  tree = "linux.tar.xz"'

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
        """The same with what an arm changes."""
        rest = {name: getattr(change, name) for name in ("tree", "config", "cc", "target", "optimise")}
        return msgspec.structs.replace(
            self,
            fragments=(*self.fragments, *(one for one in change.fragments if one not in self.fragments)),
            set={**self.set, **change.set},
            patches=(*self.patches, *change.patches),
            **{name: value for name, value in rest.items() if value is not None},
        )


Kernel = str | KernelRecipe


def kernel_of(trial: TrialFile, arm: ArmFile) -> Kernel:
    """The word that names the arm's kernel, or what it is built of. Raises BadInput where nothing says from what."""
    assert trial.guest is not None, "only trials in guests have kernels"
    usual, own = trial.guest.kernel, arm.kernel
    if not isinstance(own, KernelChange):
        return usual if own is None else own
    if isinstance(usual, KernelRecipe):
        return usual.with_change(own)
    if own.tree is None:
        raise BadInput("a kernel is to be built, and nothing says of which sources", hint=_TREE)
    return KernelRecipe(tree=own.tree).with_change(own)


def check_kernel(where: str, kernel: KernelRecipe | KernelChange) -> None:
    """Raise BadInput for a symbol or a patch that is none."""
    try:
        for symbol, value in kernel.set.items():
            parse_set(f"{symbol}={value}")
        for patch in kernel.patches:
            parse_patch(patch)
    except BadInput as error:
        raise BadInput(f"{where}: {error.message}", hint=error.hint) from None


def _file_name(patch: str) -> str:
    return parse_patch(patch).place.rstrip("/").rpartition("/")[2]

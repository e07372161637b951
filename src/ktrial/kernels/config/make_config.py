# SPDX-License-Identifier: Apache-2.0
"""Make a configuration of a base and of what is wished for; read every wish back, and say why one did not come true."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from ktrial.kernels.identity import symbol_differences
from ktrial.kernels.request import (
    BY_HAND,
    Configured,
    Fragment,
    Unheld,
    Wish,
    check_choices,
    same_value,
    united,
)
from ktrial.kit.errors import Refused, UnknownName
from ktrial.kit.formats.kernel_config import fragment_line

_SHOWN = 8


class ConfigMaker(Protocol):
    """A tree's own Kconfig, in a private folder."""

    def base(self, word: str, version: str) -> tuple[str, Mapping[str, str]]:
        """Return where the base comes from, and its symbols as this tree takes them."""

    def merged(self, fragment: str) -> Mapping[str, str]:
        """Return the symbols that come of the base and a fragment."""

    @property
    def text(self) -> bytes:
        """The configuration as it is now."""


class Symbols(Protocol):
    """What the tree's Kconfig files define."""

    @property
    def names(self) -> Iterable[str]: ...

    @property
    def types(self) -> Mapping[str, str]:
        """Symbol -> bool, tristate, int, hex, string."""

    def choice(self, name: str) -> tuple[str, ...]:
        """Return the symbols of which only one can be chosen, this one among them."""

    def why(self, name: str, wanted: str, values: Mapping[str, str]) -> str:
        """Return why a symbol does not have the value wanted in a configuration."""


class ConfigRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a configuration is asked for: a base, wishes of fragments and by hand, for a tree and a compiler."""

    base: str
    version: str
    architecture: str
    compiler: str
    fragments: Sequence[Fragment] = ()
    files: Sequence[str] = ()
    wishes: Sequence[Wish] = ()


def configure(wanted: ConfigRequest, tree: Symbols, work: ConfigMaker) -> Configured:
    """Return the configuration; wishes that did not hold are in it with their reasons, and nothing was hidden."""
    wishes, unknown = _checked(wanted, tree)
    place, before = work.base(wanted.base, wanted.version)
    base_sha256 = hashlib.sha256(work.text).hexdigest()
    lines = [fragment_line(wish.symbol, wish.value, tree.types.get(wish.symbol)) for wish in wishes.values()]
    symbols = work.merged("".join(lines)) if lines else before
    patches = {name: patch for fragment in wanted.fragments for name, patch in fragment.patches.items()}
    unheld = [
        Unheld(
            symbol=wish.symbol,
            wanted=wish.value,
            got=None if wish.symbol in unknown else symbols.get(wish.symbol, "n"),
            by=wish.by,
            why=f"it comes with a patch: {patches[wish.symbol]}"
            if wish.symbol in unknown and wish.symbol in patches
            else tree.why(wish.symbol, wish.value, symbols),
        )
        for wish in wishes.values()
        if not same_value(symbols.get(wish.symbol, "n"), wish.value)
    ]
    return Configured(
        version=wanted.version,
        architecture=wanted.architecture,
        compiler=wanted.compiler,
        base=place,
        base_sha256=base_sha256,
        fragments=(*(fragment.name for fragment in wanted.fragments), *wanted.files),
        wishes=tuple(wishes.values()),
        unheld=tuple(unheld),
        differences=tuple(symbol_differences(before, symbols)),
        symbols=symbols,
        sha256=hashlib.sha256(work.text).hexdigest(),
    )


def check_held(found: Configured) -> None:
    """Raise Refused if a wish did not come true."""
    if not found.unheld:
        return
    told = [f"  {one.symbol}={one.wanted} ({one.by}): {one.why}" for one in found.unheld[:_SHOWN]]
    more = [f"  and {len(found.unheld) - _SHOWN} more"] if len(found.unheld) > _SHOWN else []
    count = len(found.unheld)
    raise Refused(
        f"{count} of {len(found.wishes)} symbols {'does' if count == 1 else 'do'} not hold:\n"
        + "\n".join([*told, *more]),
        hint="ask for what they need with --set, leave the fragment out, or go on without them with --anyway",
    )


def _checked(wanted: ConfigRequest, tree: Symbols) -> tuple[dict[str, Wish], frozenset[str]]:
    """Return the wishes, which do not contradict each other, and those of them that this tree does not know.

    A symbol that a person named himself must exist. A fragment that ktrial brings is for many versions: what one lacks
    and is wanted off is off.
    """
    known = frozenset(tree.names)
    own = {fragment.name for fragment in wanted.fragments}
    for wish in wanted.wishes:
        if wish.symbol not in known and wish.by.partition(":")[0] not in own:
            what = f"symbol of Linux {wanted.version} ({wish.by})"
            raise UnknownName(what, wish.symbol, known, hint="symbols of other versions and patches are not in it")
    by_hand = {
        name for wish in wanted.wishes if wish.by == BY_HAND and wish.value == "y" for name in tree.choice(wish.symbol)
    }
    kept = [wish for wish in wanted.wishes if wish.by == BY_HAND or wish.symbol not in by_hand]
    found = united(kept)
    check_choices(found, {name: tree.choice(name) for name in found})
    unknown = frozenset(name for name in found if name not in known)
    return {name: wish for name, wish in found.items() if not (name in unknown and wish.value == "n")}, unknown

# SPDX-License-Identifier: Apache-2.0
"""Makes a configuration from a base and requests, reads every request back, and explains rejected requests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from ktrial.kernels.identity import symbol_differences
from ktrial.kernels.request import BY_HAND, Configured, Fragment, Unheld, Wish, check_choices, same_value, united
from ktrial.kit.errors import Refused, UnknownName
from ktrial.kit.formats.kernel_config import fragment_line

_SHOWN = 8


class ConfigMaker(Protocol):
    """The tree's own Kconfig, run in a private folder."""

    def base(self, word: str, version: str) -> tuple[str, Mapping[str, str]]:
        """Return where the base comes from, and its symbols as this tree reads them."""

    def merged(self, fragment: str) -> Mapping[str, str]:
        """Return the symbols that result from the base and a fragment."""

    @property
    def text(self) -> bytes:
        """The current configuration."""


class Symbols(Protocol):
    """The symbols that a tree's Kconfig files define."""

    @property
    def names(self) -> Iterable[str]: ...

    @property
    def types(self) -> Mapping[str, str]:
        """The type of each symbol: bool, tristate, int, hex or string."""

    def choice(self, name: str) -> tuple[str, ...]:
        """Return all symbols of the choice that a symbol belongs to; none if it belongs to no choice."""

    def why(self, name: str, wanted: str, values: Mapping[str, str]) -> str:
        """Return why a symbol does not have the wanted value in a configuration."""


class ConfigRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration to make for a tree and a compiler: its base, and the requests of fragments and command line."""

    base: str
    version: str
    architecture: str
    compiler: str
    fragments: Sequence[Fragment] = ()
    files: Sequence[str] = ()
    wishes: Sequence[Wish] = ()


def configure(wanted: ConfigRequest, tree: Symbols, work: ConfigMaker) -> Configured:
    """Return the configuration, with the reason for every request that Kconfig rejected."""
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
            why=f"a patch adds it: {patches[wish.symbol]}"
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
    if not found.unheld:
        return
    reasons = [f"  {one.symbol}={one.wanted} ({one.by}): {one.why}" for one in found.unheld[:_SHOWN]]
    more = [f"  and {len(found.unheld) - _SHOWN} more"] if len(found.unheld) > _SHOWN else []
    count = len(found.unheld)
    raise Refused(
        f"Kconfig rejected {count} of {len(found.wishes)} symbols:\n" + "\n".join([*reasons, *more]),
        hint="change these symbols, or use `ktrial kernel build --anyway`",
    )


def _checked(wanted: ConfigRequest, tree: Symbols) -> tuple[dict[str, Wish], frozenset[str]]:
    """Return the requests, checked for contradictions, and the requested symbols that this tree lacks.

    A symbol named by the user must exist. A symbol that a built-in fragment turns off may be missing, because one
    fragment serves many versions.
    """
    known = frozenset(tree.names)
    own = {fragment.name for fragment in wanted.fragments}
    for wish in wanted.wishes:
        if wish.symbol not in known and wish.by.partition(":")[0] not in own:
            what = f"symbol of Linux {wanted.version} ({wish.by})"
            raise UnknownName(what, wish.symbol, known, hint="use the version or the patch that defines the symbol")
    by_hand = {
        name for wish in wanted.wishes if wish.by == BY_HAND and wish.value == "y" for name in tree.choice(wish.symbol)
    }
    kept = [wish for wish in wanted.wishes if wish.by == BY_HAND or wish.symbol not in by_hand]
    found = united(kept)
    check_choices(found, {name: tree.choice(name) for name in found})
    unknown = frozenset(name for name in found if name not in known)
    return {name: wish for name, wish in found.items() if not (name in unknown and wish.value == "n")}, unknown

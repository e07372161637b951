# SPDX-License-Identifier: Apache-2.0
"""A request for kernel symbols, and the configuration that resulted from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ktrial.kernels.identity import SymbolDifference
from ktrial.kit.errors import BadInput, Contradiction, UnknownName

_SYMBOL = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_PREFIX = "CONFIG_"
#: The option that sets a symbol; it overrides fragments.
BY_HAND = "--set"


class Build(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The compiler, optimisation level and target that a fragment requires in addition to its symbols."""

    compiler: str | None = None
    optimise: str | None = None
    target: str | None = None

    @property
    def asked(self) -> dict[str, str]:
        words = {"the compiler": self.compiler, "-O": self.optimise, "the target": self.target}
        return {what: value for what, value in words.items() if value is not None}


class Fragment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Symbols that belong together. `arch` maps architectures, as make spells them, to more symbols.

    If no unpatched kernel has a symbol, `patches` names the patch that adds it.
    """

    what: str
    symbols: Mapping[str, str]
    name: str = ""
    extends: tuple[str, ...] = ()
    arch: Mapping[str, Mapping[str, str]] = {}
    patches: Mapping[str, str] = {}
    build: Build = Build()
    note: str = ""

    def check(self) -> None:
        for name, value in [*self.symbols.items(), *(pair for more in self.arch.values() for pair in more.items())]:
            if not _SYMBOL.fullmatch(name) or name.startswith(_PREFIX):
                raise BadInput(f"{name!r} is not a valid symbol", hint="use letters, digits and _, without CONFIG_")
            if "\n" in value or not value:
                raise BadInput(f"{name}: {value!r} is not a valid value", hint='write y, m, n, a number or "text"')


class Wish(msgspec.Struct, frozen=True):
    """A requested value of a symbol, and its origin: the name of a fragment, FILE:LINE, or `--set`."""

    symbol: str
    value: str
    by: str


class Unheld(msgspec.Struct, frozen=True, kw_only=True):
    """A request that Kconfig rejected, and why. `got` is the symbol's value, None if the tree lacks the symbol."""

    symbol: str
    wanted: str
    got: str | None
    by: str
    why: str


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that the tree's own Kconfig made.

    `differences` are changes from the base as this tree reads it. `asked` are the requested symbols; Kconfig changed
    all other symbols as a consequence.
    """

    version: str
    architecture: str
    compiler: str
    base: str
    base_sha256: str | None
    fragments: tuple[str, ...]
    wishes: tuple[Wish, ...]
    unheld: tuple[Unheld, ...]
    differences: tuple[SymbolDifference, ...]
    symbols: Mapping[str, str]
    sha256: str

    @property
    def asked(self) -> frozenset[str]:
        return frozenset(wish.symbol for wish in self.wishes)


def parse_set(word: str) -> Wish:
    """Parse `--set SYMBOL=VALUE`."""
    name, equals, value = word.partition("=")
    name = name.strip().removeprefix(_PREFIX)
    if not equals or not _SYMBOL.fullmatch(name) or not value or "\n" in value:
        raise BadInput(f"--set {word}: expected SYMBOL=VALUE", hint="for example  --set HZ_1000=y")
    return Wish(name, value, BY_HAND)


def with_extended(names: Iterable[str], known: Mapping[str, Fragment]) -> list[Fragment]:
    """Return the named fragments and all fragments that they extend, each once. Extended fragments come first."""
    found: dict[str, Fragment] = {}

    def add(name: str, below: tuple[str, ...]) -> None:
        if name not in known:
            raise UnknownName(
                "fragment",
                name,
                known,
                hint=f"run `ktrial kernel fragments` to list fragments, or use ./{name} for a file",
            )
        if name in below:
            raise BadInput(
                f"the fragment {name} extends itself: {' -> '.join((*below, name))}",
                hint="remove one of these fragments from `extends`",
            )
        for inner in known[name].extends:
            add(inner, (*below, name))
        found.setdefault(name, known[name])

    for name in names:
        add(name, ())
    return list(found.values())


def wishes_of(fragment: Fragment, architecture: str) -> list[Wish]:
    symbols = {**fragment.symbols, **fragment.arch.get(architecture, {})}
    return [Wish(name, value, fragment.name) for name, value in symbols.items()]


def united(wishes: Iterable[Wish]) -> dict[str, Wish]:
    """Return one request per symbol; `--set` overrides fragments. Raise Contradiction if two values remain."""
    every = tuple(wishes)
    decided = {wish.symbol for wish in every if wish.by == BY_HAND}
    found: dict[str, Wish] = {}
    for wish in every:
        if wish.by != BY_HAND and wish.symbol in decided:
            continue
        other = found.get(wish.symbol)
        if other is not None and not same_value(other.value, wish.value) and wish.by != BY_HAND:
            raise Contradiction(
                f"{other.by} wants {wish.symbol}={other.value}, but {wish.by} wants {wish.symbol}={wish.value}",
                hint=f"leave out one of the two fragments, or add --set {wish.symbol}=…",
            )
        if other is not None and not same_value(other.value, wish.value):
            raise Contradiction(
                f"--set {wish.symbol}={other.value} contradicts --set {wish.symbol}={wish.value}",
                hint="leave out one of the two options",
            )
        found[wish.symbol] = wish
    return found


def check_choices(wishes: Mapping[str, Wish], choices: Mapping[str, Sequence[str]]) -> None:
    """Raise Contradiction if two requests turn on symbols of the same choice."""
    for name, wish in wishes.items():
        if wish.value != "y":
            continue
        chosen = (one for one in choices.get(name, ()) if one in wishes and wishes[one].value == "y")
        rival = next((one for one in chosen if one != name), None)
        if rival is not None:
            raise Contradiction(
                f"{name} ({wish.by}) and {rival} ({wishes[rival].by}) exclude each other",
                hint="use only one of the two symbols",
            )


def same_value(one: str, other: str) -> bool:
    """Return whether two spellings mean the same value: equal numbers, or equal texts without their quotes."""
    first, second = one.strip('"'), other.strip('"')
    if first == second:
        return True
    try:
        return int(first, 0) == int(second, 0)
    except ValueError:
        return False

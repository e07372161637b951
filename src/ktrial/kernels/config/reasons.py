# SPDX-License-Identifier: Apache-2.0
"""Why a symbol does not have the value that was asked for: the dependency that is not met, read from Kconfig."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktrial.kernels.config.kconfig_expression import Expression, demands, level, read_expression, show_expression, words
from ktrial.kernels.config.symbols import Definition, KconfigTree
from ktrial.kit.errors import UnreadableOutput, nearest

_LEVELS = {"m": 1, "y": 2}
#: How many steps of "which needs" a reason goes.
_DEEPEST = 4
_MOST = 3


def reason(name: str, wanted: str, values: Mapping[str, str], tree: KconfigTree) -> str:
    """Return one sentence without its end. `values` is the configuration that came out."""
    found = tree.definitions.get(name)
    if not found:
        near = nearest(name, tree.names)
        return "this tree has no such symbol" + (f"; near is {near[0]}" if near else "")
    got = values.get(name, "n")
    if wanted == "n" or (got == "y" and wanted == "m"):
        return _too_high(name, values, tree)
    rival = next((one for one in tree.choice(name) if one != name and values.get(one) == "y"), None)
    unmet = _unmet(name, wanted, found, values, tree, 0)
    if unmet:
        return unmet
    if rival is not None and wanted in _LEVELS:
        return f"only one can be chosen, and that is {rival}"
    if not any(one.prompt for one in found):
        return _no_prompt(name, tree)
    if wanted not in _LEVELS:
        return _value_reason(found, got)
    return "Kconfig gave it another value, though what it depends on is met"


def _too_high(name: str, values: Mapping[str, str], tree: KconfigTree) -> str:
    by = [one.by for one in tree.selections.get(name, ()) if values.get(one.by) in _LEVELS]
    if by:
        return f"{_join_names(by)} {'select' if len(by) > 1 else 'selects'} it"
    if not any(one.prompt for one in tree.definitions[name]):
        return "it has no prompt: Kconfig alone decides"
    others = [one for one in tree.choice(name) if one != name]
    if others:
        return f"one of a choice must be on; ask for {_join_names(others)}"
    return "Kconfig gave it another value; is it offered only with EXPERT?"


def _no_prompt(name: str, tree: KconfigTree) -> str:
    by = list(dict.fromkeys(one.by for one in tree.selections.get(name, ())))
    if by:
        return (
            f"it has no prompt and cannot be asked for; {_join_names(by)} {'select' if len(by) > 1 else 'selects'} it"
        )
    return "it has no prompt and cannot be asked for: Kconfig computes it"


def _value_reason(found: Sequence[Definition], got: str) -> str:
    ranges = [one for definition in found for one in definition.ranges]
    if ranges:
        return f"it may be {ranges[0][0]} to {ranges[0][1]}"
    return f"Kconfig took {got} instead"


def _unmet(
    name: str, wanted: str, found: Sequence[Definition], values: Mapping[str, str], tree: KconfigTree, depth: int
) -> str:
    """Return what the nearest definition lacks; empty if one lacks nothing."""
    least = _LEVELS.get(wanted, 2)
    told = [_lacking(one, least, values) for one in found]
    if not all(told):
        return ""
    lacks = min(told, key=len)
    reasons = [_one(term, at, values, tree, depth) for term, at in lacks[:_MOST]]
    more = f" and {len(lacks) - _MOST} more" if len(lacks) > _MOST else ""
    return f"{'it' if depth == 0 else name} needs {'; and '.join(reasons)}{more}"


def _lacking(definition: Definition, least: int, values: Mapping[str, str]) -> list[tuple[Expression, int | None]]:
    """Return the conditions that do not hold, with the value that each has."""
    texts = (*definition.conditions, *((definition.prompt_if,) if definition.prompt_if else ()))
    lacks: dict[Expression, int | None] = {}
    for text in texts:
        try:
            expression = read_expression(text)
        except UnreadableOutput:
            continue
        for term in demands(expression):
            at = level(term, values)
            if at is not None and at < least:
                lacks[term] = at
    return list(lacks.items())


def _one(term: Expression, at: int | None, values: Mapping[str, str], tree: KconfigTree, depth: int) -> str:
    """Return a condition that does not hold, and what it lacks itself where it is a symbol."""
    text = show_expression(term)
    if term.kind == "word":
        if term.text not in tree:
            return f"{text}, which this tree does not have"
        if at == 1:
            return f"{text}=y, which is m"
        inner = tree.definitions[term.text]
        deeper = _unmet(term.text, "y", inner, values, tree, depth + 1) if depth < _DEEPEST else ""
        if not deeper and not any(one.prompt for one in inner):
            deeper = f"{term.text} {_no_prompt(term.text, tree).removeprefix('it ')}"
        return f"{text}, which is off" + (f" ({deeper})" if deeper else "")
    if term.kind == "not" and term.parts[0].kind == "word":
        return f"{term.parts[0].text} off, which is {values.get(term.parts[0].text, 'n')}"
    told = ", ".join(f"{word} is {values.get(word, 'n')}" for word in words(term)[:6])
    return f"{text}{f' ({told})' if told else ''}"


def _join_names(names: Sequence[str]) -> str:
    shown_names = list(dict.fromkeys(names))
    more = len(shown_names) - _MOST
    return ", ".join(shown_names[:_MOST]) + (f" and {more} more" if more > 0 else "")


class KnownSymbols(KconfigTree):
    """The symbols of a tree, and why one does not have the value that was asked for."""

    def why(self, name: str, wanted: str, values: Mapping[str, str]) -> str:
        """Return one sentence without its end. `values` is the configuration that came out."""
        return reason(name, wanted, values, self)

# SPDX-License-Identifier: Apache-2.0
"""`when` conditions of profiles: a comparison with a named fact, or `all`/`any` of several."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from ktrial.kit.errors import BadInput, UnknownName
from ktrial.kit.units import parse_quantity
from ktrial.machine.facts import FactBook, FactKind

_COMPARISON = r"\s*([a-z][a-z0-9_.]*)\s*(==|!=|<=|>=|<|>|\bin\b)\s*(.+?)\s*"
_DIMENSIONS = {"bytes": "bytes", "seconds": "seconds"}
_EXAMPLES = {"bytes": '"8GiB"', "seconds": '"10min"'}
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
    "in": lambda left, right: left in right,
}


class Truth(Enum):
    """The result of evaluating a condition."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "could not tell"


Condition = str | Mapping[str, Any]


def check_condition(condition: Condition, kinds: Mapping[str, FactKind]) -> None:
    for part in _parts(condition):
        if isinstance(part, str):
            _read(part, kinds)
        else:
            check_condition(part, kinds)


def facts_of(condition: Condition) -> tuple[str, ...]:
    if isinstance(condition, str):
        found = re.match(_COMPARISON, condition)
        return (found[1],) if found is not None else ()
    return tuple(name for part in _parts(condition) for name in facts_of(part))


def evaluate(condition: Condition, facts: FactBook, kinds: Mapping[str, FactKind]) -> tuple[Truth, str]:
    """Return whether the condition holds, with the reason if it does not hold or is unknown."""
    if isinstance(condition, str):
        return _compare(condition, facts, kinds)
    answers = [evaluate(part, facts, kinds) for part in _parts(condition)]
    decisive, other = (Truth.NO, Truth.YES) if "all" in condition else (Truth.YES, Truth.NO)
    for truth, why in answers:
        if truth is decisive:
            return truth, why
    for truth, why in answers:
        if truth is Truth.UNKNOWN:
            return truth, why
    return other, "; ".join(why for _, why in answers if why)


def _parts(condition: Condition) -> list[Condition]:
    if isinstance(condition, str):
        return [condition]
    if len(condition) != 1 or next(iter(condition)) not in {"all", "any"}:
        raise BadInput(
            f"expected text or a table with `all` or `any`, got {dict(condition)!r}",
            hint='for example  when = { all = ["os.android == true", "memory.total >= \\"4GiB\\""] }',
        )
    parts = next(iter(condition.values()))
    if not isinstance(parts, list | tuple) or not parts:
        raise BadInput(
            "expected a non-empty list of conditions after `all` or `any`", hint="write at least one condition"
        )
    return list(parts)


def _read(text: str, kinds: Mapping[str, FactKind]) -> tuple[FactKind, str, Any]:
    import json

    match = re.fullmatch(_COMPARISON, text)
    if match is None:
        raise BadInput(
            f"cannot read the condition {text!r}", hint='write FACT OPERATOR VALUE, for example  memory.total >= "8GiB"'
        )
    name, operator, literal = match[1], match[2], match[3]
    kind = kinds.get(name)
    if kind is None:
        raise UnknownName("fact", name, kinds, hint="run `ktrial facts` to list the facts")
    try:
        wanted = json.loads(literal)
    except ValueError:
        raise BadInput(
            f"the condition {text!r} compares with {literal}, which is not a valid value",
            hint='write a number, true, false, "text" in double quotes, or a list of these for `in`',
        ) from None
    if isinstance(wanted, str) and kind.type in _DIMENSIONS:
        try:
            wanted = parse_quantity(wanted, _DIMENSIONS[kind.type])
        except ValueError as error:
            raise BadInput(
                f"{error} in the condition {text!r}", hint=f"write a number and a unit, such as {_EXAMPLES[kind.type]}"
            ) from None
    _check_type(kind, operator, wanted, text)
    return kind, operator, wanted


def _check_type(kind: FactKind, operator: str, wanted: Any, text: str) -> None:
    accepted: dict[str, tuple[type, ...]] = {
        "text": (str,),
        "bool": (bool,),
        "int": (int, float),
        "bytes": (int, float),
        "seconds": (int, float),
    }
    types = accepted.get(kind.type)
    values = wanted if operator == "in" else [wanted]
    if not isinstance(values, list):
        raise BadInput(
            f"expected a list after `in` in the condition {text!r}", hint='for example  os.id in ["debian", "ubuntu"]'
        )
    if types is None:
        raise BadInput(
            f"cannot compare the fact {kind.name} in {text!r}: its type is {kind.type}",
            hint="use a fact whose value is one text, one number, or true or false",
        )
    for value in values:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise BadInput(
                f"the fact {kind.name} has the type {kind.type}, but {text!r} compares it with {value!r}",
                hint=f"compare the fact with a value of the type {kind.type}",
            )


def _compare(text: str, facts: FactBook, kinds: Mapping[str, FactKind]) -> tuple[Truth, str]:
    kind, operator, wanted = _read(text, kinds)
    fact = facts.get(kind.name)
    if fact is None or not fact.known:
        if fact is not None and fact.absent is not None:
            if operator == "!=":
                return Truth.YES, ""
            return Truth.NO, f"{kind.name}: {fact.absent}"
        return Truth.UNKNOWN, f"{kind.name} is unknown" + (f": {fact.unknown}" if fact else "")
    if _ORDERS[operator](fact.value, wanted):
        return Truth.YES, ""
    if operator == "!=":
        return Truth.NO, f"{kind.name} is {fact.value}"
    return Truth.NO, f"{kind.name} is {fact.value}, not {operator} {wanted}".replace("not == ", "not ")

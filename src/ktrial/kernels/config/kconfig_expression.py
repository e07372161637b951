# SPDX-License-Identifier: Apache-2.0
"""Conditions of Kconfig (`A && !B || C >= 116`): a parser, and their value under a configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from ktrial.kit.formats.tool_output import unreadable

Kind = Literal["word", "text", "macro", "not", "and", "or", "compare"]
N, M, Y = 0, 1, 2
_LEVELS = {"n": N, "m": M, "y": Y}
_SOURCE = "a condition of Kconfig"
_TOKEN = re.compile(
    r"""\s*(?:(?P<sign>&&|\|\||!=|<=|>=|[()!=<>])|"(?P<text>[^"]*)"|'(?P<single>[^']*)'|(?P<macro>\$\()"""
    r"""|(?P<word>[A-Za-z0-9_.][\w.-]*))""",
    re.ASCII,
)
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
#: Maximum nesting: deeper than any condition of a kernel, and far below Python's recursion limit.
_DEEPEST = 60


class Expression(msgspec.Struct, frozen=True):
    """A parsed condition: `text` is the word, quoted text, macro or comparison sign; `parts` are the operands."""

    kind: Kind
    text: str = ""
    parts: tuple[Expression, ...] = ()


def read_expression(text: str) -> Expression:
    reader = _ExpressionReader(text)
    found = reader.any_of(0)
    reader.finish()
    return found


def level(expression: Expression, values: Mapping[str, str]) -> int | None:
    """Return the value of a condition (N, M or Y); None if it depends on a macro, because a macro runs a program."""
    parts = expression.parts
    if expression.kind == "word":
        return _LEVELS.get(expression.text, _LEVELS.get(values.get(expression.text, "n"), N))
    if expression.kind == "text":
        return _LEVELS.get(expression.text, N)
    if expression.kind == "macro":
        return None
    if expression.kind == "compare":
        return _compared(expression, values)
    levels = [level(part, values) for part in parts]
    if expression.kind == "not":
        return None if levels[0] is None else Y - levels[0]
    decisive, choose = (N, min) if expression.kind == "and" else (Y, max)
    if decisive in levels:
        return decisive
    known = [one for one in levels if one is not None]
    return None if len(known) < len(levels) else choose(known)


def demands(expression: Expression) -> tuple[Expression, ...]:
    """Return the terms that must all hold for the expression to hold."""
    if expression.kind != "and":
        return (expression,)
    return tuple(one for part in expression.parts for one in demands(part))


def words(expression: Expression) -> tuple[str, ...]:
    if expression.kind == "word":
        return () if expression.text in _LEVELS or expression.text.isdigit() else (expression.text,)
    return tuple(dict.fromkeys(word for part in expression.parts for word in words(part)))


def show_expression(expression: Expression) -> str:
    parts = [show_expression(part) for part in expression.parts]
    if expression.kind == "text":
        return f'"{expression.text}"'
    if expression.kind == "compare":
        return f"{parts[0]} {expression.text} {parts[1]}"
    if expression.kind == "not":
        inner = expression.parts[0].kind
        return f"!({parts[0]})" if inner in ("and", "or", "compare") else f"!{parts[0]}"
    if expression.kind in ("and", "or"):
        inside = [
            f"({text})" if part.kind in ("and", "or") else text
            for part, text in zip(expression.parts, parts, strict=True)
        ]
        return (" && " if expression.kind == "and" else " || ").join(inside)
    return expression.text


def _compared(expression: Expression, values: Mapping[str, str]) -> int | None:
    if any(part.kind == "macro" for part in expression.parts):
        return None
    left, right = (_value(part, values) for part in expression.parts)
    if expression.text in ("=", "!="):
        return Y if (left == right) == (expression.text == "=") else N
    try:
        return Y if _COMPARISONS[expression.text](int(left, 0), int(right, 0)) else N
    except ValueError:
        return N


def _value(expression: Expression, values: Mapping[str, str]) -> str:
    """Return the value of one side of a comparison: the value of a symbol, or the word itself."""
    if expression.kind == "text" or expression.text in _LEVELS or expression.text.isdigit():
        return expression.text
    if expression.kind != "word":
        return ""
    value = values.get(expression.text)
    if value is None:
        return "n" if expression.text.isupper() else expression.text
    return value.strip('"')


class _ExpressionReader:
    """A recursive-descent parser; comparisons bind closest, then `!`, `&&`, `||`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def finish(self) -> None:
        rest = self._text[self._at :].strip()
        if rest and not rest.startswith("#"):
            raise self._problem(rest)

    def any_of(self, depth: int) -> Expression:
        return self._chain("or", "||", self._all_of, depth)

    def _all_of(self, depth: int) -> Expression:
        return self._chain("and", "&&", self._one, depth)

    def _chain(self, kind: Kind, sign: str, read: Callable[[int], Expression], depth: int) -> Expression:
        parts = [read(depth)]
        while self._take(sign):
            parts.append(read(depth))
        return parts[0] if len(parts) == 1 else Expression(kind, parts=tuple(parts))

    def _one(self, depth: int) -> Expression:
        if depth > _DEEPEST:
            raise self._problem(self._text)
        if self._take("!"):
            return Expression("not", parts=(self._one(depth + 1),))
        if self._take("("):
            inner = self.any_of(depth + 1)
            if not self._take(")"):
                raise self._problem(self._text)
            return inner
        left = self._operand()
        for sign in ("!=", "<=", ">=", "=", "<", ">"):
            if self._take(sign):
                return Expression("compare", sign, (left, self._operand()))
        return left

    def _take(self, sign: str) -> bool:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match["sign"] != sign:
            return False
        self._at = match.end()
        return True

    def _operand(self) -> Expression:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match["sign"] is not None:
            raise self._problem(self._text[self._at :].strip())
        self._at = match.end()
        if match["macro"] is not None:
            return Expression("macro", self._macro(match.start("macro")))
        if match["word"] is not None:
            return Expression("word", match["word"])
        return Expression("text", match["text"] if match["text"] is not None else match["single"])

    def _macro(self, begin: int) -> str:
        depth = 0
        for at in range(begin, len(self._text)):
            depth += {"(": 1, ")": -1}.get(self._text[at], 0)
            if depth == 0 and self._text[at] == ")":
                self._at = at + 1
                return self._text[begin : self._at]
        raise self._problem(self._text[begin:])

    def _problem(self, item: str) -> Exception:
        return unreadable(_SOURCE, None, item, f"valid in {self._text!r}")

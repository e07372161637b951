# SPDX-License-Identifier: Apache-2.0
"""The faults that are planted in Python functions."""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mutation.mutant import Mutant

_COMPARED: dict[type[ast.cmpop], tuple[str, type[ast.cmpop], str]] = {
    ast.Lt: ("<", ast.LtE, "<="),
    ast.LtE: ("<=", ast.Lt, "<"),
    ast.Gt: (">", ast.GtE, ">="),
    ast.GtE: (">=", ast.Gt, ">"),
    ast.Eq: ("==", ast.NotEq, "!="),
    ast.NotEq: ("!=", ast.Eq, "=="),
    ast.Is: ("is", ast.IsNot, "is not"),
    ast.IsNot: ("is not", ast.Is, "is"),
    ast.In: ("in", ast.NotIn, "not in"),
    ast.NotIn: ("not in", ast.In, "in"),
}
_COMPUTED: dict[type[ast.operator], tuple[str, type[ast.operator], str]] = {
    ast.Add: ("+", ast.Sub, "-"),
    ast.Sub: ("-", ast.Add, "+"),
    ast.Mult: ("*", ast.Div, "/"),
    ast.Div: ("/", ast.Mult, "*"),
    ast.FloorDiv: ("//", ast.Mult, "*"),
    ast.Mod: ("%", ast.Mult, "*"),
    ast.Pow: ("**", ast.Mult, "*"),
    ast.BitOr: ("|", ast.BitAnd, "&"),
    ast.BitAnd: ("&", ast.BitOr, "|"),
}
#: A name, as of a column or a verdict; what people read is left alone.
_NAME = re.compile(r"[A-Za-z][\w.:/-]*")
_SHOWN = 90
#: Not part of what a function does.
_NOT_WALKED = {"annotation", "returns", "decorator_list", "type_params"}


@dataclass(frozen=True)
class _Change:
    """A node of the tree, what takes its place, and how that is said."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST
    new: ast.AST
    what: str

    def make(self) -> None:
        if self.index is None:
            setattr(self.parent, self.field, self.new)
        else:
            getattr(self.parent, self.field)[self.index] = self.new


def mutants(file: str, source: str) -> list[Mutant]:
    """All faults that can be planted in the functions of a module."""
    seen: Counter[str] = Counter()
    found = []
    lines = [line.encode() for line in source.split("\n")]
    for function, change in _changes(ast.parse(source)):
        text = " ".join(_segment(lines, change.node).split())
        shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        what = f"`{shown}`: {change.what}"
        seen[f"{function} {what}"] += 1
        count = seen[f"{function} {what}"]
        found.append(Mutant(file, function, what if count == 1 else f"{what} ({count})"))
    return found


def _segment(lines: Sequence[bytes], node: ast.AST) -> str:
    """The source of a node; that of `ast` splits the whole source each time."""
    assert isinstance(node, ast.expr | ast.stmt)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    whole = [*lines[first : last + 1]]
    whole[-1] = whole[-1][: node.end_col_offset]
    whole[0] = whole[0][node.col_offset :]
    return b"\n".join(whole).decode()


def planted(file: str, source: str, mutant: Mutant) -> ast.Module:
    """The tree of a module with one fault."""
    place = mutants(file, source).index(mutant)
    tree = ast.parse(source)
    list(_changes(tree))[place][1].make()
    return ast.fix_missing_locations(tree)


def function_in(tree: ast.Module, name: str) -> ast.FunctionDef:
    """The function of a qualified name."""
    return next(function for top in tree.body for found, function in _functions(top, "") if found == name)


def _changes(tree: ast.Module) -> Iterator[tuple[str, _Change]]:
    for top in tree.body:
        for name, function in _functions(top, ""):
            for change in _of(function):
                yield name, change


def _functions(node: ast.stmt, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    if isinstance(node, ast.FunctionDef):
        yield prefix + node.name, node
    elif isinstance(node, ast.ClassDef):
        for inner in node.body:
            yield from _functions(inner, f"{prefix}{node.name}.")


def _of(parent: ast.AST) -> Iterator[_Change]:
    """Every change below a node."""
    for field, value in ast.iter_fields(parent):
        if field in _NOT_WALKED:
            continue
        for index, node in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(node, ast.AST) and not _is_text(node):
                place = index if isinstance(value, list) else None
                for new, what in (*_instead(node), *_without(node, parent, field)):
                    yield _Change(parent, field, place, node, ast.copy_location(new, node), what)
                yield from _of(node)


def _is_text(node: ast.AST) -> bool:
    """A docstring, or a text with values in it."""
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or isinstance(node, ast.JoinedStr)


def _instead(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """What may stand in the place of a node."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            old, new, told = _COMPARED[type(operator)]
            changed = copy.deepcopy(node)
            changed.ops[place] = new()
            yield changed, f"{old} becomes {told}"
    elif isinstance(node, ast.BoolOp):
        is_and = isinstance(node.op, ast.And)
        other = ast.Or() if is_and else ast.And()
        yield ast.BoolOp(other, node.values), "and becomes or" if is_and else "or becomes and"
    elif isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED:
        old, operation, told = _COMPUTED[type(node.op)]
        yield ast.BinOp(node.left, operation(), node.right), f"{old} becomes {told}"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield copy.copy(node.operand), "without not" if isinstance(node.op, ast.Not) else "without minus"
    elif isinstance(node, ast.Constant):
        yield from _other_constants(node.value)


def _other_constants(value: object) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(value, bool):
        yield ast.Constant(not value), f"becomes {not value}"
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1), f"becomes {value + 1}"
    elif isinstance(value, str) and _NAME.fullmatch(value):
        yield ast.Constant(value + "x"), f"becomes {value + 'x'}"


def _without(node: ast.AST, parent: ast.AST, field: str) -> Iterator[tuple[ast.AST, str]]:
    """Conditions turned round, results left out, statements deleted."""
    is_condition = field in {"test", "ifs"} and isinstance(parent, ast.If | ast.While | ast.IfExp | ast.comprehension)
    # What is a comparison or a `not` by itself is turned round already.
    if is_condition and isinstance(node, ast.expr) and not isinstance(node, ast.Compare | ast.UnaryOp):
        yield ast.UnaryOp(ast.Not(), node), "turned round"
    if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield ast.Return(ast.Constant(None)), "returns None"
    is_effect = isinstance(node, ast.Expr | ast.AugAssign | ast.Raise | ast.Continue | ast.Break | ast.Delete)
    is_early_end = isinstance(node, ast.Return) and (node.value is None or _is_none(node.value))
    if is_effect or is_early_end:
        yield ast.Pass(), "deleted"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None

# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of a package, each with the texts for which it may need more than linear time."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

_parser = re._parser  # type: ignore[attr-defined]
_OPS = re._constants  # type: ignore[attr-defined]
#: Ways to use a pattern at a fixed place; the other ways find it anywhere.
_FIXED = {"match", "fullmatch", "prefixmatch"}
_WAYS = ("match", "fullmatch", "search", "finditer", "sub", "split", "findall", "subn")
_MANY = 50
_ENDINGS = ("", "\x01", "!", " !", "\n")


class Used(NamedTuple):
    """A pattern, its place in the source, and the way in which it is used."""

    place: str
    pattern: re.Pattern[Any]
    way: str

    @property
    def question(self) -> tuple[re.Pattern[Any], str]:
        """Identifies what `ask` does, which is the same for all ways that find the pattern anywhere."""
        return self.pattern, self.way if self.way in _FIXED else ""

    def ask(self, text: str) -> None:
        """Use the pattern on a text as the source does."""
        data = text if isinstance(self.pattern.pattern, str) else text.encode("latin-1", "replace")
        if self.way in _FIXED:
            getattr(self.pattern, self.way)(data)
        else:
            for _ in self.pattern.finditer(data):
                pass


def patterns(package: ModuleType) -> Iterator[Used]:
    """Yield the compiled patterns of a package, and the patterns in calls of `re` functions."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if ".migrations." in found.name or found.name.endswith("__main__"):
            continue  # these modules run when they are imported
        module = importlib.import_module(found.name)
        source = inspect.getsource(module)
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern) and re.search(rf"^{name}\b.*= re\.compile", source, re.MULTILINE):
                ways = {way for way in _WAYS if re.search(rf"\b{name}\.{way}\b", source)}
                yield from (Used(f"{found.name}.{name}", value, way) for way in sorted(ways or {"search"}))
        if any(f"re.{way}(" in source for way in _WAYS):
            yield from _inline(found.name, source)


def _inline(name: str, source: str) -> Iterator[Used]:
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and node.func.attr in _WAYS:
            try:
                text = ast.literal_eval(node.args[0])
            except ValueError:
                continue
            yield Used(f"{name}:{node.lineno}", re.compile(text), node.func.attr)


def attacks(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the text before, the repeated text and the text after, for each part of a pattern that repeats."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = _parser.parse(source, pattern.flags & ~re.DEBUG)
    seen = set()
    for before, units in _repeats(tree, ""):
        for unit in dict.fromkeys(units):
            for ending in _ENDINGS:
                for begin in dict.fromkeys((before, "")):
                    if unit and (begin, unit, ending) not in seen:
                        seen.add((begin, unit, ending))
                        yield begin, unit, ending


def _repeats(tree: Any, before: str) -> Iterator[tuple[str, list[str]]]:
    for op, value in tree:
        if op in (_OPS.MAX_REPEAT, _OPS.MIN_REPEAT, _OPS.POSSESSIVE_REPEAT):
            _, most, part = value
            if most > _MANY:
                yield before, [*_examples(part), _example(part) + " ", before + _example(part)]
            yield from _repeats(part, before)
        for part in _parts(op, value):
            yield from _repeats(part, before)
        before += _example([(op, value)])


def _parts(op: Any, value: Any) -> list[Any]:
    if op is _OPS.SUBPATTERN:
        return [value[3]]
    if op is _OPS.BRANCH:
        return list(value[1])
    if op in (_OPS.ASSERT, _OPS.ASSERT_NOT):
        return [value[1]]
    return [value] if op is _OPS.ATOMIC_GROUP else []


def _example(tree: Any) -> str:
    return next(iter(_examples(tree)), "")


def _examples(tree: Any) -> list[str]:
    """Return some texts that a pattern matches."""
    found = [""]
    for op, value in tree:
        found = [left + right for left in found for right in _of(op, value)][:12]
    return found


def _of(op: Any, value: Any) -> list[str]:
    if op in (_OPS.LITERAL, _OPS.NOT_LITERAL, _OPS.ANY, _OPS.IN):
        return _characters(op, value)
    if op in (_OPS.MAX_REPEAT, _OPS.MIN_REPEAT, _OPS.POSSESSIVE_REPEAT):
        least, most, part = value
        return [one * max(least, min(1, most)) for one in _examples(part)]
    if op is _OPS.SUBPATTERN:
        return _examples(value[3])
    if op is _OPS.BRANCH:
        return [one for part in value[1] for one in _examples(part)[:2]][:12]
    return _examples(value) if op is _OPS.ATOMIC_GROUP else [""]


def _characters(op: Any, value: Any) -> list[str]:
    if op is _OPS.LITERAL:
        return [chr(value)]
    if op is _OPS.NOT_LITERAL:
        return [one for one in "a 7(" if ord(one) != value][:3]
    return ["a", " ", "7", "("] if op is _OPS.ANY else _of_class(value)


def _of_class(items: Any) -> list[str]:
    pattern = re.compile(_class(items))
    return [one for one in "a 7-./_:,=(%\"'A\t\n*" if pattern.fullmatch(one)][:6] or [
        chr(number) for number in range(256) if pattern.fullmatch(chr(number))
    ][:2]


def _class(items: Any) -> str:
    text = ""
    names = {
        _OPS.CATEGORY_DIGIT: r"\d",
        _OPS.CATEGORY_NOT_DIGIT: r"\D",
        _OPS.CATEGORY_SPACE: r"\s",
        _OPS.CATEGORY_NOT_SPACE: r"\S",
        _OPS.CATEGORY_WORD: r"\w",
        _OPS.CATEGORY_NOT_WORD: r"\W",
    }
    for op, value in items:
        if op is _OPS.NEGATE:
            text += "^"
        elif op is _OPS.LITERAL:
            text += re.escape(chr(value))
        elif op is _OPS.RANGE:
            text += f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        elif op is _OPS.CATEGORY:
            text += names[value]
    return f"[{text}]"

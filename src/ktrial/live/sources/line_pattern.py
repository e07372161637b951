# SPDX-License-Identifier: Apache-2.0
"""Compiles regular expressions for lines of other programs, and rejects expressions that may take very long.

Python's expressions backtrack. Each long repetition that may end at several places multiplies the time by the length of
the line. The search for the start multiplies it once more. A repetition ends at only one place if the text after it
never matches the repeated part, as in `[0-9]+ ms`; all these repetitions together multiply the time once. ktrial
accepts expressions whose time grows with the square of the length. If an expression begins with a fixed text, ktrial
accepts the cube.
"""

from __future__ import annotations

import re
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from ktrial.kit.errors import BadInput

#: How often the line's length may be a factor of the time, and the letters at the start that allow one factor more.
_MOST_FACTORS, _PREFIX = 2, 4
#: A repetition of at most this many times does not count.
_FEW = 8
#: Limits on the ways to repeat a nested repetition, and on the ways to match all short repetitions together.
_MOST_WAYS, _MOST_SHORT_WAYS = 1000, 300
_LETTERS = [chr(code) for code in range(256)]
_BEGINS = (codes.AT_BEGINNING, codes.AT_BEGINNING_STRING)
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT)


def line_pattern(text: str, option: str, groups: tuple[int, ...]) -> re.Pattern[str]:
    """Compile an expression.

    Raise BadInput if it is invalid, may be slow, or has a number of groups not in `groups`.
    """
    try:
        pattern = re.compile(text)
        tree = parser.parse(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadInput(
            f"{option} {text!r} is not a regular expression ({error})",
            hint="try the expression on a line of the log with `grep -P`",
        ) from None
    if pattern.groups not in groups:
        raise BadInput(
            f"{option} {text!r} has {pattern.groups} groups, expected {' or '.join(map(str, groups))}",
            hint="put a group around the number only, and write other groups as (?: )",
        )
    items = list(tree)
    why = _why_slow(items)
    if why is None and (_factors(items) > _MOST_FACTORS + _has_prefix(items) or _short_ways(items) > _MOST_SHORT_WAYS):
        why = "too many of its repetitions, such as .*, may end at several places"
    if why is not None:
        raise BadInput(
            f"{option} {text!r} may take very long on some lines, because {why}",
            hint="match only a short part of the line, with narrow repetitions such as [0-9]+ or [^ ]*",
        )
    return pattern


def _why_slow(items: list[Any], repeated: int = 1) -> str | None:
    """Return why an expression may take exponential time; None if it cannot.

    `repeated` is how often the items may be repeated.
    """
    for code, argument in items:
        if code in (codes.GROUPREF, codes.GROUPREF_EXISTS):
            return "it refers back to one of its groups"
        if code in (codes.ASSERT, codes.ASSERT_NOT):
            return "it looks ahead or behind"
        if code is codes.BRANCH and repeated > _FEW:
            return "it repeats alternatives"
        if code in _REPEATS or code is getattr(codes, "POSSESSIVE_REPEAT", None):
            least, most, body = argument
            ways = int(most) - int(least) + 1
            if repeated > 1 and ways > 1 and ways ** min(repeated, 64) > _MOST_WAYS:
                return "it repeats a part that contains a repetition"
            why = _why_slow(list(body), max(repeated, int(most)))
        else:
            why = next((found for part in _bodies(code, argument) if (found := _why_slow(part, repeated))), None)
        if why is not None:
            return why
    return None


def _bodies(code: Any, argument: Any) -> list[list[Any]]:
    if code is codes.SUBPATTERN:
        return [list(argument[3])]
    if code is codes.BRANCH:
        return [list(part) for part in argument[1]]
    if code is getattr(codes, "ATOMIC_GROUP", None):
        return [list(argument)]
    return []


def _factors(items: list[Any]) -> int:
    """Return how often the length of a line is a factor of the time."""
    is_anchored = bool(items) and items[0][0] is codes.AT and items[0][1] in _BEGINS
    flat = _flat(items)
    found, has_closed = 0, False
    for place, (code, argument) in enumerate(flat):
        if code not in _REPEATS or int(argument[1]) <= _FEW:
            found += _long_repeats([(code, argument)])
            continue
        after = flat[place + 1 :]
        if after:  # otherwise the expression ends here and cannot fail
            repeats, following = _first(list(argument[2])), _first(after)
            is_open = repeats is None or following is None or bool(repeats & following)
            found += is_open
            has_closed |= not is_open
    return found + has_closed + (not is_anchored)


def _has_prefix(items: list[Any]) -> bool:
    """Return whether the expression begins with a fixed text."""
    first = _flat(items)[:_PREFIX]
    return len(first) == _PREFIX and all(code is codes.LITERAL for code, _ in first)


def _short_ways(items: list[Any]) -> int:
    """Return the number of ways to match the short repetitions and alternatives."""
    ways = 1
    for code, argument in items:
        if code in _REPEATS:
            least, most, body = int(argument[0]), int(argument[1]), list(argument[2])
            inner = _short_ways(body)
            ways *= inner if most > _FEW else (most - least + 1) * inner ** max(1, most)
        elif code is codes.BRANCH:
            ways *= sum(_short_ways(list(part)) for part in argument[1])
        else:
            for part in _bodies(code, argument):
                ways *= _short_ways(part)
        if ways > _MOST_SHORT_WAYS:
            break
    return ways


def _long_repeats(items: list[Any]) -> int:
    """Return the largest number of long repetitions in one match."""
    found = 0
    for code, argument in items:
        if code in _REPEATS:
            most = int(argument[1])
            found += (1 if most > _FEW else 0) + min(most, _FEW) * _long_repeats(list(argument[2]))
        else:
            found += max((_long_repeats(part) for part in _bodies(code, argument)), default=0)
    return found


def _flat(items: list[Any]) -> list[Any]:
    """Return the items as one list, with the items of groups in place of the groups."""
    found: list[Any] = []
    for code, argument in items:
        found += _flat(list(argument[3])) if code is codes.SUBPATTERN else [(code, argument)]
    return found


def _may_be_empty(item: Any) -> bool:
    code, argument = item
    if code is codes.AT:
        return True
    if code in _REPEATS:
        return int(argument[0]) == 0
    if code is codes.BRANCH:
        return any(all(map(_may_be_empty, part)) for part in argument[1])
    return code is codes.SUBPATTERN and all(map(_may_be_empty, argument[3]))


def _first(items: list[Any]) -> set[str] | None:
    """Return the letters (of the first 256) that the items may begin with; None if unknown."""
    found: set[str] = set()
    for code, argument in _flat(items):
        if code in _REPEATS:
            letters = _first(list(argument[2]))
        elif code in (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY):
            letters = _letters(code, argument)
        elif code is codes.AT:
            continue
        elif code is codes.BRANCH:
            parts = [_first(list(part)) for part in argument[1]]
            known = [part for part in parts if part is not None]
            letters = set().union(*known) if len(known) == len(parts) else None
        else:
            letters = None
        if letters is None:
            return None
        found |= letters
        if not _may_be_empty((code, argument)):
            break
    return found


def _letters(code: Any, argument: Any) -> set[str] | None:
    found = _exact_letters(code, argument)
    # the expression may ignore case
    return None if found is None else found | {other for one in found for other in (one.lower(), one.upper())}


def _exact_letters(code: Any, argument: Any) -> set[str] | None:
    if code is codes.LITERAL:
        return {chr(argument)} if argument < len(_LETTERS) else None
    if code is codes.NOT_LITERAL:
        return {letter for letter in _LETTERS if letter != chr(argument)}
    if code is codes.ANY:
        return {letter for letter in _LETTERS if letter != "\n"}
    found: set[str] = set()
    is_negated = False
    for kind, value in argument:
        if kind is codes.NEGATE:
            is_negated = True
        elif kind is codes.LITERAL and value < len(_LETTERS):
            found.add(chr(value))
        elif kind is codes.RANGE and value[1] < len(_LETTERS):
            found |= {chr(letter) for letter in range(value[0], value[1] + 1)}
        elif kind is codes.CATEGORY and value in _CATEGORIES:
            found |= {letter for letter in _LETTERS if re.match(_CATEGORIES[value], letter)}
        else:
            return None
    return set(_LETTERS) - found if is_negated else found


_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
}

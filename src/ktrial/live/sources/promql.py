# SPDX-License-Identifier: Apache-2.0
"""Reads the parts of a PromQL query that ktrial needs: selectors, their ranges, and the functions around them."""

from __future__ import annotations

import re
from typing import NamedTuple

from ktrial.kit.errors import BadInput

#: Each alternative begins with a different character, so that a query is read in one pass.
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+|\#[^\n]*)
    |(?P<string>"[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'|`[^`]*`)
    |(?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)
    |(?P<number>[0-9.][0-9a-zA-Z_.]*)
    |(?P<sign>[-+*/%^=!<>~,(){}\[\]@$])""",
    re.VERBOSE | re.DOTALL,
)
_NAMED = re.compile(r"__name__\s*=\s*\"([a-zA-Z_:][a-zA-Z0-9_:]*)\"")
_OPERATORS = frozenset(("and", "or", "unless", "bool", "atan2", "inf", "nan"))
#: Words that may precede a list of labels in parentheses.
_BEFORE_LABELS = frozenset(("by", "without", "on", "ignoring", "group_left", "group_right"))
_OF_AGGREGATIONS = frozenset(("by", "without"))
#: Functions whose argument may be a counter.
OF_COUNTERS = frozenset(
    (
        *("rate", "irate", "increase", "resets", "changes"),
        *("count", "count_over_time", "absent", "absent_over_time", "present_over_time", "timestamp", "group"),
    )
)
_MOST = 8192
_MEAN = "avg_over_time"
_QUANTILE = "histogram_quantile"


class Selector(NamedTuple):
    """A selector of series in a query, without its range; `end` includes the range.

    `function` is the function around it.
    """

    begin: int
    end: int
    text: str
    name: str | None
    function: str | None
    has_range: bool


class QueryToken(NamedTuple):
    """A word or a sign of a query."""

    kind: str
    text: str
    begin: int
    end: int


class Query(NamedTuple):
    """A query and its selectors in order. `quantile` and `buckets` are set for a quantile of a whole histogram."""

    text: str
    selectors: tuple[Selector, ...]
    quantile: float | None = None
    buckets: str | None = None

    def over(self, range_ms: int) -> str:
        """Return the query with all ranges replaced by `range_ms`, and series without a range averaged over it."""
        return self._with(range_ms, means=True)

    def within(self, range_ms: int) -> str:
        """Return the query with all ranges replaced by `range_ms`."""
        return self._with(range_ms, means=False)

    def _with(self, range_ms: int, *, means: bool) -> str:
        parts = []
        at = 0
        for one in self.selectors:
            ranged = f"{one.text}[{range_ms}ms]"
            whole = ranged if one.has_range else f"{_MEAN}({ranged})" if means else one.text
            parts += [self.text[at : one.begin], whole]
            at = one.end
        return "".join((*parts, self.text[at:]))


def read_query(text: str, option: str) -> Query:
    """Return the parts of a query. Raise BadInput for a query that ktrial cannot read over a period."""
    if not text.strip():
        raise BadInput(f"{option}: the query is empty", hint="for example  ?query=rate(requests_total[1m])")
    if len(text) > _MOST:
        raise BadInput(f"{option}: the query is longer than {_MOST} characters", hint="use a recording rule instead")
    tokens = _tokens(text, option)
    selectors = tuple(_QueryReader(text, tokens, option).selectors())
    if not selectors:
        raise BadInput(f"{option}: the query selects no series", hint="for example  ?query=rate(requests_total[1m])")
    words = [token.text for token in tokens]
    quantile = None
    if words[:2] == [_QUANTILE, "("] and words[3:4] == [","] and _closes(words):
        quantile = _share(words[2])
    buckets = text[tokens[3].end : tokens[-1].begin] if quantile is not None else None
    return Query(text, selectors, quantile, buckets)


def _share(text: str) -> float | None:
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0 < share < 1 else None


def _closes(words: list[str]) -> bool:
    """Return whether the parenthesis after the first word closes with the last word."""
    depth = 0
    for place, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if place and not depth:
            return place == len(words) - 1
    return False


def _tokens(text: str, option: str) -> list[QueryToken]:
    found = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadInput(
                f"{option}: cannot read the query from {text[at : at + 40]!r} on",
                hint="try the query on the server's web page",
            )
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(QueryToken(kind, match[0], at, match.end()))
        at = match.end()
    return found


class _QueryReader:
    """Walks through the tokens of a query, with the names of the functions around the current token."""

    def __init__(self, text: str, tokens: list[QueryToken], option: str) -> None:
        self._text = text
        self._tokens = tokens
        self._option = option
        self._at = 0
        self._around: list[str] = []
        self._last = ""

    def selectors(self) -> list[Selector]:
        found: list[Selector] = []
        pending = ""
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.text == "(":
                self._around.append(pending)
            elif token.text == ")":
                self._around[-1:] = []
            if token.kind == "word" or token.text == "{":
                pending = self._word(token, found)
                continue
            if token.text == "[":
                raise self._refused(
                    "the query has a subquery", "leave out the subquery; ktrial already takes the mean over the period"
                )
            if token.text == "@":
                raise self._refused(
                    "the query reads values of another time with @", "leave out the @ and the time after it"
                )
            pending = ""
            self._at += 1
        return found

    def _word(self, token: QueryToken, found: list[Selector]) -> str:
        """Read a word or brace and continue after it. Return the name of a function that begins here."""
        following = self._tokens[self._at + 1].text if self._at + 1 < len(self._tokens) else ""
        word = token.text.lower()
        if word == "offset":
            raise self._refused(
                "the query reads values of another time with offset",
                "leave out the offset and the time after it",
            )
        if word in _BEFORE_LABELS:
            self._at += 1
            if following == "(":
                self._skip_to(")")
            # `sum by (le) (…)`: the aggregation contains what follows.
            return self._last if word in _OF_AGGREGATIONS else ""
        if token.kind == "word" and (word in _OPERATORS or following == "(" or following.lower() in _OF_AGGREGATIONS):
            self._at += 1
            self._last = word
            return word if word not in _OPERATORS else ""
        found.append(self._selector(token))
        return ""

    def _selector(self, token: QueryToken) -> Selector:
        end = token.end
        self._at += 1
        name = token.text if token.kind == "word" else None
        if token.text == "{" or self._peek() == "{":
            end = self._skip_to("}")
        text = self._text[token.begin : end]
        if name is None:
            named = _NAMED.search(text)
            name = None if named is None else named[1]
        has_range = self._peek() == "["
        if has_range:
            begin = self._at
            end = self._skip_to("]")
            if any(":" in one.text for one in self._tokens[begin : self._at]):
                raise self._refused(
                    "the query has a subquery", "leave out the subquery; ktrial already takes the mean over the period"
                )
        return Selector(token.begin, end, text, name, self._around[-1] if self._around else None, has_range)

    def _peek(self) -> str:
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""

    def _skip_to(self, close: str) -> int:
        """Skip to after the next closing sign, and return where it ends. Raise BadInput if there is none."""
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.text == close:
                return token.end
        raise self._refused(f"a closing {close} is missing", f"add the {close}")

    def _refused(self, why: str, hint: str) -> BadInput:
        return BadInput(f"{self._option}: {why}", hint=hint)

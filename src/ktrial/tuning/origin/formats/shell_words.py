# SPDX-License-Identifier: Apache-2.0
"""Split shell text into words, values and commands: just enough to read scripts; nothing is run.

Keywords (`if`, `do`, `done`, …) are commands of their own in the flat list of commands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

_ALONE = frozenset(("if", "then", "elif", "else", "fi", "do", "done", "while", "until", "{", "}", "!", "esac", "time"))
_REDIRECTS = frozenset((">", ">>", ">|", "&>", "&>>", "<", "<>", ">&", "<&", "<<", "<<-", "<<<"))
_OPENERS = frozenset(("for", "select", "while", "until"))
_OPERATORS = ("<<<", "<<-", ";;&", "&>>", "&&", "||", ";;", ";&", "<<", ">>", ">&", "<&", "&>", ">|", "<>")
_OPERATORS_1 = ";&|<>()"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARITHMETIC = re.compile(r"\s*(0[xX][0-9A-Fa-f]+|\d+|[A-Za-z_]\w*|[-+*/%()])")
MAXIMUM_VALUES = 64
"""A word with more possible values than this (nested loops over lists) is not read."""
DEEPEST = 40
#: Limit for the tokens of an expression, more than anybody writes.
MOST_TOKENS = 400


class Token(msgspec.Struct, frozen=True):
    """A word as written (with quotes), an operator, or the end of a line. `joined` means that no blank precedes it."""

    kind: Literal["word", "operator", "newline"]
    text: str
    line_number: int
    joined: bool = False


class Unknown(msgspec.Struct, frozen=True):
    """The reason why a word's value is unknown."""

    reason: str


class NotClosed(ValueError):
    """A quote or `$(` is never closed, or nested too deeply. `offset` is where it starts."""

    def __init__(self, offset: int, mark: str, fault: str = "is never closed") -> None:
        self.offset = offset
        self.mark = mark
        super().__init__(f"{mark} {fault}")


def tokenise(text: str) -> tuple[list[Token], list[tuple[int, str]]]:
    """Return a script's tokens, and (line, reason) for each line that cannot be split."""
    tokens: list[Token] = []
    failures: list[tuple[int, str]] = []
    documents: list[str] = []
    offset, line_number, last_end = 0, 1, -1
    while offset < len(text):
        start = offset
        character = text[offset]
        if character == "\n":
            tokens.append(Token("newline", "\n", line_number))
            offset = _after_documents(text, offset + 1, documents)
            documents = []
        elif character in " \t\r":
            offset += 1
        elif text.startswith("\\\n", offset):
            offset += 2
        elif character == "#":
            offset = _line_end(text, offset)
        elif operator := _operator(text, offset):
            tokens.append(Token("operator", operator, line_number, joined=last_end == start))
            offset = last_end = offset + len(operator)
        else:
            try:
                offset = _word_end(text, offset)
                if tokens and tokens[-1].text in ("<<", "<<-") and tokens[-1].kind == "operator":
                    documents.append(text[start:offset])
                tokens.append(Token("word", text[start:offset], line_number, joined=last_end == start))
                last_end = offset
            except NotClosed as error:
                failures.append((line_number + text.count("\n", offset, error.offset), str(error)))
                offset = _line_end(text, offset)
        line_number += text.count("\n", start, offset)
    return tokens, failures


def _after_documents(text: str, offset: int, documents: list[str]) -> int:
    """Return the offset after the here-documents that start at `offset`."""
    for delimiter in documents:
        wanted = re.sub(r"[\"'\\]", "", delimiter)
        while offset < len(text):
            end = _line_end(text, offset)
            line, offset = text[offset:end].strip("\t\r"), end + 1
            if line == wanted:
                break
    return min(offset, len(text))


def _line_end(text: str, offset: int) -> int:
    end = text.find("\n", offset)
    return len(text) if end < 0 else end


def _operator(text: str, offset: int) -> str | None:
    for operator in _OPERATORS:
        if text.startswith(operator, offset):
            return operator
    return text[offset] if text[offset] in _OPERATORS_1 else None


def _word_end(text: str, offset: int) -> int:
    while offset < len(text) and text[offset] not in " \t\r\n" + _OPERATORS_1:
        offset = _piece_end(text, offset)
    return offset


def _piece_end(text: str, offset: int, depth: int = 0) -> int:
    """Return the end of one quoted part, expansion or character."""
    character = text[offset]
    if depth > DEEPEST:
        raise NotClosed(offset, character, "is nested too deeply")
    if character == "\\":
        return min(offset + 2, len(text))
    if character == "'":
        end = text.find("'", offset + 1)
        if end < 0:
            raise NotClosed(offset, "'")
        return end + 1
    if character in '"`':
        return _until(text, offset, 1, character, depth)
    if text.startswith("$(", offset):
        return _until(text, offset, 2, ")", depth)
    if text.startswith("${", offset):
        return _until(text, offset, 2, "}", depth)
    return offset + 1


def _until(text: str, start: int, skip: int, close: str, depth: int) -> int:
    """Return the end of a part that closes with `close`, skipping nested parts."""
    offset = start + skip
    while offset < len(text):
        character = text[offset]
        if character == close:
            return offset + 1
        if close == ")" and character == "(":
            offset = _until(text, offset, 1, ")", depth + 1)
        elif character == "'" and close == '"':
            offset += 1
        elif character in '\\"`$' or (character == "'" and close != "`"):
            offset = _piece_end(text, offset, depth + 1)
        else:
            offset += 1
    raise NotClosed(start, text[start : start + skip])


def expand(word: str, variables: Mapping[str, list[str] | Unknown]) -> list[str] | Unknown:
    """Return all values that a word may have. Globs stay patterns; a value known only at run time is `Unknown`."""
    results = [""]
    parts: list[str] = []
    offset = 0
    while offset < len(word):
        try:
            end = _piece_end(word, offset)
        except NotClosed as error:
            return Unknown(str(error))
        values = _piece(word[offset:end], word, end, variables)
        if isinstance(values, tuple):
            values, end = values
        if isinstance(values, Unknown):
            return values
        offset = end
        if len(values) == 1:
            parts += values
            continue
        results = _continued(results, parts, values)
        parts = []
        if len(results) > MAXIMUM_VALUES:
            return Unknown(f"stands for more than {MAXIMUM_VALUES} values")
    return _continued(results, parts, [""])


def _continued(results: list[str], parts: list[str], values: list[str]) -> list[str]:
    """Return each result with the fixed parts and one of the values appended, in every combination."""
    between = "".join(parts)
    return [left + between + right for left in results for right in values]


def _piece(
    piece: str, word: str, end: int, variables: Mapping[str, list[str] | Unknown]
) -> list[str] | Unknown | tuple[list[str] | Unknown, int]:
    """Return the values of one piece. For `$name`, which is longer than one character, also return its end."""
    if piece[0] in "\\'\"":
        return _quoted(piece, variables)
    if piece.startswith("$((") and piece.endswith("))"):
        return arithmetic(piece[3:-2], variables)
    if piece[0] == "`" or piece.startswith("$("):
        return Unknown(f"{piece} is the output of a command")
    if piece.startswith("${"):
        return _braced(piece[2:-1], variables)
    if piece == "$":
        name = _NAME.match(word, end)
        if name:
            return lookup(name[0], variables), name.end()
        special = word[end : end + 1]
        if special and special in "0123456789@*#?!$-":
            return lookup(special, variables), end + 1
    return [piece]


def _quoted(piece: str, variables: Mapping[str, list[str] | Unknown]) -> list[str] | Unknown:
    """Return a quoted piece. In double quotes a backslash escapes only `$`, `` ` ``, `"`, itself and a newline."""
    if piece[0] == "\\":
        return [piece[1:].replace("\n", "")]
    text = piece[1:-1]
    if piece[0] == "'":
        return [text]
    escaped = re.sub(r"\\([$`\"\\\n])|\\", lambda found: found[0] if found[1] else "\\\\", text)
    escaped = escaped.replace("'", "\\'")
    return expand(escaped, variables)


def _braced(inner: str, variables: Mapping[str, list[str] | Unknown]) -> list[str] | Unknown:
    """Return the value of `${name}` or `${name:-default}`."""
    found = re.fullmatch(r"([A-Za-z_]\w*|[0-9@*#?])(?:(:?[-=])(.*))?", inner, re.DOTALL)
    if found is None:
        return Unknown(f"cannot read ${{{inner}}}")
    values = lookup(found[1], variables)
    if isinstance(values, Unknown) and found[2] and found[1] not in variables:
        return expand(found[3], variables)
    return values


def lookup(name: str, variables: Mapping[str, list[str] | Unknown]) -> list[str] | Unknown:
    return variables.get(name, Unknown(f"${name} is unknown"))


def arithmetic(text: str, variables: Mapping[str, list[str] | Unknown]) -> list[str] | Unknown:
    """Return the value of an expression of whole numbers, names, `+ - * / %` and brackets, as a list of one text.

    Return Unknown if the value cannot be computed.
    """
    plain = re.sub(r"\$\{?([A-Za-z_]\w*)\}?", r"\1", text)
    tokens: list[str] = []
    offset, end = 0, len(plain.rstrip())
    while offset < end:
        found = _ARITHMETIC.match(plain, offset)
        if found is None or len(tokens) > MOST_TOKENS:
            return Unknown(f"cannot read $(({text}))")
        tokens.append(found[1])
        offset = found.end()
    try:
        value, rest = _sum(tokens, variables, 0)
    except (ArithmeticError, IndexError, ValueError, LookupError) as error:
        return Unknown(f"cannot compute $(({text})): {error}")
    return Unknown(f"cannot read $(({text}))") if rest else [str(value)]


def _sum(tokens: list[str], variables: Mapping[str, list[str] | Unknown], depth: int) -> tuple[int, list[str]]:
    value, rest = _product(tokens, variables, depth)
    while rest and rest[0] in ("+", "-"):
        right, after = _product(rest[1:], variables, depth)
        value = value + right if rest[0] == "+" else value - right
        rest = after
    return value, rest


def _product(tokens: list[str], variables: Mapping[str, list[str] | Unknown], depth: int) -> tuple[int, list[str]]:
    value, rest = _factor(tokens, variables, depth)
    while rest and rest[0] in ("*", "/", "%"):
        right, after = _factor(rest[1:], variables, depth)
        if rest[0] == "*":
            value *= right
            if abs(value) > 2**64:
                raise OverflowError("the result is too large")
        else:
            quotient = abs(value) // abs(right) * (1 if (value < 0) == (right < 0) else -1)
            value = quotient if rest[0] == "/" else value - quotient * right
        rest = after
    return value, rest


def _factor(tokens: list[str], variables: Mapping[str, list[str] | Unknown], depth: int) -> tuple[int, list[str]]:
    if depth > DEEPEST or not tokens:
        raise ValueError("a number is missing" if not tokens else "nesting too deep")
    first, rest = tokens[0], tokens[1:]
    if first == "-":
        value, rest = _factor(rest, variables, depth + 1)
        return -value, rest
    if first == "(":
        value, rest = _sum(rest, variables, depth + 1)
        if not rest or rest[0] != ")":
            raise ValueError("a ) is missing")
        return value, rest[1:]
    if first[0].isalpha() or first[0] == "_":
        values = lookup(first, variables)
        if isinstance(values, Unknown) or len(values) != 1:
            raise LookupError(f"{first} is unknown")
        first = values[0]
    if len(first) > 20:
        raise ValueError("a number is too long")
    return int(first, 0 if first.lower().startswith("0x") else 10), rest


class Redirect(msgspec.Struct, frozen=True):
    """A redirection of a command. `descriptor` is the number before the operator, if any."""

    descriptor: str | None
    operator: str
    target: str


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A simple command, or a keyword.

    `keyword` is None for a simple command, otherwise the keyword, `pattern` (of a case) or `function` (a definition,
    with its name in `words`). `before` and `after` are the surrounding operators (`&&`, `|`, …).
    """

    words: tuple[str, ...]
    redirects: tuple[Redirect, ...] = ()
    keyword: str | None = None
    before: str = "\n"
    after: str = "\n"
    line_number: int

    @property
    def text(self) -> str:
        return " ".join(self.words)


class _Builder:
    """Collect words until an operator ends the command."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.words: list[str] = []
        self.redirects: list[Redirect] = []
        self.line_number = 0
        self.before = "\n"
        self.in_case: list[bool] = []
        """One entry per open `case`: whether a pattern is expected next."""

    def end(self, operator: str) -> None:
        if self.words or self.redirects:
            self.commands.append(
                Command(
                    words=tuple(self.words),
                    redirects=tuple(self.redirects),
                    keyword=self.words[0] if self.words and self.words[0] in ("for", "select", "case") else None,
                    before=self.before,
                    after=operator,
                    line_number=self.line_number,
                )
            )
        self.words, self.redirects = [], []
        self.before = operator

    def keyword(self, name: str, line_number: int, words: tuple[str, ...] = ()) -> None:
        self.commands.append(Command(words=words, keyword=name, before=self.before, line_number=line_number))
        self.words, self.redirects = [], []
        self.before = "\n"

    def expects_pattern(self) -> bool:
        return bool(self.in_case) and self.in_case[-1]


def group(tokens: list[Token]) -> list[Command]:
    builder = _Builder()
    index = 0
    while index < len(tokens):
        index += _take(builder, tokens, index)
    builder.end("\n")
    return builder.commands


def _take(builder: _Builder, tokens: list[Token], index: int) -> int:
    """Take one token, or a redirection with its target; return the number of tokens taken."""
    token = tokens[index]
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    if token.kind == "word":
        _word(builder, token)
    elif token.text in _REDIRECTS:
        descriptor = None
        if token.joined and builder.words and builder.words[-1].isdigit():
            descriptor = builder.words.pop()
        if following is not None and following.kind == "word":
            builder.redirects.append(Redirect(descriptor, token.text, following.text))
            return 2
    elif token.text == "(" and len(builder.words) == 1 and following is not None and following.text == ")":
        builder.keyword("function", token.line_number, (builder.words[0],))
        return 2
    elif builder.expects_pattern():
        if token.text == ")":
            builder.in_case[-1] = False
            builder.keyword("pattern", token.line_number, tuple(builder.words))
    else:
        builder.end(token.text)
        if token.text in (";;", ";&", ";;&") and builder.in_case:
            builder.in_case[-1] = True
    return 1


def _word(builder: _Builder, token: Token) -> None:
    """Add a word to the command, or a keyword if a command may start here."""
    if not builder.words:
        builder.line_number = token.line_number
        if token.text == "esac" and builder.in_case:
            builder.in_case.pop()
            builder.keyword("esac", token.line_number)
            return
        if token.text in _ALONE and not builder.expects_pattern():
            before = builder.before
            builder.keyword(token.text, token.line_number)
            builder.before = before if token.text == "!" else "\n"
            return
    builder.words.append(token.text)
    if builder.words[0] == "function" and len(builder.words) == 2:
        builder.keyword("function", token.line_number, (token.text,))
    elif builder.words[0] == "case" and token.text == "in" and len(builder.words) == 3:
        builder.end("\n")
        builder.in_case.append(True)


def closing(commands: list[Command], start: int, stop: int) -> int:
    """Return the index of the `done` or `}` that closes the block at `start`, or `stop` if nothing closes it."""
    depth = 0
    braces = commands[start].keyword == "{"
    for index in range(start, stop):
        keyword = commands[index].keyword
        if keyword == "{" if braces else keyword in _OPENERS:
            depth += 1
        elif keyword == ("}" if braces else "done"):
            depth -= 1
            if depth <= 0:
                return index
    return stop

# SPDX-License-Identifier: Apache-2.0
"""Group shell tokens into a flat list of commands; keywords (`if`, `do`, `done`, …) are commands of their own."""

from __future__ import annotations

import msgspec

from ktrial.tuning.origin.formats.shell_words import Token

_ALONE = frozenset(("if", "then", "elif", "else", "fi", "do", "done", "while", "until", "{", "}", "!", "esac", "time"))
_REDIRECTS = frozenset((">", ">>", ">|", "&>", "&>>", "<", "<>", ">&", "<&", "<<", "<<-", "<<<"))
_OPENERS = frozenset(("for", "select", "while", "until"))


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
        """The words as written, for conditions and messages."""
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
            self._append(
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
        """Add a keyword as a command of its own."""
        self._append(Command(words=words, keyword=name, before=self.before, line_number=line_number))
        self.words, self.redirects = [], []
        self.before = "\n"

    def _append(self, command: Command) -> None:
        self.commands.append(command)

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

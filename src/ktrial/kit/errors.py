# SPDX-License-Identifier: Apache-2.0
"""Exceptions and the exit status of each.

KtrialError                    1  the environment, or ktrial itself, failed
├── BadInput                   2  bad usage or bad input: file, line, value, why, what to do
│   ├── UnknownName            2  no such knob, profile, fact, … with a did-you-mean
│   └── Contradiction          2  two settings that cannot both hold
├── GuardTripped               3  a guard or a --fail-on condition
│   └── LimitPassed            3  a limit that ends a trial at once: too hot, too little memory
├── Refused                    4  ktrial refuses: for example, a dangerous setting lacks consent
├── PrivilegeMissing           5  needs root, and may not or cannot ask for it
├── AgentError                 1  the agent answered with an error (its `kind` says which)
│   ├── BadRequest             2  a number out of range, an invalid name
│   ├── Busy                   1  another transaction or trial holds the lock
│   ├── NoSuchTransaction      2  no transaction has this number, or it has ended
│   └── StalePlan              1  the machine changed since the plan was made
├── BadRun                     1  a benchmark run gave no usable measurement
│   └── UnreadableOutput       1  a parser cannot read a tool's output: source, line, item, what it expected
└── Interrupted              130  Ctrl-C
"""

from __future__ import annotations

from collections.abc import Iterable


class KtrialError(Exception):
    """An error for the user. It says what happened, why, and what to do next (`hint`)."""

    exit_status = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadInput(KtrialError):
    """Wrong usage or input. The message begins with `file`, `line` and `column`, if they are known."""

    exit_status = 2

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        hint: str | None = None,
    ) -> None:
        where = ":".join(str(part) for part in (file, line, column) if part is not None)
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.file = file
        self.line = line
        self.column = column


class UnknownName(BadInput):
    """A name that does not exist; the hint lists similar names, if there are any."""

    def __init__(self, what: str, name: str, known: Iterable[str], *, hint: str | None = None) -> None:
        near = nearest(name, known)
        advice = f"did you mean {' or '.join(near)}?" if near else hint
        super().__init__(f"unknown {what}: {name!r}", hint=advice)
        self.name = name
        self.nearest = near


class Contradiction(BadInput):
    """Two settings that cannot both hold."""


class GuardTripped(KtrialError):
    """A result that makes the command fail, because the user set a guard or --fail-on."""

    exit_status = 3


class LimitPassed(GuardTripped):
    """A limit that ends a trial at once: the machine is too hot, or has too little memory."""


class Refused(KtrialError):
    """An action that ktrial refuses, for example because a dangerous setting lacks consent."""

    exit_status = 4


class PrivilegeMissing(KtrialError):
    """A step needs root, and ktrial may not or cannot ask for it."""

    exit_status = 5


class AgentError(KtrialError):
    """The agent answered with an error."""

    def __init__(self, kind: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


class Busy(AgentError):
    """Another transaction, trial or measurement holds the lock."""


class BadRequest(AgentError):
    """An invalid request to the agent: a number out of range, an invalid name."""

    exit_status = 2


class NoSuchTransaction(AgentError):
    """The transaction does not exist or has ended."""

    exit_status = 2


class StalePlan(AgentError):
    """The machine changed after the plan was made."""


class BadRun(KtrialError):
    """A benchmark run that gave no usable measurement."""


class UnreadableOutput(BadRun):
    """A tool's output that its parser cannot read.

    The error names the stream or file, the line, the text there and what was expected. Without a line, an
    empty `item` stands for all of the output.
    """

    def __init__(self, source: str, line: int | None, item: str, wanted: str, *, is_json: bool = False) -> None:
        where = source if line is None else f"{source}:{line}"
        quoted = item if is_json else repr(item)
        super().__init__(
            f"{where}: not {wanted}" if line is None and not item else f"{where}: {quoted} is not {wanted}"
        )
        self.source = source
        self.line = line
        self.item = item
        self.wanted = wanted


class Interrupted(KtrialError):
    """The user stopped the command, with Ctrl-C or a signal."""

    exit_status = 130


def in_lower_case(message: str) -> str:
    """Return a library's message with its first letter in lower case, to follow a colon; keep acronyms."""
    return message[:1].lower() + message[1:] if message[1:2].islower() else message


def quoting_hint(error: ValueError) -> str:
    """Return how to mend a text that `shlex.split` could not read."""
    if "quotation" in str(error):
        return "close each quote"
    return "remove the backslash at the end, or write it twice"


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return up to three known names that resemble `name`.

    Case does not matter; `_` and `-` are equal, as are `/` and `.`.
    """
    import difflib

    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(_fold(candidate), candidate)
    exact = folded.get(_fold(name))
    if exact is not None:
        return (exact,)
    return tuple(folded[match] for match in difflib.get_close_matches(_fold(name), folded, n=3, cutoff=0.75))


def _fold(name: str) -> str:
    return name.lower().replace("-", "_").replace("/", ".")

# SPDX-License-Identifier: Apache-2.0
"""`--fail-on`: verdicts that end a command with status 3, one rule for all commands that end in verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ktrial.domain.errors import GuardTripped

if TYPE_CHECKING:
    from ktrial.domain.comparison import Contrast
    from ktrial.domain.verdict import Verdict

F = TypeVar("F", bound=Callable[..., Any])


def _verdicts(context: click.Context, option: click.Parameter, text: str | None) -> tuple[Verdict, ...]:
    """Words with a comma between them; a space of a verdict is written as `-`."""
    from typing import get_args

    from ktrial.domain.verdict import Verdict

    known = {verdict.replace(" ", "-"): verdict for verdict in get_args(Verdict)}
    words = [] if text is None else [word.strip() for word in text.split(",")]
    for word in words:
        if word not in known:
            told = f"{word!r} is no verdict; there are {', '.join(known)}"
            raise click.BadParameter(told, ctx=context, param=option)
    return tuple(known[word] for word in words)


def fail_on_option(command: F) -> F:
    """The option, as a tuple of verdicts."""
    return click.option(
        "--fail-on",
        callback=_verdicts,
        metavar="VERDICT,…",
        help="Exit with 3 on any of these, as worse,different,inconclusive,not-comparable.",
    )(command)


def refuse(contrasts: Sequence[Contrast], verdicts: Sequence[Verdict]) -> None:
    """End with status 3 where one of the contrasts has one of the verdicts."""
    for verdict in verdicts:
        found = [contrast for contrast in contrasts if contrast.verdict == verdict]
        if found:
            count = len(found)
            raise GuardTripped(f"{count} verdict{'s'[: count != 1]} {verdict}: {found[0].sentence}")

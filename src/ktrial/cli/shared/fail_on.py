# SPDX-License-Identifier: Apache-2.0
"""`--fail-on`: verdicts that end a command with status 3, one rule for all commands that end in verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ktrial.kit.errors import GuardTripped

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.judge.model.comparison import Comparison

F = TypeVar("F", bound=Callable[..., Any])


def _ask(context: click.Context, option: click.Parameter, text: str | None) -> None:
    """Words with a comma between them; a space of a verdict is written as `-`."""
    from typing import get_args

    from ktrial.judge.model.verdict import Verdict

    known = {verdict.replace(" ", "-"): verdict for verdict in get_args(Verdict)}
    words = [] if text is None else [word.strip() for word in text.split(",")]
    for word in words:
        if word not in known:
            told = f"{word!r} is not a verdict; there are {', '.join(known)}"
            raise click.BadParameter(told, ctx=context, param=option)
    if context.obj is not None:
        context.obj.fail_on = tuple(known[word] for word in words)


def fail_on_option(command: F) -> F:
    """Return the option; what it asks for is the application's `fail_on`."""
    return click.option(
        "--fail-on",
        callback=_ask,
        expose_value=False,
        metavar="VERDICT,…",
        help="Exit with 3 on any of these: worse,different,inconclusive,not-comparable.",
    )(command)


def refuse(app: App, found: Comparison) -> None:
    """End with status 3 where a comparison has one of the verdicts that were asked for."""
    contrasts = [contrast for outcome in found.outcomes for contrast in outcome.judged]
    for verdict in app.fail_on:
        met = [contrast for contrast in contrasts if contrast.verdict == verdict]
        if met:
            raise GuardTripped(f"{len(met)} verdict{'s'[: len(met) != 1]} {verdict}: {met[0].sentence}")

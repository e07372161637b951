# SPDX-License-Identifier: Apache-2.0
"""The option `--fail-on`, with which certain verdicts end a command with status 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ktrial.kit.errors import BadInput, GuardTripped

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.judge.model.comparison import Comparison


def _ask(context: click.Context, option: click.Parameter, text: str | None) -> None:
    """Parse comma-separated verdicts, with `-` for a space."""
    from typing import get_args

    from ktrial.judge.model.verdict import Verdict

    known = {verdict.replace(" ", "-"): verdict for verdict in get_args(Verdict)}
    words = [] if text is None else [word.strip() for word in text.split(",")]
    for word in words:
        if word not in known:
            raise click.BadParameter(f"{word!r} is not one of {', '.join(known)}", ctx=context, param=option)
    if context.obj is not None:
        context.obj.fail_on = tuple(known[word] for word in words)


#: Sets `App.fail_on`.
fail_on_option = click.option(
    "--fail-on",
    callback=_ask,
    expose_value=False,
    metavar="VERDICT,…",
    help="Verdicts that make the exit status 3, such as worse,different,inconclusive,not-comparable.",
)


def refuse(app: App, found: Comparison) -> None:
    """Raise GuardTripped if a verdict of --fail-on occurs, BadInput if no arms are comparable.

    A build step must not pass if its outcomes cannot be compared.
    """
    contrasts = [contrast for outcome in found.outcomes for contrast in outcome.judged]
    for verdict in app.fail_on:
        met = [contrast for contrast in contrasts if contrast.verdict == verdict]
        if met:
            raise GuardTripped(f"{len(met)} verdict{'s'[: len(met) != 1]} {verdict}: {met[0].sentence}")
    if app.fail_on and any(one.verdict == "different" for one in contrasts) and "different" not in app.fail_on:
        app.say("--fail-on passed over `different`: the data cannot say what caused it; add `different` to fail on it")
    primary = [contrast for outcome in found.outcomes if outcome.role == "primary" for contrast in outcome.judged]
    asked = primary or contrasts
    if app.fail_on and asked and all(contrast.verdict == "not comparable" for contrast in asked):
        raise BadInput(
            f"cannot check --fail-on: {asked[0].arm} and {asked[0].control} are not comparable",
            hint="remove the differences that the report names"
            + (", or declare intended ones with --declared" if found.trial is None else ""),
        )

# SPDX-License-Identifier: Apache-2.0
"""The environment of what is measured: the two options for it, and what of the shell's reaches a command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from ktrial.bench.environment import PassedEnvironment
    from ktrial.cli.app import App

#: On verbs whose arms differ in a variable `--env` names an arm instead.
env_option = click.option(
    "--env", "variables", multiple=True, metavar="NAME[=VALUE]", help="Add a variable and record its value. Repeatable."
)
clean_env_option = click.option("--clean-env", is_flag=True, help="Pass CMD only the basic variables of the shell.")


def named_variables(given: Sequence[str]) -> dict[str, str]:
    """`--env NAME=VALUE`, or NAME as the shell has it. Raises BadInput."""
    from ktrial.trial.protocol.from_words import pair

    return dict(pair(one, "--env") if "=" in one else (one, _of_shell(one)) for one in given)


def _of_shell(name: str) -> str:
    if name not in os.environ:
        raise BadInput(f"--env {name}: the shell has no such variable", hint=f"export it, or write --env {name}=VALUE")
    return os.environ[name]


def shell_environment(app: App, *, clean: bool = False) -> PassedEnvironment:
    """Return what commands of the user's get of the shell's variables; what cannot be passed is named."""
    from ktrial.bench.environment import PassedEnvironment, basic_variables, passed_variables

    if clean:
        return PassedEnvironment(basic_variables(os.environ), {})
    found = passed_variables(os.environ, app.scrubbing()[1])
    if found.unreadable:
        app.say(f"not passed on, as they are no UTF-8 text: {', '.join(map(ascii, found.unreadable))}")
    return found


def started_environment(variables: Sequence[str], *, clean: bool) -> dict[str, str]:
    """That of a program which is started once and compared with nothing: nothing is pinned. Raises BadInput."""
    from ktrial.bench.environment import basic_variables

    return {**(basic_variables(os.environ) if clean else os.environ), **named_variables(variables)}


def refuse_without_command(variables: Sequence[str], *, clean: bool) -> None:
    """Raise BadInput if there is no command that they could be for."""
    if given := "--env" if variables else "--clean-env" if clean else None:
        raise BadInput(f"{given} is for a command after --", hint="leave it out")

# SPDX-License-Identifier: Apache-2.0
"""The environment of measured commands: its two options, and which shell variables a command gets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from ktrial.bench.environment import PassedEnvironment
    from ktrial.cli.app import App

#: The option --env. Verbs whose arms may differ in a variable define it themselves, because there it adds an arm.
env_option = click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Environment variable to set for the measured program and to store with the runs. Without VALUE, ktrial takes"
    " the shell's value. Repeatable.",
)
clean_env_option = click.option(
    "--clean-env", is_flag=True, help="Pass CMD only the shell's basic variables, such as PATH, HOME and DISPLAY."
)


def named_variables(given: Sequence[str]) -> dict[str, str]:
    """Parse `--env NAME=VALUE`, or `--env NAME` with the shell's value. Raise BadInput if the shell lacks NAME."""
    from ktrial.trial.protocol.from_words import pair

    return dict(pair(one, "--env") if "=" in one else (one, _of_shell(one)) for one in given)


def _of_shell(name: str) -> str:
    if name not in os.environ:
        raise BadInput(
            f"--env {name}: no such variable in the shell", hint=f"export the variable, or use --env {name}=VALUE"
        )
    return os.environ[name]


def shell_environment(app: App, *, clean: bool = False) -> PassedEnvironment:
    """Return the shell variables that user commands get, and report variables that cannot be passed."""
    from ktrial.bench.environment import PassedEnvironment, basic_variables, passed_variables

    if clean:
        return PassedEnvironment(basic_variables(os.environ), {})
    found = passed_variables(os.environ, app.scrubbing()[1])
    if found.unreadable:
        app.say(f"variables not passed on, because they are not UTF-8: {', '.join(map(ascii, found.unreadable))}")
    return found


def started_environment(variables: Sequence[str], *, clean: bool) -> dict[str, str]:
    """Return the environment of a program that `watch` or `frames` starts."""
    from ktrial.bench.environment import basic_variables

    return {**(basic_variables(os.environ) if clean else os.environ), **named_variables(variables)}


def refuse_without_command(variables: Sequence[str], *, clean: bool, when_idle: bool = False, **others: object) -> None:
    """Raise BadInput if --env, --clean-env, --when-idle or an option in `others` is set: each requires a command."""
    options = {"--env": bool(variables), "--clean-env": clean, "--when-idle": when_idle}
    options |= {f"--{name}": bool(value) for name, value in others.items()}
    if given := next((name for name, is_given in options.items() if is_given), None):
        raise BadInput(f"{given} requires a command after --", hint=f"leave out {given}")

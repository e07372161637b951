# SPDX-License-Identifier: Apache-2.0
"""The same option has the same name on every command that could have it; where one lacks it, a reason says why."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from ktrial.cli.app_remote import RemoteHost
from ktrial.cli.main import cli

#: Commands that run something in order to measure it.
MEASURING = frozenset((
    "ab", "bench", "blame", "boot try", "demo", "fleet run", "frames", "kernel bisect", "kernel boot",
    "kernel boot-time", "kernel trial", "ladder", "noise", "retest", "schedulers", "search", "trial extend",
    "trial next", "trial resume", "trial run", "try", "tune", "watch", "with",
))  # fmt: skip
#: Commands that answer with verdicts.
JUDGING = frozenset((
    "ab", "blame", "claim", "compare", "demo", "fleet run", "kernel trial", "ladder", "retest", "schedulers",
    "state diff",
    "trial extend", "trial next", "trial resume", "trial run", "trial show", "try", "tune",
))  # fmt: skip
_IN_A_GUEST = "the program runs in a guest, which has no user and an environment of its own"
_STORED = "its protocol is fixed in a file or in the store"
_KERNELS = "it measures with suites only, in boots of this machine or in guests"
_ALWAYS_SAME = "it always measures the same example"
_NOTHING_MEASURED = "it shows what happens, and compares nothing"
_OF_STORED = dict.fromkeys(("fleet run", "retest", "trial extend", "trial next", "trial resume", "trial run"), _STORED)

#: For each option: the commands that could have it, and the reasons of those that do not.
TABLE: dict[str, tuple[frozenset[str], dict[str, str]]] = {
    "--env": (
        MEASURING,
        {
            **_OF_STORED,
            "boot try": "it boots this machine and measures nothing",
            "demo": _ALWAYS_SAME,
            "kernel bisect": _IN_A_GUEST,
            "kernel boot": _IN_A_GUEST,
            "kernel boot-time": _IN_A_GUEST,
            "kernel trial": _KERNELS,
            "with": "it hands the environment on as it is, and records nothing",
        },
    ),
    "--when-idle": (
        MEASURING,
        {
            "boot try": "it boots this machine and measures nothing",
            "demo": _ALWAYS_SAME,
            "kernel bisect": _IN_A_GUEST,
            "kernel boot": _IN_A_GUEST,
            "kernel boot-time": _IN_A_GUEST,
            "kernel trial": _KERNELS,
            "watch": "it records a machine in use",
            "with": "it measures nothing",
        },
    ),
    "--fail-on": (
        JUDGING,
        {
            "blame": "it answers with the settings that matter; the trial of each may be checked with `trial show`",
            "demo": _ALWAYS_SAME,
            "fleet run": "its guards stop it with status 3; `fleet report --json` has its verdicts",
            "tune": "it answers with what it keeps; settings that are worse are part of its work",
        },
    ),
    "--budget": (
        JUDGING,
        {
            **_OF_STORED,
            "claim": "it measures nothing",
            "compare": "it measures nothing",
            "demo": _ALWAYS_SAME,
            "state diff": "it measures nothing",
            "trial show": "it measures nothing",
        },
    ),
    "--secondary": (
        JUDGING,
        {
            **_OF_STORED,
            "claim": "it judges one claim",
            "compare": "it judges all outcomes of the files, or those of --value",
            "demo": _ALWAYS_SAME,
            "state diff": "it compares settings, not outcomes",
            "trial show": _STORED,
        },
    ),
}
#: Options of the same name that mean a setting too: of a kernel's configuration.
KCONFIG = frozenset(("blame", "kernel build", "kernel config", "kernel trial"))


def commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        elif command is not None:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands())


def having(option: str) -> set[str]:
    return {name for name, command in COMMANDS.items() if any(option in param.opts for param in command.params)}


def argument(command: click.Command) -> str:
    return " ".join(one.metavar or "" for one in command.params if isinstance(one, click.Argument))


@pytest.mark.parametrize("option", TABLE)
def test_an_option_is_on_all_commands_that_could_have_it(option: str) -> None:
    could, reasons = TABLE[option]
    assert could | set(reasons) <= set(COMMANDS)
    assert could - set(reasons) == having(option) & could
    assert not set(reasons) - could


@pytest.mark.parametrize("option", ["--env", "--when-idle"])
def test_no_command_measures_unseen(option: str) -> None:
    takers = {name for name, one in COMMANDS.items() if "CMD" in argument(one)} | having("--suite") - {"runs"}
    assert having(option) <= MEASURING
    assert takers <= MEASURING


def test_settings_are_named_by_argument_and_by_set() -> None:
    takers = {name for name, one in COMMANDS.items() if "KNOB=VALUE" in argument(one)}
    assert takers >= {"apply", "plan", "try", "with", "keep", "export"}
    assert having("--set") == takers | KCONFIG


def test_a_profile_may_be_a_file_everywhere() -> None:
    takers = {name: argument(one) for name, one in COMMANDS.items() if re.search(r"PROFILE|LADDER", argument(one))}
    assert [name for name, text in takers.items() if "FILE" not in re.split(r"[^A-Z]+", text)] == []


def test_what_another_machine_cannot_serve_are_commands() -> None:
    assert set(RemoteHost.here_only) <= set(cli.list_commands(click.Context(cli)))

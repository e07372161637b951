# SPDX-License-Identifier: Apache-2.0
"""Options of the verbs that write the protocol of a trial from their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ktrial.cli.completion import measurable_names
from ktrial.cli.options import anyway_option, dangerous_option, json_option
from ktrial.cli.shared.command_environment import clean_env_option, named_variables
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from ktrial.trial.guests.recipe import KernelRecipe
    from ktrial.trial.protocol.file import TrialFile

F = TypeVar("F", bound=Callable[..., Any])

#: Options by the names of their parameters, where those are others.
_WORDS = {"fragments": "fragment", "settings": "set", "patches": "patch"}
_MEASURED = (
    click.option(
        "--suite",
        shell_complete=measurable_names,
        metavar="SUITE|BENCHMARK",
        help="Suite or benchmark to measure (or a command after --).",
    ),
    click.option(
        "--metric",
        "metrics",
        multiple=True,
        metavar="SPEC",
        help="Read a number that CMD prints: NAME:lower=REGEX. Repeatable.",
    ),
    click.option("--limit", metavar="TIME", help="Kill a run of CMD after TIME.  [1h]"),
    clean_env_option,
    click.option(
        "-p",
        "--parameter",
        "given",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set a parameter of the benchmark. Repeatable.",
    ),
    click.option("--primary", metavar="OUTCOME", help="Outcome that decides."),
)
_GUEST = (
    click.option("--mode", type=click.Choice(("exact", "emulated", "kvm")), help="How to run guests.  [exact]"),
    click.option("--memory", metavar="SIZE", help="Memory of each guest.  [512MiB]"),
    click.option("--cpus", type=click.IntRange(1, 64), help="CPUs of each guest.  [2; 1 if exact]"),
    click.option("--workloads", type=click.IntRange(1, 100), help="Number of seeds per boot.  [1]"),
)
_BUILT = (
    click.option("--tree", metavar="TREE", help="Build the kernels from these sources."),
    click.option("--config", metavar="BASE", help="Base configuration of all kernels.  [tinyconfig]"),
    click.option("--common", multiple=True, metavar="NAME|FILE", help="Fragment added to all kernels.  [guest]"),
    click.option("--cc", metavar="PROGRAM", help="Compiler of all kernels.  [gcc]"),
)
_DESIGNED = (
    click.option("--detect", default="5%", show_default=True, metavar="SHARE", help="Smallest effect worth finding."),
    click.option("--margin", metavar="SHARE", help="Differences below this do not matter.  [2%]"),
    click.option(
        "--budget",
        default="default",
        show_default=True,
        metavar="NAME|BLOCKS",
        help="Maximum number of blocks: quick, default, thorough or a number.",
    ),
    click.option("--settle", metavar="TIME", help="Wait after each change.  [chosen per setting]"),
    click.option("--time", "time_", metavar="TIME", help="Time limit of the trial."),
    click.option(
        "--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Reproduce the run order of an earlier trial."
    ),
    click.option(
        "--no-profile", is_flag=True, help="Skip the noise profile; plan the cap from the first seven blocks."
    ),
    anyway_option,
    click.option("--dry-run", is_flag=True, help="Print the protocol, check it here, measure nothing."),
    dangerous_option,
    json_option,
)


def measured_options(command: F) -> F:
    return _with(_MEASURED, command)


def guest_options(command: F) -> F:
    return _with(_GUEST, command)


def guest_shape(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of them that were given, as fields of `GuestFile`."""
    asked = {name: options[name] for name in ("mode", "memory", "cpus", "workloads")}
    return {name: value for name, value in asked.items() if value is not None}


def build_options(command: F) -> F:
    return _with(_BUILT, command)


def recipe_of(options: Mapping[str, Any], *needing: str) -> KernelRecipe | None:
    """Return what they say; None without sources. `needing` are further options that mean nothing then."""
    from ktrial.trial.guests.recipe import CONFIG, FRAGMENTS, KernelRecipe

    tree, config, common, cc = (options[name] for name in ("tree", "config", "common", "cc"))
    if tree is None:
        if given := next((name for name in ("config", "common", "cc", *needing) if options[name]), None):
            raise BadInput(f"--{_WORDS.get(given, given)} is for kernels that are built", hint="--tree names sources")
        return None
    usual = FRAGMENTS if config is None else ()
    return KernelRecipe(tree=tree, config=config or CONFIG, fragments=common or usual, cc=cc)


def refuse_shape(options: Mapping[str, Any]) -> None:
    """Raise BadInput if one was given, and nothing is tried in guests."""
    if given := guest_shape(options):
        raise BadInput(f"--{next(iter(given))} is for guests", hint="--guest tries it in guests")


def designed_options(command: F) -> F:
    return _with(_DESIGNED, command)


def _with(options: tuple[Callable[[F], F], ...], command: F) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def protocol_file(
    name: str, suite: str | None, own: tuple[str, ...] | None, options: Mapping[str, Any], **more: Any
) -> TrialFile:
    """Return the protocol that these options ask for; `more` are the fields that the verb knows."""
    from ktrial.trial.protocol.from_words import pair

    return template_file(
        name,
        own,
        options,
        {"budget": budget_of(options), "seed": options["seed"]},
        suite=suite,
        parameters=dict(pair(one, "-p") for one in options["given"]),
        primary=options["primary"],
        **more,
    )


def template_file(
    name: str, own: tuple[str, ...] | None, options: Mapping[str, Any], design: Mapping[str, Any], **more: Any
) -> TrialFile:
    """Return what all such verbs take alike: a command of one's own, the effect that is looked for, and times."""
    import msgspec

    from ktrial.trial.protocol.file import DesignFile, TrialFile

    return TrialFile(
        name=name,
        command=own or (),
        metrics=options["metrics"],
        limit=options.get("limit"),
        environment=named_variables(options.get("variables", ())) or msgspec.UNSET,
        clean_environment=options["clean_env"] or None,
        detect=options["detect"],
        margin=options["margin"],
        design=DesignFile(settle=options["settle"], time=options["time_"], **design),
        **more,
    )


def budget_of(options: Mapping[str, Any]) -> int | str:
    """`--budget`: a name, or a number of blocks."""
    said: str = options["budget"]
    return int(said) if said.isdigit() else said

# SPDX-License-Identifier: Apache-2.0
"""The options of commands that make a trial protocol from their arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ktrial.agent.user_folders import config_folder
from ktrial.cli.completion import measurable_names, trial_names
from ktrial.cli.options import (
    anyway_option,
    boots_options,
    budget_option,
    dangerous_option,
    json_option,
    limit_option,
    long_option,
    margin_option,
    metric_option,
    noise_anyway_option,
    parameter_option,
    prepare_option,
    seed_option,
    when_idle_option,
    with_options,
)
from ktrial.cli.shared.command_environment import clean_env_option, named_variables
from ktrial.cli.shared.command_steps import prepare_steps
from ktrial.cli.shared.results_leaving import results_out_options
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.cli.shared.boots import BootConsent
    from ktrial.trial.guests.recipe import KernelRecipe
    from ktrial.trial.protocol.file import GuestFile, TrialFile

_FENCE = "ktrial.fence"
#: Option names that differ from their parameter names.
_WORDS = {"fragments": "fragment", "settings": "set", "patches": "patch", "targets": "target"}


def _one_turn(ctx: click.Context, _: click.Parameter, given: bool) -> None:
    if given and ctx.obj is not None:
        from ktrial.trial.unattended.carrier import Turn

        ctx.obj.turn = Turn(ctx.meta.get(_FENCE))


def _of_fleet(ctx: click.Context, _: click.Parameter, fleet: str | None) -> None:
    if fleet is not None and ctx.obj is not None:
        from ktrial.cli.shared.fleet_live import end_with_coordinator
        from ktrial.trial.unattended.carrier import Turn

        ctx.obj.turn = Turn(ctx.meta.get(_FENCE), fleet)
        end_with_coordinator(ctx.obj, fleet, ctx.meta.get(_FENCE) or 0)


def _fence(ctx: click.Context, _: click.Parameter, given: int | None) -> None:
    ctx.meta[_FENCE] = given


no_profile_option = click.option(
    "--no-profile", is_flag=True, help="Plan without a noise profile (how much runs differ here), and measure none."
)
unattended_option = click.option(
    "--unattended", is_flag=True, help="Let the machine carry out blocks (rounds) by itself, even if ktrial is killed."
)
turn_options = with_options(
    click.option(
        "--turn",
        is_flag=True,
        expose_value=False,
        callback=_one_turn,
        help="With --unattended: fetch finished blocks, send the next blocks to the machine, and end.",
    ),
    click.option(
        "--fence", type=click.IntRange(1, 1 << 36), hidden=True, expose_value=False, is_eager=True, callback=_fence
    ),
    click.option("--fleet", metavar="NAME", hidden=True, expose_value=False, callback=_of_fleet),
)
measured_options = with_options(
    click.option(
        "--suite",
        shell_complete=measurable_names,
        metavar="SUITE|BENCHMARK",
        help="Suite or benchmark to measure (or put a command after --).",
    ),
    metric_option,
    prepare_option,
    limit_option,
    clean_env_option,
    parameter_option,
    click.option(
        "--primary",
        metavar="OUTCOME",
        help="Outcome that decides the trial.  [the benchmark's main outcome, if it has one]",
    ),
)
#: Options for watching live work, besides its metrics and guards.
watched_options = with_options(
    click.option(
        "--covariate",
        "covariates",
        multiple=True,
        metavar="SPEC",
        help="Metric, such as the load, that explains noise; written like `ktrial live --metric`. Repeatable.",
    ),
    click.option("--adjust", is_flag=True, help="Judge the outcomes as if each --covariate were always the same."),
    click.option(
        "--limit-metric",
        "limits",
        multiple=True,
        metavar="METRIC=NUMBER",
        help="Metric that ends the trial as soon as one reading is worse than NUMBER. Repeatable.",
    ),
    click.option(
        "--for",
        "for_",
        metavar="TIME",
        help="Time for the whole trial, such as 2h or 2d; ktrial spreads the blocks (rounds) over this time. Without"
        " --budget and --period, ktrial plans as many blocks as --detect needs and TIME allows.",
    ),
    click.option(
        "--period",
        metavar="TIME",
        help="Time that a configuration stays in force before a switch.  [planned by a pilot]",
    ),
    click.option(
        "--washout",
        metavar="TIME",
        help="Time after each switch in which readings do not count.  [planned by a pilot; with --period, chosen per"
        " setting]",
    ),
    click.option("--poll", metavar="TIME", help="Time between two readings.  [chosen per source]"),
    click.option("--quiet", metavar="HH:MM-HH:MM", help="Hours of the day in which to switch nothing."),
    click.option(
        "--switches", type=click.IntRange(2), metavar="N", help="Maximum number of switches in 24 hours.  [no limit]"
    ),
    click.option("--rate", is_flag=True, help="Ask for a rating, 1 (bad) to 5 (good), at the end of each period."),
    click.option("--blind", is_flag=True, help="Until the verdict, hide which configuration is in force."),
    click.option(
        "--disturbing",
        is_flag=True,
        help="Also try settings whose switch disturbs the work, and say how much a switch disturbs.",
    ),
)
guest_options = with_options(
    click.option(
        "--mode",
        type=click.Choice(("exact", "emulated", "kvm")),
        help="How to run guests; exact makes time deterministic.  [exact]",
    ),
    click.option("--memory", metavar="SIZE", help="Memory of each guest.  [512MiB]"),
    click.option(
        "--cpus", type=click.IntRange(1, 64), metavar="N", help="Number of CPUs of each guest.  [2; 1 if exact]"
    ),
    click.option(
        "--workloads",
        type=click.IntRange(1, 100),
        metavar="N",
        help="Number of runs in each boot of a guest; each run has its own seed.  [1]",
    ),
)
build_options = with_options(
    click.option("--tree", metavar="TREE", help="Kernel sources from which to build the kernels of guests."),
    click.option("--config", metavar="BASE", help="With --tree: base configuration for all kernels.  [tinyconfig]"),
    click.option(
        "--common",
        multiple=True,
        metavar="NAME|FILE",
        help="With --tree: configuration fragment for all kernels. Repeatable.  [guest; none with --config]",
    ),
    click.option(
        "--cc",
        metavar="PROGRAM",
        help="With --tree: compiler for all kernels.  [gcc, or the one that a fragment needs]",
    ),
)
_DESIGN = (
    click.option(
        "--detect",
        default="5%",
        show_default=True,
        metavar="SHARE",
        help="Size of the effect to find; ktrial plans enough blocks for this size, up to --budget.",
    ),
    margin_option,
    budget_option,
    click.option("--settle", metavar="TIME", help="Time to wait after each change.  [chosen per setting]"),
    click.option("--time", "time_", metavar="TIME", help="Time limit of the trial.  [none]"),
    seed_option(),
    no_profile_option,
)
_START = (
    when_idle_option,
    click.option("--dry-run", is_flag=True, help="Print the protocol and check it here; measure nothing."),
    dangerous_option,
    json_option,
)
designed_options = with_options(*_DESIGN, anyway_option, *_START)
#: The same for a trial that cannot boot this machine.
designed_here_options = with_options(*_DESIGN, noise_anyway_option, *_START)
#: Options of a trial whose protocol is in a file.
file_options = with_options(
    no_profile_option,
    anyway_option,
    when_idle_option,
    unattended_option,
    turn_options,
    dangerous_option,
    boots_options,
    results_out_options,
)
#: Options of a trial that is resumed.
resume_options = with_options(
    unattended_option, turn_options, when_idle_option, dangerous_option, boots_options, results_out_options
)
#: The optional name of a trial, for commands that get the app and this name.
of_trial = with_options(
    click.pass_obj, click.argument("name", required=False, shell_complete=trial_names, metavar="[TRIAL]")
)
extend_options = with_options(when_idle_option, long_option, dangerous_option)


def guest_shape(options: Mapping[str, Any]) -> dict[str, Any]:
    names = ("mode", "memory", "cpus", "workloads")
    return {name: options[name] for name in names if options[name] is not None}


def recipe_of(options: Mapping[str, Any], *needing: str) -> KernelRecipe | None:
    """Return the recipe of `build_options`, or None without --tree. Options in `needing` also require --tree."""
    from ktrial.trial.guests.recipe import CONFIG, FRAGMENTS, KernelRecipe

    tree, config, common, cc = (options[name] for name in ("tree", "config", "common", "cc"))
    if tree is None:
        if given := next((name for name in ("config", "common", "cc", *needing) if options[name]), None):
            raise BadInput(f"--{_WORDS.get(given, given)} requires --tree", hint="add --tree with kernel sources")
        return None
    fragments = common or (FRAGMENTS if config is None else ())
    return KernelRecipe(tree=tree, config=config or CONFIG, fragments=fragments, cc=cc)


def boot_consent(options: Mapping[str, Any]) -> BootConsent:
    """Return the consent to boots that `boots_options` and --anyway give."""
    from ktrial.cli.shared.boots import BootConsent

    names = {"yes": "yes", "security": "yes_security", "kernel": "yes_kernel", "anyway": "anyway"}
    return BootConsent(**{field: options[name] for field, name in names.items()})


def refuse_shape(options: Mapping[str, Any]) -> None:
    if given := guest_shape(options):
        raise BadInput(f"--{next(iter(given))} requires --guest", hint="add --guest")


def guest_of(options: Mapping[str, Any], *needing: str) -> GuestFile | None:
    """Return the guests that --guest, --kernel or --tree request; None if the trial runs on this machine.

    Options in `needing` require --tree.
    """
    from ktrial.trial.protocol.file import GuestFile

    recipe = recipe_of(options, *needing)
    if recipe is not None and options["kernel"]:
        raise BadInput(
            "cannot combine --kernel with --tree, which builds the kernels", hint="leave out --kernel or --tree"
        )
    kernel = recipe or options["kernel"]
    if options["guest"] or kernel:
        return GuestFile(kernel=kernel or "running", **guest_shape(options))
    refuse_shape(options)
    return None


def protocol_file(
    name: str, suite: str | None, own: tuple[str, ...] | None, options: Mapping[str, Any], **more: Any
) -> TrialFile:
    """Return the protocol that these options describe; `more` holds fields that the command sets."""
    from ktrial.trial.protocol.from_words import pairs

    return template_file(
        name,
        own,
        options,
        {"budget": budget_of(options), "seed": options["seed"]},
        suite=suite,
        parameters=pairs(options["given"], "-p"),
        primary=options["primary"],
        **more,
    )


def template_file(
    name: str, own: tuple[str, ...] | None, options: Mapping[str, Any], design: Mapping[str, Any], **more: Any
) -> TrialFile:
    """Return a protocol with the fields that all trial commands set, such as the program and the effect to detect."""
    from ktrial.trial.protocol.file import DesignFile, TrialFile

    return TrialFile(
        name=name,
        **command_fields(own, options),
        detect=options["detect"],
        margin=options["margin"],
        design=DesignFile(settle=options["settle"], time=options["time_"], **design),
        **more,
    )


def command_fields(own: tuple[str, ...] | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a protocol that describe the user's own program."""
    import msgspec

    return {
        "command": own or (),
        "metrics": options["metrics"],
        "limit": options.get("limit"),
        "prepare": prepare_steps(options.get("prepare", ())) or msgspec.UNSET,
        "environment": named_variables(options.get("variables", ())) or msgspec.UNSET,
        "clean_environment": options["clean_env"] or None,
    }


def budget_of(options: Mapping[str, Any]) -> int | str:
    budget: str = options["budget"]
    return int(budget) if budget.isdecimal() else budget


def blocks_of(options: Mapping[str, Any]) -> int | None:
    """Return the number of blocks of --budget, which is a name or a number; None without --budget."""
    from ktrial.kit.errors import UnknownName
    from ktrial.trial.protocol.file import BUDGETS

    if options["budget"] is None:
        return None
    budget = budget_of(options)
    if isinstance(budget, int):
        return budget
    if budget not in BUDGETS:
        raise UnknownName("budget", budget, BUDGETS, hint=f"use {', '.join(BUDGETS)} or a number of blocks")
    return BUDGETS[budget]


def settings_of_files(app: App, words: Iterable[str]) -> tuple[str, ...]:
    """Return the words, with each profile file replaced by its settings.

    A trial that is resumed or repeated later must not depend on the file. Raise BadInput for a setting that depends on
    the machine, which only a profile in the user's folder may have.
    """
    from ktrial.tuning.knobs.profile import flatten
    from ktrial.tuning.knobs.value import show_value

    found: list[str] = []
    for word in words:
        catalog, (name,) = app.catalog_for([word])
        if name in app.catalog.profiles or name not in catalog.profiles:
            found.append(word)
            continue
        for setting in flatten(name, catalog.profiles):
            if setting.when is not None or isinstance(setting.value, dict):
                raise BadInput(
                    f"cannot try {word}: the value of {setting.knob} depends on the machine",
                    hint=f"copy the file to {config_folder() / 'profiles'}, then name the profile {name}",
                )
            found.append(f"{setting.knob}={show_value(setting.value)}")
    return tuple(found)

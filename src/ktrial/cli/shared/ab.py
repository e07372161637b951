# SPDX-License-Identifier: Apache-2.0
"""Turns the command line of `ktrial ab` into arms and a protocol, and its result into hyperfine's JSON."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktrial.cli.shared.bench import check_output, program_of
from ktrial.cli.shared.command_environment import named_variables
from ktrial.cli.shared.trial_options import budget_of
from ktrial.kit.errors import BadInput, in_lower_case, quoting_hint

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.trial.protocol.file import CampaignFile, TrialFile
    from ktrial.trial.protocol.from_commands import ComparedCommand
    from ktrial.trial.record import StoredTrial

#: Values of --shell that mean "no shell".
_NO_SHELL = frozenset(("", "none"))


def arms_of_line(lines: tuple[str, ...], options: Mapping[str, Any]) -> dict[str, ComparedCommand]:
    """Return the arms that the command line names. Raise BadInput for commands that cannot be compared."""
    from ktrial.trial.protocol.from_commands import CommandLines, arms_of_commands, parameter_lists

    given = CommandLines(
        lines,
        options["names"],
        options["setup"],
        options["prepare"],
        options["cleanup"],
        _shell_words(options["shell"], no_shell=options["no_shell"]),
    )
    return arms_of_commands(given, parameter_lists(options["parameters"]))


def _shell_words(shell: str | None, *, no_shell: bool) -> tuple[str, ...]:
    if shell is None or shell in _NO_SHELL:
        return ()
    if no_shell:
        raise BadInput(f"cannot combine -N (no shell) with --shell {shell}", hint="leave out -N or --shell")
    try:
        words = shlex.split("sh" if shell == "default" else shell)
    except ValueError as error:
        raise BadInput(
            f"--shell: cannot read {shell!r}: {in_lower_case(str(error))}",
            hint=quoting_hint(error),
        ) from None
    return (str(program_of(words[0])), *words[1:])


def protocol_of_commands(arms: Mapping[str, ComparedCommand], options: Mapping[str, Any]) -> TrialFile:
    """Return the protocol of a comparison, with the first command as the control.

    Raise BadInput for options that contradict each other.
    """
    import msgspec

    from ktrial.trial.protocol.campaign import alpha_of
    from ktrial.trial.protocol.file import COMPARED, DesignFile, TrialFile
    from ktrial.trial.protocol.read import check_trial_file

    campaign = _campaign(options["campaign"], options["of"])
    files = {name: one.arm for name, one in arms.items()}
    control = next(iter(files))
    alpha = DesignFile().alpha if campaign is None else alpha_of(campaign)
    file = TrialFile(
        name=options["name"] or (campaign.name if campaign is not None else "ab"),
        command=files[control].command or (),
        metrics=options["metrics"],
        limit=options["limit"],
        primary=options["primary"] or (None if options["metrics"] else f"{COMPARED}.wall"),
        secondary=options["secondary"],
        clean_environment=options["clean_env"] or None,
        environment=named_variables(options["variables"]) or msgspec.UNSET,
        warm_ups=options["warmup"] or msgspec.UNSET,
        ignore_failure=options["ignore_failure"] or msgspec.UNSET,
        campaign=campaign or msgspec.UNSET,
        detect=options["detect"],
        margin=options["margin"],
        control=control,
        arms=files,
        design=DesignFile(
            budget=budget_of(options),
            seed=options["seed"],
            settle=options["settle"],
            time=options["time_"],
            alpha=alpha,
        ),
    )
    check_trial_file(file)
    return file


def _campaign(name: str | None, of: int | None) -> CampaignFile | None:
    from ktrial.trial.protocol.file import CampaignFile

    if name is None and of is None:
        return None
    if name is None or of is None:
        given, missing = ("--of", "--campaign NAME") if name is None else ("--campaign", "--of N")
        raise BadInput(f"{given} requires {missing}", hint="ktrial ab --campaign NAME --of N 'OLD' 'NEW'")
    return CampaignFile(name=name, of=of)


def exporter(app: App, path: Path | None, arms: Mapping[str, ComparedCommand]) -> Callable[[StoredTrial], None] | None:
    """Return a function that writes the result to `path` as hyperfine's JSON; None without `path`.

    Raise BadInput, before any run, if `path` cannot be written.
    """
    if path is None:
        return None
    check_output(path, force=True, option="--export-json")

    def write(stored: StoredTrial) -> None:
        from ktrial.cli.shared.trial_outcome import load_comparison
        from ktrial.compare.files import write_file
        from ktrial.results.exporters.hyperfine import arms_document
        from ktrial.trial.outcome.commands_text import commands_of

        found = load_comparison(app, stored)
        parameters = {name: one.parameters for name, one in arms.items()}
        write_file(path, arms_document(found, commands_of(found), parameters))

    return write

# SPDX-License-Identifier: Apache-2.0
"""The steps of `ktrial search -i INVENTORY` that all machines of a fleet carry out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ktrial.cli.shared.fleet import (
    MachineChoice,
    ansible_of,
    begin_fleet,
    carry_to_end,
    private_folder,
    stored_fleets,
    units_of,
    with_time,
)
from ktrial.fleet.conduct import finished_logs
from ktrial.fleet.page import fleet_comparison
from ktrial.fleet.search_part import fleet_trial
from ktrial.fleet.text import announcement
from ktrial.fleet.verdict import fleet_result
from ktrial.judge.stats.machines import FEWEST_MACHINES
from ktrial.kit.errors import BadInput, Contradiction
from ktrial.kit.tables import columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktrial.cli.app import App
    from ktrial.fleet.log import FleetStanding
    from ktrial.judge.model.comparison import Comparison
    from ktrial.trial.protocol.file import TrialFile

#: Machines that ktrial reaches at once.
_FORKS = 8


def machines_of(app: App, options: Mapping[str, Any]) -> MachineChoice | None:
    """Return the machines of the fleet; None without an inventory. Raise an error if they cannot confirm a winner."""
    if not options["inventory"]:
        if options["machines"] is not None:
            raise BadInput("--machines requires -i", hint="add -i INVENTORY, the file that lists the machines")
        return None
    chosen = MachineChoice(options["inventory"], options["machines"], _FORKS)
    if options["also"]:
        raise Contradiction(
            "cannot combine -i with --also: machines of a fleet confirm one winner, not a list of compromises",
            hint="leave out -i or --also",
        )
    if options["guest"]:
        raise Contradiction(
            "cannot combine -i with --guest: a fleet measures on its machines, not in guests",
            hint="leave out -i or --guest",
        )
    if options["yes_dangerous"]:
        raise Contradiction(
            "cannot combine -i with --yes-dangerous: a fleet takes no dangerous settings",
            hint="leave out -i or --yes-dangerous",
        )
    with private_folder() as folder:
        hosts = ansible_of(app, chosen, folder).inventory().hosts
    if len(hosts) < FEWEST_MACHINES:
        raise BadInput(
            f"cannot confirm a winner on {len(hosts)} machine{'s'[: len(hosts) != 1]}: the verdict of a fleet needs "
            f"{FEWEST_MACHINES} or more",
            hint="name more machines, or leave out -i",
        )
    app.say(f"{len(hosts)} machines also measure the best proposals and confirm the best one")
    return chosen


def measure_everywhere(app: App, file: TrialFile, chosen: MachineChoice, *, as_json: bool) -> FleetStanding | None:
    """Run a trial on all machines, or resume an unfinished one; return None if interrupted."""
    trial, fleets = fleet_trial(file), stored_fleets(app)
    with private_folder() as folder:
        ansible = ansible_of(app, chosen, folder)
        known = (fleets.standing(name) for name in fleets.names() if name.startswith(f"{trial.name}-"))
        standing = next((one for one in known if one.began.trial.name == trial.name), None)
        if standing is None:
            began = with_time(app, begin_fleet(app, ansible, trial))
            app.say(announcement(began, width=columns(), forks=chosen.forks).rstrip("\n"))
            fleets.begin(began)
            standing = fleets.standing(began.fleet)
        is_over = standing.end is not None or carry_to_end(app, fleets, ansible, standing, folder, as_json=as_json)
    return standing if is_over else None


def comparison_of_fleet(app: App, fleet: str) -> Comparison:
    """Return the result of a fleet's trial as a comparison, for the report of a search."""
    standing = stored_fleets(app).standing(fleet)
    logs = finished_logs(standing, app.trials.log)
    return fleet_comparison(standing, fleet_result(standing, logs), logs, units_of(app, standing))

# SPDX-License-Identifier: Apache-2.0
"""Prepares a ladder for this machine, or for guests with a kernel for each tier."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from ktrial.bench.suites import find_suite
from ktrial.cli.shared.arm_kernels import workshop_of
from ktrial.cli.shared.bench import give_programs_of
from ktrial.cli.shared.guest_trials import scout, show_protocol, words_of
from ktrial.cli.shared.trial_options import guest_shape, recipe_of, refuse_shape
from ktrial.kernels.images.images import RUNNING
from ktrial.kit.errors import BadInput
from ktrial.kit.tables import columns
from ktrial.reports.ladder import tiers_text
from ktrial.studies.ladder.ladder import BuiltTiers, ladder_trial, tier_plans
from ktrial.trial.arms.boot_arms import with_boot_signs
from ktrial.trial.guests.guest_kernels import as_built, planned_kernels
from ktrial.trial.guests.prepare import plans_in_guests, refuse_before_building
from ktrial.trial.protocol.file import GuestFile
from ktrial.trial.protocol.from_words import pair, pairs
from ktrial.trial.protocol.read import check_trial_file

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.machine.ports import Machine
    from ktrial.studies.ladder.ladder import Ladder
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.tuning.catalog.model import Catalog
    from ktrial.tuning.plans.model import Plan


def kernels_of_tiers(options: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the kernels of --kernel by tier; None if no option requests boots of guests or of this machine."""
    if not (options["guest"] or options["tree"]):
        refuse_shape(options)
        if not (options["kernels"] or options["boots"]):
            return None
    if options["boots"] and (options["guest"] or options["tree"]):
        raise BadInput(
            "cannot combine --boots with guests", hint="leave out --boots: guests boot for each measurement anyway"
        )
    if options["kernels"] and options["tree"]:
        raise BadInput(
            "cannot combine --kernel with --tree, which builds the kernels", hint="leave out --kernel or --tree"
        )
    named = pairs(options["kernels"], "--kernel")
    if nameless := next((tier for tier, kernel in named.items() if not kernel), None):
        raise BadInput(f"--kernel {nameless}=: expected TIER=KERNEL", hint=f"for example  --kernel {nameless}=./build")
    return named


def built_tiers(options: Mapping[str, Any]) -> BuiltTiers | None:
    """Return the patches of the tiers' kernels; None if ktrial builds no kernels."""
    if recipe_of(options, "patches") is None:
        return None
    patches: dict[str, tuple[str, ...]] = {}
    for tier, patch in (pair(word, "--patch") for word in options["patches"]):
        patches[tier] = (*patches.get(tier, ()), patch)
    return BuiltTiers(patches, exact=(options["mode"] or "exact") == "exact")


def over_boots(
    template: TrialFile, ladder: Ladder, kernels: Mapping[str, str], options: Mapping[str, Any]
) -> tuple[TrialFile, Ladder]:
    """Return the template and the tiers for a ladder over boots of guests or of this machine."""
    if options["guest"] or options["tree"]:
        kernel = recipe_of(options) or kernels.get(ladder.control, RUNNING)
        template = msgspec.structs.replace(template, guest=GuestFile(kernel=kernel, **guest_shape(options)))
    elif ladder.control in kernels:
        # In guests one kernel serves all tiers that name none; on this machine it is the kernel of the lowest tier.
        lowest = kernels[ladder.control]
        arms = {
            name: arm if arm.kernel is not None else msgspec.structs.replace(arm, kernel=lowest)
            for name, arm in ladder.arms.items()
        }
        ladder = ladder._replace(arms=arms)
    check_trial_file(ladder_trial(ladder, template))
    return template, ladder


def trial_of(ladder: Ladder, template: TrialFile, *, boots: bool) -> TrialFile:
    """Return the trial of the tiers; with `boots`, every visit boots this machine, whatever the tiers contain."""
    file = ladder_trial(ladder, template)
    if boots and file.guest is None:
        file = with_boot_signs(file, {})
    check_trial_file(file)
    return file


def with_own_kernels(app: App, ladder: Ladder, template: TrialFile) -> Ladder:
    """Make a tier use the kernel of the tier below if its own kernel would be identical.

    Build nothing. Raise an error if a kernel cannot be built, or if there are too few blocks for the tiers that always
    run.
    """
    from ktrial.studies.ladder.ladder import ladder_trial, surely_run, with_own_kernels

    plans = planned_kernels(ladder_trial(ladder, template), workshop_of(app))
    ladder = with_own_kernels(ladder, {name: plan.key for name, plan in plans.items()})
    if template.suite is not None:
        suite = find_suite(template.suite, app.suites, app.benchmarks)
        refuse_before_building(ladder_trial(surely_run(ladder), template), suite, app.benchmarks)
    return ladder


def show_built(app: App, ladder: Ladder, template: TrialFile) -> int:
    """Print the protocol, the kernels that exist already, and the tiers that will not run."""
    sys.stderr.write(tiers_text(ladder.not_run, {}, width=columns()))
    show_protocol(app, ladder_trial(ladder, template))
    return 0


def planned(
    app: App, ladder: Ladder, template: TrialFile, catalog: Catalog, *, allow_dangerous: bool
) -> dict[str, Plan]:
    """Return the plan of each tier, made on this machine or in a guest with the tier's kernel."""

    def plan(machine: Machine, names: Collection[str]) -> dict[str, Plan]:
        some = ladder._replace(arms={name: ladder.arms[name] for name in names})
        return tier_plans(some, machine, catalog, allow_dangerous=allow_dangerous)

    if template.guest is None:
        give_programs_of(app, template.suite)
        return plan(app.best_session("planning the tiers"), ladder.arms)

    file = ladder_trial(ladder, template)
    words = words_of(app, file)
    lab = app.kernels.lab
    plans = plans_in_guests(file, partial(scout, app), words, plan, lab.swap_programs(words[file.control]))
    return {name: as_built(one, lab.identify(words[name]).symbols) for name, one in plans.items()}

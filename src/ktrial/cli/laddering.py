# SPDX-License-Identifier: Apache-2.0
"""A ladder where it is to be tried: on this machine, or in guests, each tier on its kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ktrial.domain.errors import BadInput

if TYPE_CHECKING:
    from ktrial.catalog.model import Catalog
    from ktrial.cli.wiring import App
    from ktrial.domain.plan import Plan
    from ktrial.domain.trial_file import TrialFile
    from ktrial.services.ladder import Ladder
    from ktrial.services.ports import Machine


def kernels_of_tiers(options: Mapping[str, Any]) -> dict[str, str] | None:
    """What `--kernel` says; None where nothing asks for guests."""
    from ktrial.cli.trial_options import refuse_shape
    from ktrial.services.trial_words import pair

    if not (options["guest"] or options["kernels"]):
        refuse_shape(options)
        return None
    named = dict(pair(word, "--kernel") for word in options["kernels"])
    if nameless := next((tier for tier, kernel in named.items() if not kernel), None):
        raise BadInput(f"--kernel {nameless}= names no kernel", hint=f"for example  --kernel {nameless}=./build")
    return named


def in_guests(template: TrialFile, ladder: Ladder, kernels: Mapping[str, str], options: Mapping[str, Any]) -> TrialFile:
    """The same where every visit is a boot."""
    from ktrial.cli.trial_options import guest_shape
    from ktrial.domain.trial_file import GuestFile

    guest = GuestFile(kernel=kernels.get(ladder.control, "running"), **guest_shape(options))
    return msgspec.structs.replace(template, guest=guest)


def planned(
    app: App, ladder: Ladder, template: TrialFile, catalog: Catalog, *, allow_dangerous: bool
) -> dict[str, Plan]:
    """What each tier changes, asked of this machine or of a guest with its kernel."""
    from functools import partial

    from ktrial.services.guest_trial import plans_in_guests
    from ktrial.services.ladder import ladder_trial, tier_plans

    def plan(machine: Machine, names: Collection[str]) -> dict[str, Plan]:
        some = ladder._replace(arms={name: ladder.arms[name] for name in names})
        return tier_plans(some, machine, catalog, allow_dangerous=allow_dangerous)

    if template.guest is None:
        return plan(app.best_session("planning the tiers"), ladder.arms)
    from ktrial.cli.guest_trialing import scout, words_of

    file = ladder_trial(ladder, template)
    return plans_in_guests(file, partial(scout, app), words_of(app, file), plan)

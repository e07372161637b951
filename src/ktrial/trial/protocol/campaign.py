# SPDX-License-Identifier: Apache-2.0
"""Campaigns: many decisions to keep or revert, one after the other, that share one error rate.

Each decision is a trial of two arms. A campaign of N decisions judges each at an error rate of 0.05/N. All false keeps
together are therefore as rare as in a single trial, although each decision depends on earlier decisions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

from ktrial.judge.stats.critical import LOOKS, ROWS, indices
from ktrial.kit.errors import BadInput, Contradiction, Refused
from ktrial.trial.protocol.file import CampaignFile, DesignFile, TrialFile

if TYPE_CHECKING:
    from ktrial.judge.model.comparison import Comparison
    from ktrial.trial.record import StoredTrial

MOST_DECISIONS = ROWS[-1]
_ALPHA = DesignFile().alpha


class CampaignDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Decision `number` of a campaign that has `of` decisions."""

    campaign: str
    number: int
    of: int
    decision: Literal["keep", "revert"]


def alpha_of(campaign: CampaignFile) -> float:
    """Return the error rate of each decision of a campaign."""
    return _ALPHA / campaign.of


def fewest_blocks(campaign: CampaignFile) -> int:
    """Return the smallest number of blocks that can decide at the error rate of this campaign."""
    return next(cap for cap in LOOKS if _looks_of(cap, campaign))


def first_look(campaign: CampaignFile, most: int) -> int:
    """Return the first block after which a trial of at most `most` blocks may decide."""
    cap = max(cap for cap in LOOKS if cap <= max(most, fewest_blocks(campaign)))
    return _looks_of(cap, campaign)[0]


def _looks_of(cap: int, campaign: CampaignFile) -> list[int]:
    return [look for look, index in zip(LOOKS, indices(cap, campaign.of), strict=False) if index is not None]


def check_campaign(trial: TrialFile) -> None:
    """Raise BadInput for an impossible campaign, or for a trial that cannot be part of a campaign."""
    campaign = trial.campaign
    if not campaign:
        return
    if not 1 <= campaign.of <= MOST_DECISIONS:
        raise BadInput(
            f"campaign {campaign.name}: expected 1 to {MOST_DECISIONS} decisions, got {campaign.of}",
            hint="count the decisions that the campaign will make, for example 32",
        )
    if len(trial.arms) != 2:
        raise BadInput(
            f"campaign {campaign.name}: expected two arms, got {len(trial.arms)}",
            hint="compare the version that you have with one candidate",
        )
    if trial.design.extend:
        raise BadInput(f"campaign {campaign.name}: its trials cannot have  extend = true", hint="remove `extend`")
    if trial.guest is not None or any(arm.manual or arm.kernel or arm.boot for arm in trial.arms.values()):
        raise BadInput(
            f"campaign {campaign.name}: its arms cannot be guests, boots or manual arms",
            hint="remove the campaign, or compare commands, settings or builds",
        )
    if trial.design.alpha > alpha_of(campaign) * (1 + 1e-9):
        raise Contradiction(
            f"campaign {campaign.name}: alpha = {trial.design.alpha:g} is too large for one of {campaign.of} decisions",
            hint=f"use  alpha = {alpha_of(campaign):.6g}",
        )
    fewest = fewest_blocks(campaign)
    for what, blocks in (("budget", trial.budget), ("cap", trial.design.cap)):
        if blocks is not None and blocks < fewest:
            raise BadInput(
                f"campaign {campaign.name}: {what} = {blocks} blocks cannot decide; one of {campaign.of} decisions "
                f"needs at least {fewest}",
                hint=f"use {'cap =' if what == 'cap' else '--budget'} {fewest} or more, or fewer decisions (--of)",
            )


def decisions_of(campaign: CampaignFile, trials: Iterable[StoredTrial]) -> tuple[StoredTrial, ...]:
    """Return the trials of a campaign, the oldest first, from all `trials`, which come newest first."""
    found = [one for one in trials if one.file.campaign and one.file.campaign.name == campaign.name]
    return tuple(reversed(found))


def refuse_beyond(campaign: CampaignFile, trials: Iterable[StoredTrial]) -> int:
    """Return the number of the next decision.

    Raise Refused if no decision is left, BadInput if earlier trials have another `of`.
    """
    earlier = decisions_of(campaign, trials)
    before = next((one.file.campaign.of for one in earlier if one.file.campaign), campaign.of)
    if before != campaign.of:
        raise BadInput(
            f"campaign {campaign.name} began with --of {before}, not {campaign.of}",
            hint=f"use --of {before}, or another name for a new campaign",
        )
    if len(earlier) >= campaign.of:
        raise Refused(
            f"campaign {campaign.name} has made all its {campaign.of} decisions",
            hint="stop here, or begin a campaign with another name (the error rates add up)",
        )
    return len(earlier) + 1


def decision_of(trial: StoredTrial, found: Comparison, trials: Iterable[StoredTrial]) -> CampaignDecision | None:
    """Return the campaign's decision on this trial; None if the trial belongs to no campaign."""
    campaign = trial.file.campaign
    if not campaign:
        return None
    verdicts = [one.verdict for outcome in found.outcomes if outcome.role == "primary" for one in outcome.contrasts]
    names = [one.trial for one in decisions_of(campaign, trials)]
    return CampaignDecision(
        campaign=campaign.name,
        number=names.index(trial.trial) + 1,
        of=campaign.of,
        decision="keep" if verdicts == ["better"] else "revert",
    )

# SPDX-License-Identifier: Apache-2.0
"""The results of a demo, and what single before/after measurements would have shown with the same runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ktrial.judge.model.judgement import Judgement
from ktrial.judge.model.log import Event
from ktrial.studies.demo.model import COPIUM, EXPECTED, PLACEBO, DemoArmFound, DemoFound, SinglePairs


def found_in(log: Sequence[Event], judgement: Judgement) -> DemoFound:
    from ktrial.judge.collect_log import collect, pairs_of, visit_scores

    trial = collect(log)
    protocol = trial.protocol
    scores = visit_scores(trial, protocol.primary)
    margin = protocol.outcomes[protocol.primary].margin
    differences = [
        float(one) for arm in (PLACEBO, COPIUM) for one in pairs_of(scores, arm, protocol.control).differences
    ]
    judged = {one.arm: one for one in judgement.judged if one.role == "primary"}
    return DemoFound(
        arms=tuple(
            DemoArmFound(
                arm=arm,
                verdict=judged[arm].verdict,
                effect=judged[arm].effect,
                blocks=judged[arm].blocks,
                as_expected=None if judged[arm].verdict is None else judged[arm].verdict in expected,
            )
            for arm, expected in EXPECTED.items()
        ),
        single=SinglePairs(
            pairs=len(differences),
            apart=sum(abs(one) > math.log1p(margin) for one in differences),
            largest=max(differences, key=abs, default=0.0),
        ),
        margin=margin,
        blocks=judgement.blocks,
        ended=trial.ended is not None,
        refused="; ".join(one.sentence for one in judgement.findings if one.level == "refuse") or None,
    )

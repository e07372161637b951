# SPDX-License-Identifier: Apache-2.0
"""What taking the culprits away did, outcome by outcome."""

from __future__ import annotations

from ktrial.judge.model.judgement import Judged, Judgement
from ktrial.studies.blame.model import Fate, Recovery


def recoveries_of(judgement: Judgement) -> tuple[Recovery, ...]:
    """Each outcome of the trial that confirms, with the arms `all` and `without`; explored ones are left out."""
    by = {(one.outcome, one.arm, one.against): one for one in judgement.judged}
    found = []
    for outcome in dict.fromkeys(one.outcome for one in judgement.judged if one.role != "exploratory"):
        whole = by[outcome, "all", "control"]
        rest = by.get((outcome, "without", "control"))
        step = by.get((outcome, "without", "all"))
        fate: Fate = "recovered" if rest is None and whole.verdict == "worse" else "unclear"
        if rest is not None and step is not None:
            fate = fate_of(whole, rest, step)
        elif rest is None and whole.verdict == "better":
            fate = "lost"
        found.append(Recovery(outcome=outcome, fate=fate, all=whole.effect, without=rest.effect if rest else None))
    return tuple(found)


def fate_of(whole: Judged, rest: Judged, step: Judged) -> Fate:
    """`whole` and `rest` are to the control, with and without the culprits; `step` is the second to the first."""
    if whole.verdict == "worse":
        if step.verdict == "better":
            return "recovered in part" if rest.verdict == "worse" else "recovered"
        return "not recovered" if step.verdict in {"equivalent", "worse"} else "unclear"
    if whole.verdict == "better":
        if step.verdict == "worse":
            return "lost"
        is_there = step.verdict in {"equivalent", "better"} or rest.verdict == "better"
        return "retained" if is_there else "unclear"
    return "unchanged" if whole.verdict == "equivalent" and rest.verdict == "equivalent" else "unclear"

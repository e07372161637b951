# SPDX-License-Identifier: Apache-2.0
"""Which schedulers are compared, and which one is proposed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from ktrial.judge.model.comparison import Comparison, Contrast
from ktrial.judge.model.verdict import Verdict
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.studies.schedulers import (
    InstalledScheduler,
    of_loader,
    programs_among,
    scheduler_arms,
    select_schedulers,
)
from ktrial.studies.schedulers_text import advice_of, schedulers_text
from ktrial.trial.protocol.file import TrialFile
from ktrial.trial.protocol.read import check_trial_file
from perf.schedulers import EFFECTS, LIMIT, recorded_blocks, regret_of_planted, regret_of_recorded
from tests.support.comparisons import four_arms
from tests.support.told_trials import a_trial

LAVD = InstalledScheduler(name="scx_lavd", program="/usr/bin/scx_lavd")


def test_programs_are_schedulers_by_their_names() -> None:
    paths = ("/usr/bin/scx_lavd", "/usr/bin/scx_loader", "/usr/bin/scx_x.sh", "/usr/local/bin/scx_lavd", "/bin/scx_b")
    assert programs_among(paths) == (InstalledScheduler(name="scx_b", program="/bin/scx_b"), LAVD)


def test_arms_are_the_kernels_own_scheduler_and_each_mode_of_the_others() -> None:
    found = (LAVD, *of_loader(["scx_rusty", "other"], ("auto", "gaming")))
    arms = scheduler_arms("EEVDF", found)
    assert list(arms) == ["EEVDF", "lavd", "rusty-auto", "rusty-gaming"]
    assert arms["EEVDF"].changes_nothing
    gaming = arms["rusty-gaming"].sched_ext
    assert gaming is not None
    assert (gaming.name, gaming.text) == ("rusty", "scx_rusty, mode gaming of scx_loader")
    file = TrialFile(name="s", suite="quick", control="EEVDF", arms=arms)
    check_trial_file(file)
    assert file.compares_schedulers
    assert not msgspec.structs.replace(file, arms={"EEVDF": arms["EEVDF"]}).compares_schedulers


def test_the_options_of_a_mode_are_not_given() -> None:
    arms = {"EEVDF": {}, "lavd": {"sched_ext": {"run": ["scx_lavd", "-v"], "mode": "auto"}}}
    file = msgspec.convert({"name": "s", "suite": "quick", "control": "EEVDF", "arms": arms}, TrialFile)
    with pytest.raises(BadInput, match="scx_loader chooses the options of a mode"):
        check_trial_file(file)


def test_schedulers_are_chosen_by_name() -> None:
    rusty = InstalledScheduler(name="scx_rusty", program="/usr/bin/scx_rusty")
    assert select_schedulers((LAVD, rusty), ("scx_rusty",)) == select_schedulers((LAVD, rusty), ("rusty",)) == (rusty,)
    assert select_schedulers((LAVD, rusty), ()) == (LAVD, rusty)
    with pytest.raises(UnknownName, match="lavt"):
        select_schedulers((LAVD, rusty), ("lavt",))
    with pytest.raises(BadInput, match="no sched_ext scheduler is installed here"):
        select_schedulers((), ("lavd",))


def judged(verdicts: Mapping[str, Mapping[str, Verdict]]) -> Comparison:
    """A trial of schedulers with these verdicts by outcome and arm; an arm's effect grows with its place."""
    whole = msgspec.structs.replace(four_arms(), trial=a_trial().told().trial)
    arms = list(next(iter(verdicts.values())))
    names = [one.arm for one in whole.outcomes[0].contrasts][: len(arms)]
    outcomes = []
    for role, (name, told) in zip(("primary", "secondary"), verdicts.items(), strict=False):
        old = whole.outcomes[0]
        contrasts: list[Contrast] = []
        for place, (arm, verdict) in enumerate(told.items(), start=1):
            one = old.contrasts[names.index(names[place - 1])]
            assert one.effect is not None
            effect = msgspec.structs.replace(one.effect, estimate=place / 100)
            changed = {"arm": arm, "control": "EEVDF", "verdict": verdict, "effect": effect, "findings": ()}
            contrasts.append(msgspec.structs.replace(one, **changed))
        outcomes.append(msgspec.structs.replace(old, outcome=name, role=role, contrasts=tuple(contrasts)))
    sources = [msgspec.structs.replace(whole.arms[0], arm=arm) for arm in ("EEVDF", *arms)]
    started: dict[str, dict[str, Any]] = {arm: {"run": [f"/usr/bin/scx_{arm}"]} for arm in arms}
    started["lavd"] |= {"mode": "gaming"}
    protocol = {"arms": {arm: {"sched_ext": one} for arm, one in started.items()}}
    return msgspec.structs.replace(
        whole, control="EEVDF", arms=tuple(sources), outcomes=tuple(outcomes), protocol=protocol
    )


@pytest.mark.parametrize(
    "verdicts, line",
    [
        (
            {"late": {"rusty": "better", "lavd": "better"}, "work": {"rusty": "equivalent", "lavd": "inconclusive"}},
            "use scx_lavd with mode gaming: late ",
        ),
        (
            {"late": {"rusty": "better", "lavd": "better"}, "work": {"rusty": "equivalent", "lavd": "worse"}},
            "use scx_rusty: late ",
        ),
        (
            {"late": {"rusty": "inconclusive", "lavd": "better"}, "work": {"rusty": "better", "lavd": "worse"}},
            "stay with EEVDF: lavd is better in late, but worse in work",
        ),
        (
            {"late": {"rusty": "equivalent", "lavd": "worse"}},
            "stay with EEVDF: no scheduler is shown to be better in late",
        ),
    ],
)
def test_one_line_says_which_scheduler_to_use(verdicts: Mapping[str, Mapping[str, Verdict]], line: str) -> None:
    assert advice_of(judged(verdicts)).line.startswith(line)


def test_the_table_has_a_verdict_for_each_outcome_and_the_reason_of_failed_runs() -> None:
    found = judged({"late": {"rusty": "inconclusive", "lavd": "worse"}, "work": {"rusty": "better", "lavd": "worse"}})
    text = schedulers_text(found, {"lavd": ["first", "the arm was lost"]}, width=100)
    lines = [line.split()[:3] for line in text.splitlines()]
    assert ["rusty", "late", "undecided"] in lines
    assert ["work", "better"] in [line[:2] for line in lines]
    assert "lavd: 2 failed runs" in text
    assert "the last: the arm was lost" in text


@pytest.mark.parametrize("what, best", [("nothing to gain", "control"), ("much to gain", "a")])
def test_a_wrong_choice_costs_little_against_the_best_in_hindsight(what: str, best: str) -> None:
    found = regret_of_planted(EFFECTS[what], 0.03, 6)
    assert found.best == best
    assert found.mean <= LIMIT


def test_of_the_recorded_schedulers_the_best_one_is_chosen() -> None:
    for workload, blocks in recorded_blocks().items():
        found = regret_of_recorded(blocks, 6)
        assert (found.best, found.mean <= LIMIT) == ("ktrial_fifo", True), workload

# SPDX-License-Identifier: Apache-2.0
"""Before a measurement of more than half an hour, somebody at a terminal is asked, once."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from ktrial.cli.shared import long_runs
from ktrial.cli.shared.long_runs import TimedTrial, refuse_idle
from ktrial.kit.errors import BadInput, Interrupted
from ktrial.trial.protocol.file import ArmFile, DesignFile, GuestFile, TrialFile
from ktrial.trial.run.events import NoiseBegan, VisitBegan
from tests.support.trials import protocol


class Asking:
    """A terminal: the questions that were asked, and the answer to all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, says_yes: bool = True) -> None:
        self.questions: list[str] = []
        self.said: list[str] = []
        self.told: list[Any] = []
        self._says_yes = says_yes
        self.app: Any = SimpleNamespace(agreed=False, when_idle=False, say=self.said.append)
        monkeypatch.setattr(long_runs, "is_terminal", lambda: True)
        monkeypatch.setattr(long_runs, "must_agree", self._ask)

    def _ask(self, question: str, declined: str) -> None:
        self.questions.append(question)
        if not self._says_yes:
            raise Interrupted(declined)

    def __call__(self, event: Any) -> None:
        self.told.append(event)

    def scroll_on(self) -> None: ...

    def timed(self, *, ask: bool = True, most_visits: int | None = None, most_s: float = math.inf) -> TimedTrial:
        progress: Any = self
        return TimedTrial(self.app, progress, ask=ask, most_visits=most_visits, most_s=most_s)


def visit(left_s: float | None, visit_s: float | None, block: int | None = 1) -> VisitBegan:
    return VisitBegan(block=block, visit=1, visits=2, left_s=left_s, visit_s=visit_s)


def test_a_long_trial_whose_time_is_known_is_asked_about_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = Asking(monkeypatch)
    timed = asking.timed()
    timed.expect(protocol(cap=20), 7200.0)
    timed(visit(7200.0, 180.0))
    assert asking.questions == ["This may take 2 h 0 min. Continue?"]
    assert len(asking.told) == 1


def test_the_first_run_tells_what_nobody_knew(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = Asking(monkeypatch, says_yes=False)
    timed = asking.timed()
    timed.expect(protocol(cap=20), None)
    timed(visit(None, None, block=None))
    assert asking.questions == []
    with pytest.raises(Interrupted, match="continue with `ktrial trial resume`"):
        timed(visit(3600.0, 90.0))
    with pytest.raises(Interrupted, match="run the same command again to continue"):
        asking.timed(most_visits=100)(visit(3600.0, 90.0))


def test_a_noise_profile_counts_with_the_trial_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = Asking(monkeypatch)
    # 20 visits of a minute, and then 80: an hour and 40 minutes.
    asking.timed()(NoiseBegan(blocks=10, expected_s=1200.0, trial_visits=80))
    assert asking.questions == ["This may take 1 h 40 min. Continue?"]
    unknown = asking.timed()
    unknown(NoiseBegan(blocks=10, trial_visits=80))
    unknown(visit(1200.0, 60.0, block=None))
    assert asking.questions[1:] == ["This may take 1 h 40 min. Continue?"]


def test_several_trials_are_asked_about_together(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = Asking(monkeypatch)
    timed = asking.timed(most_visits=100)
    timed.expect(protocol(cap=20), 1200.0)  # 40 visits of 30 s
    assert asking.said == ["all trials together take up to about 50 min 0 s"]
    assert asking.questions == ["This may take 50 min 0 s. Continue?"]
    asking.timed(most_visits=100, most_s=2400.0).expect(protocol(cap=20), 1200.0)  # a search ends with its budget
    assert asking.questions[1:] == ["This may take 40 min 0 s. Continue?"]


@pytest.mark.parametrize("case", ["short", "agreed", "json"])
def test_nobody_is_asked_without_need(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    asking = Asking(monkeypatch)
    asking.app.agreed = case == "agreed"
    asking.timed(ask=case != "json").expect(protocol(cap=20), 1700.0 if case == "short" else 7200.0)
    assert asking.questions == []


@pytest.mark.parametrize(
    "file, why",
    [
        (TrialFile(name="t", arms={}, guest=GuestFile()), "trials in guests"),
        (TrialFile(name="t", arms={"a": ArmFile(boot=("quiet",))}), "arms that boot this machine"),
        (
            TrialFile(name="t", arms={"a": ArmFile(boot=("quiet",))}, design=DesignFile(replicate="boot")),
            "arms that boot this machine",
        ),
    ],
)
def test_runs_that_cannot_wait_for_an_idle_machine(file: TrialFile, why: str) -> None:
    app: Any = SimpleNamespace(when_idle=True)
    with pytest.raises(BadInput, match=f"--when-idle with {why}") as caught:
        refuse_idle(app, file)
    assert caught.value.hint == "leave out --when-idle"
    app.when_idle = False
    refuse_idle(app, file)

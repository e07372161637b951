# SPDX-License-Identifier: Apache-2.0
"""Reports how long a measurement takes, and asks before one that takes longer than half an hour."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ktrial.bench.text import duration
from ktrial.cli.options import is_terminal
from ktrial.cli.shared.live_plan import longest_seconds
from ktrial.kit.errors import BadInput
from ktrial.trial.arms.boot_arms import boots_this_machine
from ktrial.trial.arms.manual import is_by_hand
from ktrial.trial.protocol.forecast import expected_run_seconds, trial_seconds
from ktrial.trial.run.events import NoiseBegan, VisitBegan
from ktrial.trial.run.prepare import control_tasks
from ktrial.tuning.plans.confirm import must_agree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set
    from typing import Any

    from ktrial.cli.app import App
    from ktrial.judge.model.log import Protocol
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.trial.run.events import TrialEvent
    from ktrial.trial.run.prepare import Prepared
    from ktrial.trial.run.progress import TrialProgress

LONG_S = 1800.0
#: Number of newest sessions whose runs are read to estimate how long a run takes.
_NEWEST_SESSIONS = 30


class LongRunQuestion:
    """Asks once before a measurement of more than half an hour, if somebody is at the terminal to answer.

    Calls `before` first, to make room for the question on the terminal.
    """

    def __init__(self, app: App, *, ask: bool, before: Callable[[], None] = lambda: None) -> None:
        self._open = ask and not app.agreed and is_terminal()
        self._before = before

    def expect(self, seconds: float | None, declined: str = "aborted; nothing was measured") -> None:
        """Ask if the first estimate is above half an hour. Raise Interrupted with `declined` if the answer is no."""
        if seconds is None or not self._open:
            return
        self._open = False
        if seconds > LONG_S:
            self._before()
            must_agree(f"This may take {duration(seconds)}. Continue?", declined)


class TimedTrial:
    """Passes the events of a trial to its progress, and asks as soon as it is clear that the trial takes long.

    If several trials answer a question, `most_visits` and `most_s` limit the visits and seconds of all trials together.
    """

    def __init__(
        self,
        app: App,
        progress: TrialProgress,
        *,
        ask: bool,
        most_visits: int | None = None,
        most_s: float = math.inf,
    ) -> None:
        self.progress = progress
        self._app = app
        self._question = LongRunQuestion(app, ask=ask, before=progress.scroll_on)
        self._most_visits, self._most_s = most_visits, most_s
        self._is_of_several = most_visits is not None
        self._then_visits = 0

    def __call__(self, event: TrialEvent) -> None:
        self.progress(event)
        if isinstance(event, NoiseBegan):
            self._then_visits = event.trial_visits
            if event.expected_s is not None:
                visit_s = event.expected_s / (2 * (event.blocks - event.done))
                self._question.expect(self._whole_s(event.expected_s, visit_s))
        elif isinstance(event, VisitBegan) and event.left_s is not None and event.visit_s is not None:
            whole_s = self._whole_s(event.left_s, event.visit_s)
            is_single = event.block is not None and not self._is_of_several
            how = "continue with `ktrial trial resume`" if is_single else "run the same command again to continue"
            self._question.expect(whole_s, f"aborted; {how}")

    def expect(self, protocol: Protocol, cap_s: float | None) -> None:
        """Ask before the trial begins if it is known to take long; also report the total time of several trials."""
        self._then_visits = 0
        if cap_s is None:
            return
        visits = len(protocol.arms) * (protocol.cap or protocol.budget)
        whole_s = self._whole_s(cap_s, cap_s / visits)
        if self._most_visits is not None:
            self._app.say(f"all trials together take up to about {duration(whole_s)}")
            self._most_visits = None
        self._question.expect(whole_s)

    def _whole_s(self, left_s: float, visit_s: float) -> float:
        if self._most_visits is not None:
            return min(self._most_visits * visit_s, self._most_s)
        return left_s + self._then_visits * visit_s


def run_seconds(app: App, ready: Prepared) -> float | None:
    """Return how long a run takes, from each benchmark's newest run or its own estimate; None if unknown."""
    tasks = control_tasks(ready)
    earlier = newest_runs(app, {task.label for task in tasks})
    return expected_run_seconds(earlier, tasks, ready.file.command, ready.facts)


def newest_runs(app: App, benchmarks: Set[str]) -> list[Mapping[str, Any]]:
    """Return the records of the newest good runs of these benchmarks, the newest first."""
    found: list[Mapping[str, Any]] = []
    for session in [one for one in app.store.sessions() if one.origin == "bench"][:_NEWEST_SESSIONS]:
        good = [run for run in app.store.runs(session.session) if run.state == "ok" and run.benchmark in benchmarks]
        found += [run.document for run in reversed(good) if run.document is not None]
    return found


def left_seconds(app: App, ready: Prepared, protocol: Protocol, blocks: int) -> float | None:
    """Return how much longer a trial with `blocks` complete blocks takes until its cap.

    Return None if unknown, as in guests, whose boots take time too.
    """
    if protocol.cap is None or ready.file.guest is not None:
        return None
    left = max(0, protocol.cap - blocks)
    if ready.file.live:
        return longest_seconds(ready.file, left)
    return trial_seconds(protocol, run_seconds(app, ready), ready.settle_s, left)


def refuse_idle(app: App, file: TrialFile) -> None:
    """Raise BadInput for --when-idle with a trial whose runs cannot wait for this machine."""
    cases = {
        "trials in guests": file.guest is not None,
        "arms that boot this machine": boots_this_machine(file),
        "arms that a person sets up": file.guest is None and is_by_hand(file),
        "trials on live work": bool(file.live),
    }
    culprit = next((case for case, holds in cases.items() if holds), None)
    if app.when_idle and culprit is not None:
        is_by_person = culprit == "arms that a person sets up"
        hint = "use --when-idle with `ktrial trial next`" if is_by_person else "leave out --when-idle"
        raise BadInput(f"cannot combine --when-idle with {culprit}", hint=hint)

# SPDX-License-Identifier: Apache-2.0
"""A search with a fleet: points are raced on one machine, and the best of them earn all machines of the fleet.

All machines measure three points once more, because a setting that wins on one machine may lose on others. They also
confirm the winner.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

import numpy as np

from ktrial.judge.model.log import Race
from ktrial.judge.stats.critical import LOOKS
from ktrial.studies.search.course import NO_LOSS, SearchCourse
from ktrial.studies.search.model import Reply, Request, SearchPart, SearchStep, StepKind

#: Points that all machines measure before the confirmation, the blocks of each machine, and the budget's largest share.
PROMOTED, PROMOTION_BLOCKS, _PROMOTION_SHARE = 3, LOOKS[0], 0.25


class FleetCourse(SearchCourse):
    """Walks through the steps of a search whose best points are measured on all machines of a fleet.

    A search for fewer events stays on one machine, because the effect on a counter cannot be pooled over machines.
    """

    def _step(
        self, kind: StepKind, names: Mapping[str, int], *, cap: int, race: Race | None = None, base: int = 0
    ) -> SearchStep:
        step = super()._step(kind, names, cap=cap, race=race, base=base)
        return step._replace(is_everywhere=kind in {"confirm", "fewest"} and not self._is_count())

    def _final_visits(self) -> int:
        return super()._final_visits() + self._promotion_visits()

    def _promotion_visits(self) -> int:
        """Return the visits of one machine for the best points; 0 if that is too large a share of the budget."""
        needed = (1 + PROMOTED) * PROMOTION_BLOCKS
        fits = needed * (self.visit_s or 0.0) <= _PROMOTION_SHARE * self.question.budget_s
        return needed if fits and not self._is_count() else 0

    def _finals(self) -> Generator[Request, Reply, None]:
        """Race the best points on one machine, then measure a few on all machines, and choose among these."""
        yield from super()._finals()
        needed = self._promotion_visits()
        if not self.known.incumbent or not 0 < needed <= self.visits_left - 2 * self._fewest_blocks():
            return
        names = {f"p{number}": number for number in (yield from self._promoted())}
        step = self._step("race", names, cap=PROMOTION_BLOCKS, race=Race(keep=1.0))._replace(is_everywhere=True)
        part = yield from self._run_step(step)
        self.known.learn(part, names)
        self.known.incumbent = self._best_everywhere(part, names)

    def _promoted(self) -> Generator[Request, Reply, list[int]]:
        """Return the best point, the best point without its strongest setting, and the second best point.

        If other machines do not like that setting, the point without it can still win.
        """
        known = self.known
        chosen = [known.incumbent]
        without = list(known.without(known.entries[known.incumbent].point).values())
        if len(without) > 1 and known.model is not None:
            weakest = without[int(np.argmin(known.model.effects(without)[0]))]
            found = known.find(weakest)
            if found is None:
                chosen += yield from self._probe_points([weakest])
            elif known.entries[found].is_usable:
                chosen.append(found)
        ranked = [at for at in known.ranked() if at not in chosen]
        chosen += ranked[: PROMOTED - len(chosen)]
        return chosen

    def _best_everywhere(self, part: SearchPart, names: Mapping[str, int]) -> int:
        """Return the point with the best effect over machines or, if it is close to the best, one with fewer settings.

        Return 0, the control, if no point is better on these machines.
        """
        effects = {
            names[one.arm]: one.effect.estimate
            for one in part.judgement.judged
            if one.role == "primary" and one.arm in names and one.effect is not None
        }
        usable = {at: effect for at, effect in effects.items() if self.known.entries[at].is_usable}
        best = max(usable.values(), default=0.0)
        if best <= 0:
            return 0
        close = [at for at, effect in usable.items() if effect >= max(best - NO_LOSS * self._margin(), best / 2)]
        return min(close, key=lambda at: (len(self.known.space.changes(self.known.entries[at].point)), -effects[at]))

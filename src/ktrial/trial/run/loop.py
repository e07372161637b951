# SPDX-License-Identifier: Apache-2.0
"""The loop of a trial: block after block, until the judge decides to stop.

Every event is in the log on disk before the next step begins. The log alone is therefore enough to resume a trial,
whatever stopped it.

A `VisitMaker` makes the visits: on this machine, with or without a person who sets up the arms (`trial.run.visits`), or
in guests (`trial.guests.visits`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from typing import Protocol as Port

import msgspec

from ktrial.bench.record import RunRecord, Session
from ktrial.judge.model.judgement import Judgement, NextStep
from ktrial.judge.model.log import (
    BlockDrawn,
    BlockVoided,
    Event,
    Extended,
    Looked,
    Protocol,
    RunEnded,
    TrialEnd,
    block_order,
    protocol_in,
)
from ktrial.kit.errors import LimitPassed
from ktrial.trial.run.events import BlockEnded, TrialEnded, TrialListener


class TrialStore(Port):
    """Stores the logs of trials."""

    def append(self, trial: str, events: Sequence[Event]) -> None: ...


class Standing(msgspec.Struct, kw_only=True):
    """The state of a trial: its log, session and records so far. `logs` is the store of its log."""

    trial: str
    protocol_sha256: str
    session: Session
    log: list[Event]
    records: list[RunRecord]
    next_run: int
    logs: TrialStore

    @property
    def protocol(self) -> Protocol:
        return protocol_in(self.log)

    @property
    def drawn(self) -> Mapping[int, BlockDrawn]:
        return {event.block: event for event in self.log if isinstance(event, BlockDrawn)}

    @property
    def is_ended(self) -> bool:
        """Whether the trial has ended and has not been extended since then."""
        last = [event for event in self.log if isinstance(event, TrialEnd | Extended)]
        return bool(last) and isinstance(last[-1], TrialEnd)

    def runs_left(self, block: int, arm: str) -> int:
        made = sum(isinstance(event, RunEnded) and (event.block, event.arm) == (block, arm) for event in self.log)
        return self.protocol.runs_per_visit - made

    def has_measured(self, arm: str) -> bool:
        return any(isinstance(event, RunEnded) and event.arm == arm and event.measurements for event in self.log)

    def append(self, *events: Event) -> None:
        """Append events to the log, and return when the events are on disk."""
        self.logs.append(self.trial, events)
        self.log += events


class Visit(NamedTuple):
    """A visit that is due: its block, its arm, its position among the block's `visits`, and how many runs it lacks."""

    block: int
    arm: str
    place: int
    visits: int
    runs: int


class VisitMaker(Port):
    """Makes visits, and logs what happens during them."""

    def begin(self, blocks_left: int | None) -> None: ...

    def can_make(self, visit: Visit) -> bool: ...

    def make(self, visits: Sequence[Visit], blocks_left: int | None) -> bool:
        """Make the missing visits of a block, in order. Return False if a visit cannot be made now."""

    def ends_for_time(self, step: NextStep) -> bool:
        """Return whether too little time is left for this step; if so, end the log."""

    def end(self) -> None:
        """Clean up after the last visit, and restore the machine even if an error occurs."""


class TrialLoop:
    """Runs a trial from its current state to its end."""

    def __init__(
        self, standing: Standing, visits: VisitMaker, listen: TrialListener, most_blocks: int | None = None
    ) -> None:
        """Prepare the loop; `most_blocks` fixes the number of blocks, whatever the judge decides."""
        self._standing = standing
        self._visits = visits
        self._listen = listen
        self._most_blocks = most_blocks
        self._blocks_left: int | None = None
        self._judged: tuple[int, Judgement] | None = None
        #: Whether somebody interrupted the trial.
        self.interrupted = False

    def carry_out(self) -> Judgement:
        """Run until the judge decides to stop or somebody interrupts. Return the last judgement.

        Raise LimitPassed if a limit or a guard ends the trial.
        """
        try:
            if self._next_step().action != "stop":
                self._visits.begin(self._blocks_left)
            self._blocks()
        except KeyboardInterrupt:
            self.interrupted = True
        except LimitPassed as error:
            self._standing.append(TrialEnd(reason=f"stopped: {error.message}"))
            raise
        finally:
            self._visits.end()
        judgement = self._judgement()
        self._listen(TrialEnded(trial=self._standing.trial, judgement=judgement, interrupted=self.interrupted))
        return judgement

    def _blocks(self) -> None:
        while True:
            self._look_if_due()
            step = self._next_step()
            if step.action == "stop":
                if self._most_blocks is None and not self._standing.is_ended:
                    self._standing.append(TrialEnd(reason=step.reason))
                return
            if self._visits.ends_for_time(step):
                return
            if not self._block(step) and self._next_step().action != "stop":
                return

    def _next_step(self) -> NextStep:
        """Return the judge's next step, or the next step towards a fixed number of blocks."""
        judgement = self._judgement()
        cap = judgement.cap if self._most_blocks is None else self._most_blocks
        self._blocks_left = None if cap is None else max(0, cap - judgement.blocks)
        if self._most_blocks is None:
            return judgement.next
        drawn = self._standing.drawn
        if judgement.blocks >= self._most_blocks or len(drawn) >= 2 * self._most_blocks:
            return NextStep(action="stop", reason="all blocks are made")
        if judgement.next.action != "stop":
            return judgement.next
        arms = tuple(arm.name for arm in self._standing.protocol.arms)
        return NextStep(action="go on", reason="fixed blocks", block=max(drawn, default=0) + 1, arms=arms)

    def _block(self, step: NextStep) -> bool:
        """Finish the current block or make a new one. Return False if its next visit cannot be made now."""
        standing, block = self._standing, step.block or 1
        seed = standing.protocol.seed
        order = standing.drawn[block].order if step.drawn else block_order(seed, block, step.arms)
        places = enumerate(order, start=1)
        visits = [Visit(block, arm, place, len(order), standing.runs_left(block, arm)) for place, arm in places]
        due = [visit for visit in visits if visit.runs > 0]
        if due and not self._visits.can_make(due[0]):
            return False
        if not step.drawn:
            standing.append(BlockDrawn(block=block, order=order))
        return self._visits.make(due, self._blocks_left)

    def _look_if_due(self) -> None:
        """Log the judge's verdicts once after each complete block."""
        standing = self._standing
        at = max((at for at, event in enumerate(standing.log) if isinstance(event, BlockDrawn)), default=None)
        if at is None or any(isinstance(event, Looked | TrialEnd) for event in standing.log[at:]):
            return
        block = standing.drawn[max(standing.drawn)]
        void = any(isinstance(event, BlockVoided) and event.block == block.block for event in standing.log[at:])
        if void or any(standing.runs_left(block.block, arm) > 0 for arm in block.order):
            return
        judgement = self._judgement()
        standing.append(Looked(blocks=judgement.blocks, verdicts=judgement.primary_verdicts))
        self._listen(BlockEnded(block=block.block, judgement=judgement))

    def _judgement(self) -> Judgement:
        """Return the current judgement.

        It is computed once for each state of the log; logged looks do not change the judgement.
        """
        from ktrial.judge.judge import judge

        events = sum(not isinstance(event, Looked) for event in self._standing.log)
        if self._judged is None or self._judged[0] != events:
            self._judged = events, judge(self._standing.log)
        return self._judged[1]

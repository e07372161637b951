# SPDX-License-Identifier: Apache-2.0
"""Progress of a trial: a picture on a terminal, redrawn in place; elsewhere a line per block.

It estimates the time to the cap, and to the block that will probably decide the trial. It draws only on events, which
come between runs, so that nothing is drawn during a run.
"""

from __future__ import annotations

import os
import statistics
import sys
from typing import TYPE_CHECKING, Self

import msgspec

from ktrial.judge.model.judgement import Judgement
from ktrial.judge.model.log import Protocol
from ktrial.kit import plain_json
from ktrial.kit.console import LiveLines, is_live
from ktrial.kit.streams import draw, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrial.bench.record import RunRecord
    from ktrial.judge.model.judgement import Judgement
    from ktrial.judge.model.log import Protocol
    from ktrial.machine.ports import Clock
    from ktrial.trial.protocol.forecast import TrialForecast
    from ktrial.trial.run.events import PeriodPhase, TrialEvent, VisitBegan, VisitEnded, VisitWaits
    from ktrial.trial.run.prepare import Prepared


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """The cap, the block that will probably be the last (`stop`), and the seconds to each; null if unknown."""

    cap: int | None
    stop: int | None
    cap_s: float | None
    stop_s: float | None


def outlook(protocol: Protocol, judgement: Judgement | None, run_s: float | None, done: int) -> Outlook:
    """Estimate when the trial ends, based on the judgement and the time of a run.

    `done` runs of the current block are over.
    """
    each = protocol.runs_per_visit
    if protocol.replicate != "run" or "kernel" in protocol.varies:
        # The time between visits depends on a person or a compiler.
        run_s = None
    if judgement is None:
        first = protocol.cap
        return Outlook(
            cap=first, stop=None, cap_s=_left_s(first, 0, each * len(protocol.arms), run_s, done), stop_s=None
        )
    from ktrial.judge.outlook import expected_stop

    stop = expected_stop(protocol, judgement)
    alive = each * (len(protocol.arms) - len(judgement.dropped))
    cap = judgement.cap if judgement.next.action != "stop" else None
    return Outlook(
        cap=judgement.cap,
        stop=stop,
        cap_s=_left_s(cap, judgement.blocks, alive, run_s, done),
        stop_s=_left_s(stop, judgement.blocks, alive, run_s, done),
    )


def _left_s(last: int | None, blocks: int, runs: int, run_s: float | None, done: int) -> float | None:
    if last is None or run_s is None:
        return None
    return max(0, (last - blocks) * runs - done) * run_s


#: Minimum seconds between two pictures, so that drawing does not slow down trials with very short runs.
_DRAWN_EVERY_S = 0.2


class TrialProgress:
    """Reports on stderr; with `as_json` it also writes every event to stdout."""

    def __init__(self, clock: Clock, *, as_json: bool) -> None:
        self._clock = clock
        self._as_json = as_json
        self._is_live = is_live(sys.stderr, os.environ) and not (as_json and sys.stdout.isatty())
        self._live = _lines_of_stderr()
        self._protocol: Protocol | None = None
        self._profile_blocks = 0
        self._left_s: float | None = None
        #: Whether the user knows how long the trial takes.
        self._has_told_time = False
        self._judgement: Judgement | None = None
        self._pace = _Pace(clock)
        self._temperature_c: float | None = None
        self._waiting: str | None = None
        self._drawn_s: float | None = None
        #: Whether the arms stay hidden until the trial ends.
        self._is_blind = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def announce(
        self,
        ready: Prepared,
        protocol: Protocol,
        judgement: Judgement | None = None,
        forecast: TrialForecast | None = None,
        *,
        cap_s: float | None = None,
        unread: Sequence[str] = (),
        rules: bool = False,
    ) -> None:
        """Print what the trial will do, its cost, and what it can detect. A resumed trial has a `judgement`."""
        from ktrial.kit.tables import columns
        from ktrial.trial.outcome.text import announcement
        from ktrial.trial.run.events import TrialAnnounced

        self.take_up(protocol, judgement)
        self._is_blind = ready.file.is_blind
        self._say(
            announcement(
                protocol,
                ready.arms,
                ready.idle,
                ready.settle_s,
                forecast,
                cap_s=cap_s,
                unread=unread,
                rules=rules,
                live=ready.file.live or None,
                width=columns(),
            )
        )
        self._write(
            TrialAnnounced(
                protocol=protocol,
                arms=ready.arms,
                placebos=ready.idle,
                settle_s=ready.settle_s,
                limits=ready.file.safety,
                forecast=forecast,
                cap_s=cap_s,
            )
        )
        self._has_told_time = rules and cap_s is not None

    def scroll_on(self) -> None:
        """Leave the picture in place and draw below it from now on, because another program writes to the terminal."""
        self._live, self._drawn_s = _lines_of_stderr(), None

    def take_up(self, protocol: Protocol, judgement: Judgement | None) -> None:
        """Show this trial from now on, without an announcement."""
        self._protocol, self._judgement, self._pace = protocol, judgement, _Pace(self._clock)
        self._has_told_time = False
        self.scroll_on()
        # A screening has about a hundred arms, so a line for each block is clearer than a picture.
        self._is_live = self._is_live and protocol.screen is None

    def __call__(self, event: TrialEvent) -> None:
        from ktrial.kit.tables import columns
        from ktrial.trial.outcome.text import noise_text, pilot_text
        from ktrial.trial.run import events

        if isinstance(event, events.NoiseBegan):
            self._profile_blocks = event.blocks
            self._left_s, self._has_told_time = event.expected_s, event.expected_s is not None
            self._say(noise_text(event, width=columns()))
        elif isinstance(event, events.PilotBegan | events.PilotEnded):
            self._say(pilot_text(event, width=columns()))
        elif isinstance(event, events.VisitBegan):
            self._pace.begins(event)
            self._tell_time(event)
            if self._drawn_s is None:
                self._draw()
        elif isinstance(event, events.VisitWaits | events.PeriodPhase):
            self._waits(event)
        elif isinstance(event, events.VisitEnded):
            self._end_visit(event)
        elif isinstance(event, events.BlockEnded):
            self._judgement = event.judgement
            self._pace.block_ended()
            self._block_ended(event.judgement)
        elif self._protocol is not None and isinstance(event, events.TrialEnded):
            self._judgement = event.judgement
            self._draw()
        elif isinstance(event, events.TrialEnded) and event.interrupted:
            blocks = f"{event.judgement.blocks} of {self._profile_blocks} blocks"
            self._say(f"noise profile: {blocks} are stored; the same command continues it\n")
        self._write(event)

    def _write(self, event: TrialEvent) -> None:
        """Write an event to stdout with `as_json`, unless people who watch the trial must not see it."""
        from ktrial.trial.run.events import ArmInForce

        if not self._as_json or isinstance(event, ArmInForce) or (self._is_blind and _tells_arms(event)):
            return
        tell(sys.stdout, plain_json.line(event))

    def _tell_time(self, event: VisitBegan) -> None:
        """Print how long the trial takes as soon as the first run shows it; the picture shows the time anyway."""
        self._left_s = event.left_s
        if event.left_s is None or self._has_told_time:
            return
        self._has_told_time = True
        from ktrial.bench.text import duration

        if not self._is_live:
            self._say(f"takes about {duration(event.left_s)} from here, at most\n")

    def _waits(self, event: VisitWaits | PeriodPhase) -> None:
        from ktrial.trial.outcome.text import phase_text
        from ktrial.trial.run.events import VisitWaits

        waiting = event.waiting if isinstance(event, VisitWaits) else phase_text(event)
        if self._is_live and waiting != self._waiting:
            self._waiting = waiting
            self._draw()
        # In a log, one line per period is enough.
        elif not self._is_live and (isinstance(event, VisitWaits) or event.phase != "washout"):
            self._say(f"{waiting}\n")

    def _end_visit(self, event: VisitEnded) -> None:
        self._waiting = None
        self._pace.ended()
        self._temperature_c = _temperature(event.record)
        if event.failure or event.void:
            self._say(f"run discarded: {event.void or event.failure}\n")
        if self._drawn_s is None or self._now_s() - self._drawn_s >= _DRAWN_EVERY_S:
            self._draw()

    def _block_ended(self, judgement: Judgement) -> None:
        from ktrial.bench.text import duration
        from ktrial.trial.outcome.text import block_line

        if self._is_live:
            self._draw()
        elif self._protocol is None:
            left_s = self._left_of_profile()
            left = "" if not left_s else f", about {duration(left_s)} left"
            self._say(f"noise profile: block {judgement.blocks} of {self._profile_blocks}{left}\n")
        else:
            cap_s = outlook(self._protocol, judgement, self._pace.run_s, 0).cap_s
            self._say(block_line(self._protocol, judgement, cap_s, blind=self._is_blind))

    def _left_of_profile(self) -> float | None:
        blocks = 0 if self._judgement is None else self._judgement.blocks
        run_s = self._pace.run_s
        return self._left_s if run_s is None else (self._profile_blocks - blocks) * 2 * run_s

    def _draw(self) -> None:
        """Draw only between runs: this delays the trial, but never a run."""
        if not self._is_live:
            return
        self._drawn_s = self._now_s()
        self._live.draw(self._lines(self._live.columns))

    def _lines(self, width: int) -> list[str]:
        from ktrial.trial.outcome.live_view import ShownMoment, profile_line, view

        if self._protocol is None:
            blocks = 0 if self._judgement is None else self._judgement.blocks
            return [profile_line(blocks, self._profile_blocks, self._left_of_profile(), width=width)]
        pace = self._pace
        left = outlook(self._protocol, self._judgement, pace.run_s, pace.done)
        return view(
            ShownMoment(
                protocol=self._protocol,
                judgement=self._judgement,
                cap=left.cap,
                done=pace.done,
                runs=pace.runs * self._protocol.runs_per_visit,
                warm_ups=pace.warm_ups,
                temperature_c=self._temperature_c,
                load=os.getloadavg()[0],
                waiting=self._waiting,
                left_s=left.cap_s,
                stop=left.stop,
                stop_s=left.stop_s,
                now_unix_s=self._clock.unix_ms() / 1e3,
                blind=self._is_blind,
            ),
            width=width,
        )

    def _now_s(self) -> float:
        return self._clock.monotonic_ns() / 1e9

    def _say(self, text: str) -> None:
        if self._is_live:
            self._live.say(text)
        else:
            tell(sys.stderr, text)


def _tells_arms(event: TrialEvent) -> bool:
    """Return whether an event reveals, before the trial is over, which arm is in force or what it did."""
    from ktrial.trial.run import events

    is_over = isinstance(event, events.TrialEnded) and not event.interrupted
    return isinstance(event, events.VisitEnded | events.BlockEnded | events.TrialEnded) and not is_over


class _Pace:
    """Tracks the progress of the current block, and how long a run takes with the waits around it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._block: int | None = None
        self._begun = 0
        self._ended_here = 0
        self._benchmarks = 1
        self._began_s: float | None = None
        self._took_s: list[float] = []
        #: The time between visits of whole blocks: there may be a wait before each block.
        self._in_blocks_s: list[float] = []
        self._in_block_s: list[float] = []
        self.runs = 0

    def begins(self, event: VisitBegan) -> None:
        now_s = self._clock.monotonic_ns() / 1e9
        if self._began_s is not None:
            self._took_s.append(now_s - self._began_s)
            self._in_block_s.append(now_s - self._began_s)
        self._began_s = now_s
        if event.block != self._block:
            if self._block is not None:
                self._in_blocks_s.append(statistics.fmean(self._in_block_s))
            self._in_block_s.clear()
            self._block, self._begun = event.block, 0
        self._begun += 1
        self._ended_here = 0
        self.runs = event.visits

    def ended(self) -> None:
        """Record that a benchmark has ended; the first run shows how many benchmarks a run has."""
        self._ended_here += 1
        self._benchmarks = max(self._benchmarks, self._ended_here)

    def block_ended(self) -> None:
        self._begun = self._ended_here = 0

    @property
    def warm_ups(self) -> int:
        """Number of the current warm-up run; 0 in blocks."""
        return self._begun if self._block is None else 0

    @property
    def done(self) -> int:
        if self._block is None or not self._begun:
            return 0
        return self._begun - (self._ended_here < self._benchmarks)

    @property
    def run_s(self) -> float | None:
        took_s = self._in_blocks_s or self._took_s
        return statistics.median(took_s) if took_s else None


def _lines_of_stderr() -> LiveLines:
    return LiveLines(lambda text: draw(sys.stderr, text), lambda: os.get_terminal_size(sys.stderr.fileno()))


def _temperature(record: RunRecord) -> float | None:
    found = record.conditions
    shown = () if found is None else (found.after or found.before)
    return next((one.value for one in shown if one.name == "temperature"), None)

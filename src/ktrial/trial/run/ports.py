# SPDX-License-Identifier: Apache-2.0
"""Interfaces through which a trial uses the rest of ktrial; each part is created on first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ktrial.bench.run.ports import RunStore, RunWorld
from ktrial.machine.ports import Machine, Sampling
from ktrial.trial.run.loop import TrialStore

if TYPE_CHECKING:
    from ktrial.bench.record import Earlier
    from ktrial.bench.run.built_file import SeenFile
    from ktrial.judge.model.log import Event
    from ktrial.judge.model.noise_profile import NoiseProfile
    from ktrial.trial.record import StoredTrial


class TrialRuns(RunStore, Protocol):
    """A run store that can also reopen a session."""

    def of_session(self, name: str) -> Earlier | None:
        """Return a session to continue; None while another ktrial process measures it."""


class Trials(TrialStore, Protocol):
    """A store of logs that also holds whole trials and noise profiles."""

    def begin(self, trial: StoredTrial, first: Event) -> None:
        """Store a new trial together with the first event of its log, or store nothing."""

    def log(self, trial: str) -> tuple[Event, ...]: ...

    def hold(self) -> None:
        """Keep the store open until ktrial ends."""

    def profiles(self, suite: str | None, machine: str) -> tuple[NoiseProfile, ...]:
        """Return a machine's noise profiles of a suite, newest first; None means all suites."""

    def keep_profile(self, profile: NoiseProfile) -> None:
        """Add a profile; older profiles stay, because trials refer to them."""


class Stopping(Protocol):
    """Interruptions such as Ctrl-C. ktrial calls `watch` about once a second while it waits."""

    number: int
    watch: Callable[[], None] | None


class TrialWorld(RunWorld, Protocol):
    """Everything that a trial needs in order to run."""

    @property
    def run_store(self) -> TrialRuns: ...

    @property
    def trials(self) -> Trials: ...

    @property
    def interrupts(self) -> Stopping: ...

    @property
    def when_idle(self) -> bool:
        """Whether each run waits until nobody and nothing else uses the machine."""

    def best_session(self, purpose: str) -> Machine:
        """Return a root session if ktrial can open it without a prompt, otherwise the user's session."""

    def sampling_of(self, sources: Sequence[str]) -> Sampling:
        """Return a separate sampling of these sources only."""

    def look_at_file(self, path: str) -> SeenFile | None:
        """Return a file as the user sees it; None if it doesn't exist or cannot be read."""

    def protect(self) -> None:
        """Make the kernel kill the measured program first when memory runs out."""

    def say(self, text: str) -> None: ...

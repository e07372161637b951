# SPDX-License-Identifier: Apache-2.0
"""What a trial needs of the world; everything is made when it is first asked for."""

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
    """Also takes a session up again."""

    def of_session(self, name: str) -> Earlier | None:
        """Return what a session has so far, to go on with it; None when somebody else still measures it."""


class Trials(TrialStore, Protocol):
    """Also keeps whole trials, and noise profiles."""

    def begin(self, trial: StoredTrial, first: Event) -> None:
        """A trial begins: it and its protocol, both or neither."""

    def log(self, trial: str) -> tuple[Event, ...]: ...

    def hold(self) -> None:
        """Keep the store open until the end."""

    def profiles(self, suite: str, machine: str) -> tuple[NoiseProfile, ...]:
        """Noise profiles of a suite on a machine, the newest first."""

    def keep_profile(self, profile: NoiseProfile) -> None:
        """One more; older ones stay, as trials rest on them."""


class Stopping(Protocol):
    """Ctrl-C and its like; `watch` is called about once a second while something is waited for."""

    number: int
    watch: Callable[[], None] | None


class TrialWorld(RunWorld, Protocol):
    """What is needed to carry a trial out."""

    @property
    def run_store(self) -> TrialRuns: ...

    @property
    def trials(self) -> Trials: ...

    @property
    def interrupts(self) -> Stopping: ...

    def best_session(self, purpose: str) -> Machine:
        """Return a root session where that needs no asking, else the user's."""

    def sampling_of(self, sources: Sequence[str]) -> Sampling:
        """Return another one that looks at these sources only."""

    def look_at_file(self, path: str) -> SeenFile | None:
        """Return a file of the user's as it is; None if there is none, or it cannot be read."""

    def protect(self) -> None:
        """Have what is measured killed first when memory runs out."""

    def say(self, text: str) -> None: ...

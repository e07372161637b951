# SPDX-License-Identifier: Apache-2.0
"""Live work on the machines of a fleet: a local process watches each machine, and ends with the coordinator.

The process is `ktrial trial run` with the machine as its host. The arm stays in force as long as the session of this
process, so that a process that dies leaves nothing in force. The coordinator reads the observations from the store.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import msgspec

from ktrial.fleet.ansible import Ansible, TaskResult
from ktrial.fleet.ansible_collections.ktrial.tuning.plugins.plugin_utils.program import (
    Ktrial,
    MachineUnreachable,
    ProgramAnswer,
)
from ktrial.fleet.conduct import MOST_FAILURES, MachineLook, Sight
from ktrial.fleet.file import PLACE, FleetTrial
from ktrial.fleet.log import FleetBegan, FleetMachine, MachineState, MachineTime
from ktrial.fleet.machines import sight_of
from ktrial.judge.model.log import Event, Looked, TrialEnd
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.live.guard import GUARD_ALPHA
from ktrial.live.model import LiveMetric
from ktrial.live.pace import slot_seconds
from ktrial.live.parse import open_source, parse_metrics
from ktrial.live.sources.world import LiveWorld
from ktrial.machine.ports import Clock
from ktrial.trial.protocol.file import TrialFile, trial_text
from ktrial.trial.protocol.live import LiveFile

#: Sources that this machine reads instead of the machine under test.
_READ_HERE = frozenset(("prometheus", "openmetrics"))
#: Seconds until the next look at a machine whose live work is watched. It is short because its guards also stop the
#: others.
_LOOK_S = 2.0
#: Seconds that a process has to restore its machine and end, and seconds between two looks.
_END_S, _END_LOOK_S = 60.0, 0.2
#: Start of the reason in a trial's log if a guard or a limit ended the trial.
_TRIPPED = "stopped: "


def metrics_of(trial: FleetTrial, host: str, facts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the metrics for one host, with placeholders replaced. Raise BadInput if the inventory lacks a variable."""

    def value(name: str) -> str:
        found = host if name == "host" else facts.get(name)
        if found is None:
            raise BadInput(
                f"the inventory has no variable {name.removeprefix('inventory.')} for {host}",
                hint="add this variable to the inventory",
            )
        return found

    specs = trial.live.metrics if trial.live else ()
    return tuple(PLACE.sub(lambda place: value(place[1]), spec) for spec in specs)


def trial_for(began: FleetBegan, name: str, machine: FleetMachine) -> TrialFile:
    """Return the live trial of one machine.

    If the machine measures only one arm, that arm stays in force. Guards then compare with the machine before the
    trial, because the control would be the same arm. The guards of all machines share one error rate.
    """
    trial: FleetTrial = began.trial
    assert trial.live, "a live trial"
    guarded = {one.host for one in began.machines if one.arm != trial.control}
    live = msgspec.structs.replace(trial.live, metrics=metrics_of(trial, machine.host, machine.facts))
    if live.guards:
        error = (live.guard_error or GUARD_ALPHA) / len(guarded)
        live = msgspec.structs.replace(live, guard_error=error)
    if machine.arm is not None:
        live = msgspec.structs.replace(live, stay=True)
    if machine.arm == trial.control:
        live = msgspec.structs.replace(live, guards={})
    return msgspec.structs.replace(trial.for_machine(name, machine.seed, machine.arm), live=live)


def live_time(began: FleetBegan, live: LiveFile) -> MachineTime:
    """Return how long one machine takes for its periods, and for learning the usual values."""
    period_s, washout_s = live.period_s or 0.0, live.washout_s or 0.0
    stays = began.machines[0].arm is not None
    periods = began.trial.fleet.blocks * (2 if stays else len(began.trial.arms))
    each_s = slot_seconds(period_s) if stays else washout_s + period_s
    return MachineTime(warm_up_s=0.0, blocks_s=periods * each_s + washout_s + (2 * period_s if live.guards else 0.0))


def refuse_shared(trial: FleetTrial, facts: Mapping[str, Mapping[str, str]]) -> None:
    """Raise BadInput if two machines would have the same series in a source that this machine reads."""
    seen: dict[str, str] = {}
    for host, known in facts.items():
        for metric in _read_here(metrics_of(trial, host, known)):
            if other := seen.get(metric.source):
                raise BadInput(
                    f"{other} and {host} have the same series of {metric.name}",
                    hint="put {host} or {inventory.NAME} into the address or query of this metric",
                )
            seen[metric.source] = host


def why_unread(trial: FleetTrial, host: str, facts: Mapping[str, str], clock: Clock) -> str | None:
    """Return why a source that this machine reads does not give exactly one series for `host`; None if all do."""
    period_s = trial.live.period_s if trial.live else None
    world = LiveWorld(clock=clock, machine=_not_here, run=_not_here, period_s=period_s)
    try:
        for metric in _read_here(metrics_of(trial, host, facts)):
            source = open_source(metric, world)
            try:
                source.begin()
            finally:
                source.end()
    except KtrialError as error:
        return error.message
    return None


def _read_here(specs: Sequence[str]) -> Iterator[LiveMetric]:
    return (one for one in parse_metrics(specs) if one.source.partition(":")[0] in _READ_HERE)


def _not_here(*_: object) -> NoReturn:
    raise AssertionError("a source on the network uses no machine")


class _Process:
    """A process that watches a machine and writes to the file `output`. It is not a child of this process."""

    def __init__(self, number: int, output: Path) -> None:
        self._output = output
        try:
            self._descriptor: int | None = os.pidfd_open(number)
        except ProcessLookupError:  # the process has ended
            self._descriptor = None

    @property
    def is_alive(self) -> bool:
        if self._descriptor is not None:
            waiting = select.poll()
            waiting.register(self._descriptor, select.POLLIN)
            if not waiting.poll(0):
                return True
            os.close(self._descriptor)
            self._descriptor = None
        return False

    def end(self) -> None:
        """Tell the process to restore its machine and end."""
        if self.is_alive and self._descriptor is not None:
            signal.pidfd_send_signal(self._descriptor, signal.SIGTERM)

    def failure(self, host: str) -> Sight:
        """Return why the process has ended."""
        documents = tuple(_documents(self._output.read_text(encoding="utf-8", errors="replace")))
        messages = Path(f"{self._output}.txt").read_text(encoding="utf-8", errors="replace")
        # If there is no status, a signal has ended the process.
        status = next((one["status"] for one in documents if one.get("schema") == "ktrial.error/1"), -1)
        failure = Ktrial((), {}).failure(ProgramAnswer(status, documents, messages))
        state = "unreachable" if isinstance(failure, MachineUnreachable) else "failed"
        return sight_of(TaskResult(host, state, failure.result))  # type: ignore[arg-type]


def _documents(text: str) -> Iterator[dict[str, Any]]:
    """Yield the documents of whole lines; the last line may be cut off."""
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


class LiveStore(NamedTuple):
    """What the coordinator reads about the machines' trials.

    `find` returns the newest trial with a protocol of this name, and `log` the log of a trial. `running` returns the
    trials that processes of this machine run now.
    """

    find: Callable[[str], str | None]
    log: Callable[[str], Sequence[Event]]
    running: Callable[[], Sequence[str]]


class LiveMachines:
    """The machines of a fleet's live trial; implements `fleet.conduct.Looking`. `folder` is private."""

    def __init__(self, ansible: Ansible, began: FleetBegan, folder: Path, store: LiveStore, *, fence: int) -> None:
        self._ansible = ansible
        self._began = began
        self._folder = folder
        self._store = store
        self._fence = fence
        self._processes: dict[int, _Process] = {}
        self._away: dict[int, str | None] = {}
        self._failures: Counter[int] = Counter()
        #: The number of each machine's blocks when its process last failed.
        self._failed_at: dict[int, int] = {}
        self._told: dict[int, Sight] = {}

    def look(self, looks: Sequence[MachineLook]) -> Iterator[Sight | None]:
        running = self._store.running()
        due = []
        for one in looks:
            sight = self._sight(one, running)
            if sight is None:
                due.append(one)
            else:
                yield self._news(one.place, sight)
        if due:
            yield from self._begin(due)

    def stop(self, looks: Sequence[MachineLook]) -> Iterator[Sight | None]:
        """End the processes, and yield each machine when its process is over; in between, yield None.

        The processes of another coordinator end because that coordinator has lost the lease.
        """
        for one in looks:
            self.leave_out(one)
        left = list(looks)
        end_s = time.monotonic() + _END_S
        while left and time.monotonic() < end_s:
            running = self._store.running()
            over = [one for one in left if not self._is_watched(one, self._trial(one), running)]
            for one in over:
                left.remove(one)
                yield Sight(one.machine.host, "stopped", trial=self._trial(one))
            if left:
                yield None
                time.sleep(_END_LOOK_S)
        for one in left:
            yield Sight(one.machine.host, "failed", message=f"its process did not end within {_END_S:.0f} s")

    def leave_out(self, look: MachineLook) -> None:
        """End the process that tries to reach the machine."""
        if look.place in self._processes:
            self._processes[look.place].end()

    def close(self) -> None:
        """End all processes, and wait until their machines are restored."""
        for process in self._processes.values():
            process.end()
        end_s = time.monotonic() + _END_S
        while left := [place for place, one in self._processes.items() if one.is_alive]:
            if time.monotonic() > end_s:
                hosts = ", ".join(self._began.machines[place].host for place in left)
                raise KtrialError(
                    f"the processes that watch {hosts} did not end within {_END_S:.0f} s",
                    hint="run `ktrial --host ssh:NAME status` to see which settings are in force",
                )
            time.sleep(_END_LOOK_S)

    def _trial(self, look: MachineLook) -> str | None:
        return look.trial or self._store.find(self._name(look))

    def _name(self, look: MachineLook) -> str:
        """Return the name of a machine's trial, by its place in the list."""
        return f"{self._began.fleet}.{look.place + 1}"

    def _is_watched(self, look: MachineLook, trial: str | None, running: Sequence[str]) -> bool:
        process = self._processes.get(look.place)
        return (process is not None and process.is_alive) or trial in running

    def _sight(self, look: MachineLook, running: Sequence[str]) -> Sight | None:
        """Return what is known about a machine; None if nothing watches it and its trial is not over."""
        place, host = look.place, look.machine.host
        trial = self._trial(look)
        is_watched = self._is_watched(look, trial, running)
        log = () if trial is None else self._store.log(trial)
        blocks = max((one.blocks for one in log if isinstance(one, Looked)), default=0)
        if is_watched and place in self._away and trial not in running:
            # The process has not reached the machine yet.
            return Sight(host, "unreachable", trial=trial, blocks=blocks, message=self._away[place])
        if is_watched:
            self._away.pop(place, None)
            return Sight(host, "running", trial=trial, blocks=blocks, next_look_s=_LOOK_S)
        last = log[-1] if log else None
        if isinstance(last, TrialEnd):
            if last.reason.startswith(_TRIPPED):
                why = last.reason.removeprefix(_TRIPPED)
                return Sight(host, "failed", trial=trial, blocks=blocks, message=why, guard=True)
            return Sight(host, "ended", trial=trial, blocks=blocks)
        process = self._processes.pop(place, None)
        return (
            None if process is None else self._failed(place, process.failure(host)._replace(trial=trial, blocks=blocks))
        )

    def _failed(self, place: int, sight: Sight) -> Sight:
        """Return why a process has ended. After several failures without progress, the failure is final."""
        if sight.state == "unreachable":
            self._away[place] = sight.message
            return sight
        if sight.blocks > self._failed_at.get(place, 0):
            self._failures[place] = 0
        self._failures[place] += 1
        self._failed_at[place] = sight.blocks
        return sight._replace(may_pass=sight.may_pass and self._failures[place] < MOST_FAILURES)

    def _news(self, place: int, sight: Sight) -> Sight:
        """Return the sight; `is_news` is false if it equals the previous one."""
        before, self._told[place] = self._told.get(place), sight
        return sight._replace(is_news=before != sight)

    def _begin(self, looks: Sequence[MachineLook]) -> Iterator[Sight | None]:
        places = {one.machine.host: one.place for one in looks}
        trials = {one.machine.host: self._trial(one) for one in looks}
        arguments = {one.machine.host: self._arguments(one, trials[one.machine.host]) for one in looks}
        for result in self._ansible.run("trial", arguments):
            if result is None:
                yield None
            elif result.state == "ok":
                place = places[result.host]
                self._processes[place] = _Process(result.content["process"], self._output(place))
                state: MachineState = "unreachable" if place in self._away else "running"
                blocks = self._told[place].blocks if place in self._told else 0
                sight = Sight(result.host, state, trial=trials[result.host], blocks=blocks, next_look_s=_LOOK_S)
                yield self._news(place, sight._replace(message=self._away.get(place)))
            else:
                yield sight_of(result)

    def _output(self, place: int) -> Path:
        return self._folder / f"{self._began.fleet}.{place + 1}.json"

    def _arguments(self, look: MachineLook, trial: str | None) -> dict[str, Any]:
        """Return the arguments of the task. Begin a trial unless the store has it already.

        A coordinator may have died after the trial began.
        """
        given = {
            "state": "watched",
            "fence": self._fence,
            "fleet": self._began.fleet,
            "output": str(self._output(look.place)),
        }
        if trial is not None:
            return {**given, "name": trial}
        name = self._name(look)
        path = self._folder / f"{name}.toml"
        path.write_text(trial_text(trial_for(self._began, name, look.machine)), encoding="utf-8")
        return {**given, "file": str(path), "name": name}

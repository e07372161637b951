# SPDX-License-Identifier: Apache-2.0
"""What happens around each run: resets, readings of conditions and counters, and the recording."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec

from ktrial.bench.around.idle import IdleWatch
from ktrial.bench.around.inhibit import Quieter
from ktrial.bench.around.resets import Resets
from ktrial.bench.around.start_gate import OTHERS_S, Start, StartGates
from ktrial.bench.benchmark import PHASES, RECORDING, RECORDING_FAILED, WATCHED, Invocation
from ktrial.bench.energy import INSTANTS, PATTERNS, EnergyCounter, consumed, counters, measurements
from ktrial.bench.record import PreparedRun
from ktrial.bench.run.ports import RunRecorder, RunWorld
from ktrial.bench.schedule import Order
from ktrial.bench.suite import Suite
from ktrial.bench.watched import Watched
from ktrial.kit.errors import BadRun, KtrialError
from ktrial.kit.outcome import Measurement, Outcome
from ktrial.machine.disturbance import Quiet
from ktrial.machine.ports import Clock, Machine
from ktrial.machine.reading import Reading
from ktrial.machine.run_conditions import Conditions
from ktrial.machine.settle import Settled
from ktrial.machine.watch_run import ConditionWatch, RunWatch
from ktrial.recordings.ktrial import read_recording
from ktrial.recordings.model import is_telling, phases_of
from ktrial.tuning.state.snapshot import take_state


def surroundings(
    world: RunWorld, suite: Suite, order: Order, *, when_idle: bool = False, settle_s: float | None = None
) -> Around:
    """Return the actions around the suite's runs. Open the root session now if a reset needs root."""
    purpose = suite.between.needs_root
    root = world.root_session(purpose) if purpose is not None else None
    machine = world.looking_session
    folder = str(world.measuring_place.work)
    conditions = ConditionWatch(machine, world.sampling, world.clock, folder, world.pack_samples, order.sample_period_s)
    gates = StartGates(conditions, world.clock, order.gates, settle_s, OTHERS_S)
    around = Around(
        machine,
        world.clock,
        Resets(suite.between, world.executor, root),
        Quieter(world.executor, world.clock, lock_screen=when_idle, desktop=world.desktop),
        IdleWatch(world.executor, world.clock, gates.busy) if when_idle else None,
        lambda: take_state(machine, world.catalog).canonical(),
        gates,
    )
    around.recorder = lambda: world.run_recorder
    return around


class RunRecording:
    """A recording of one run. If the recording fails, `files` has the reason instead."""

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder
        self._goes_on = False
        self._data: bytes | None = None
        self._failed: str | None = None

    def begin(self) -> None:
        try:
            self._recorder.start()
            self._goes_on = True
        except KtrialError as error:
            self._failed = error.message

    def end(self) -> None:
        if not self._goes_on:
            return
        self._goes_on = False
        try:
            self._data = self._recorder.stop()
        except KtrialError as error:
            self._failed = error.message

    def close(self) -> None:
        """Stop recording, even if the run failed."""
        with suppress(KtrialError):
            self.end()

    @property
    def files(self) -> dict[str, bytes]:
        """The recording and its phases, or a file that says why the recording failed."""
        if self._failed is not None:
            return {RECORDING_FAILED: self._failed.encode()}
        return {} if self._data is None else {RECORDING: self._data, **_phases(self._data)}


def _phases(data: bytes) -> dict[str, bytes]:
    """Return the phases, or nothing if the recording is unreadable; the benchmark then reports that."""
    try:
        recording = read_recording(data, RECORDING, is_telling)
    except KtrialError:
        return {}
    return {PHASES: msgspec.json.encode([(one.name, one.begin_s, one.end_s) for one in phases_of(recording).phases])}


class Around:
    """Reads the machine's counters and conditions around each run; `gates` judge the start of each run."""

    def __init__(  # noqa: PLR0913, PLR0917 (everything that it needs from outside)
        self,
        machine: Machine,
        clock: Clock,
        resets: Resets | None = None,
        quieter: Quieter | None = None,
        idle: IdleWatch | None = None,
        take_state: Callable[[], bytes] | None = None,
        gates: StartGates | None = None,
        counters: tuple[EnergyCounter, ...] | None = None,
    ) -> None:
        """Prepare the actions; without `counters`, find the energy counters of the machine."""
        self._machine = machine
        self._clock = clock
        self._resets = resets
        self._quieter = quieter
        self._idle = idle
        self._take_state = take_state
        self.gates = gates
        #: Returns the recorder of runs that ask for a recording; called before the first such run.
        self.recorder: Callable[[], RunRecorder] | None = None
        self._counters, self._notes = self._energy() if counters is None else (counters, ())

    def begin(self, expected_s: float | None) -> Quiet:
        """Inhibit sleep until `end`; return what is inhibited, what may disturb the measurement, and notes."""
        quiet = self._quieter.begin(expected_s) if self._quieter is not None else Quiet()
        return msgspec.structs.replace(quiet, notes=(*self._notes, *quiet.notes))

    def state(self) -> bytes | None:
        """Return all tunable settings of the machine; None if this measurement does not record them."""
        return self._take_state() if self._take_state is not None else None

    def end(self) -> None:
        if self._quieter is not None:
            self._quieter.end()

    def wait(self, tell: Callable[[str], None]) -> None:
        """Wait until the machine is idle, if the user asked for that; `tell` gets what is in use."""
        if self._idle is not None:
            self._idle.wait(tell)

    @property
    def waits_for_idle(self) -> bool:
        """Whether the user asked for an idle machine."""
        return self._idle is not None

    def refuse_use(self) -> None:
        """From now on, let `wait` raise MachineInUse instead of waiting."""
        if self._idle is not None:
            self._idle.is_patient = False

    def disturbed(self, began_ns: int) -> str | None:
        """Return a session or terminal that was used since `began_ns`, or why that is unknown.

        None means that there was no input, or that the user did not ask for an idle machine.
        """
        return self.used_within((self.now_ns() - began_ns) / 1e9)

    def used_within(self, seconds: float) -> str | None:
        """Return the same as `disturbed`, for the last `seconds`."""
        return self._idle.disturbed(seconds) if self._idle is not None else None

    def prepare(self) -> tuple[PreparedRun, ...]:
        return self._resets.carry_out() if self._resets is not None else ()

    def watch(self, invocation: Invocation) -> RunWatching:
        found = self._machine.list(invocation.watches) if invocation.watches else {}
        watched = tuple(dict.fromkeys(path for paths in found.values() for path in paths))
        beside = self.gates.watch.beside() if self.gates is not None else None
        recorded = None
        if invocation.records and self.recorder is not None:
            recorded = RunRecording(self.recorder())
        return RunWatching(self, watched, beside, recorded)

    def settle(self, tell: Callable[[str], None]) -> Settled | None:
        return self.gates.settle(tell) if self.gates is not None else None

    def rest(self, seconds: float) -> None:
        if self.gates is None:
            self._clock.sleep(seconds)
        else:
            self.gates.rest(seconds)

    def judge(self, *, counts: bool) -> Start:
        return self.gates.judge(counts=counts) if self.gates is not None else Start()

    def forget_settings(self) -> None:
        """Accept the present settings: the next run records which settings later runs must still have."""
        if self.gates is not None:
            self.gates.watch.forget_settings()

    @property
    def counters(self) -> tuple[EnergyCounter, ...]:
        return self._counters

    def look(self, paths: tuple[str, ...]) -> dict[str, str | None]:
        """Return the contents of the files; None for an unreadable file."""
        return {path: _text(reading) for path, reading in self._machine.read(paths).items()}

    def now_ns(self) -> int:
        return self._clock.monotonic_ns()

    def _energy(self) -> tuple[tuple[EnergyCounter, ...], tuple[str, ...]]:
        found = self._machine.list([*PATTERNS, *INSTANTS])
        readings = self._machine.read([path for pattern in PATTERNS for path in found[pattern]])
        shown = {path: _text(reading) for path, reading in readings.items() if reading is not None}
        notes = []
        every = counters(shown)
        usable = tuple(counter for counter in every if shown[counter.path] is not None)
        if closed := [counter for counter in every if counter not in usable]:
            reading = readings[closed[0].path]
            why = (reading.unreadable or reading.invalid) if reading is not None else None
            names = ", ".join(counter.domain for counter in closed)
            notes.append(f"energy of {names} is not measured: {why or 'its counter cannot be read'}")
        elif not every:
            notes.append("energy is not measured: this machine has no RAPL, hwmon or battery counter")
        if not every and any(found[pattern] for pattern in INSTANTS):
            notes.append("sensors of instantaneous power are not used: nothing is read during a run")
        return usable, tuple(notes)


class RunWatching:
    """The readings and the recording around one run; implements `bench.record.Watch`."""

    def __init__(
        self, around: Around, watched: tuple[str, ...], beside: RunWatch | None, recorded: RunRecording | None = None
    ) -> None:
        self._around = around
        self._watched = watched
        self._beside = beside
        self._recorded = recorded
        self._energy_files = tuple(path for counter in around.counters for path in counter.files)
        self._looks: list[tuple[int, dict[str, str | None]]] = []

    def begin(self) -> None:
        """Read conditions, then counters, and start the recording last, closest to the run."""
        if self._beside is not None:
            self._beside.begin()
        self._look()
        if self._recorded is not None:
            self._recorded.begin()

    def end(self) -> None:
        if self._recorded is not None:
            self._recorded.end()
        self._look()
        if self._beside is not None:
            self._beside.end()

    def close(self) -> None:
        if self._recorded is not None:
            self._recorded.close()
        if self._beside is not None:
            self._beside.close()

    def conditions(self, start: Start) -> Conditions | None:
        """Return the conditions around the run; None if they were not observed."""
        return self._beside.conditions(start.readings) if self._beside is not None else None

    @property
    def suspended_s(self) -> float:
        return self._beside.suspended_s if self._beside is not None else 0.0

    @property
    def misread(self) -> tuple[str, ...]:
        """Paths that a transaction set and whose values, in force before the first run, are no longer in force."""
        return self._beside.misread if self._beside is not None else ()

    @property
    def parts(self) -> dict[str, bytes]:
        """Data to store with the run besides the tool's output."""
        return self._beside.parts if self._beside is not None else {}

    @property
    def files(self) -> dict[str, bytes]:
        """The counters and the recording that the benchmark requested."""
        recorded = self._recorded.files if self._recorded is not None else {}
        if not self._watched or len(self._looks) < 2:
            return recorded
        before, after = (
            {path: text for path in self._watched if (text := look[path]) is not None} for _, look in self._looks
        )
        return {**recorded, WATCHED: msgspec.json.encode(Watched(before=before, after=after, seconds=self._seconds))}

    def energy(self) -> tuple[tuple[tuple[Measurement, Outcome], ...], tuple[str, ...]]:
        """Return joules and watts of each domain, and notes on domains without values."""
        found: list[tuple[Measurement, Outcome]] = []
        notes = []
        if len(self._looks) == 2:
            (_, before), (_, after) = self._looks
            for counter in self._around.counters:
                try:
                    used = consumed(counter, before, after, self._seconds)
                except BadRun as error:
                    notes.append(f"energy of {counter.domain} is unknown: {error.message}")
                else:
                    found += measurements(counter, used, self._seconds)
        return tuple(found), tuple(notes)

    @property
    def _seconds(self) -> float:
        (first_ns, _), (last_ns, _) = self._looks
        return (last_ns - first_ns) / 1e9

    def _look(self) -> None:
        now_ns = self._around.now_ns()
        self._looks.append((now_ns, self._around.look((*self._energy_files, *self._watched))))


def _text(reading: Reading | None) -> str | None:
    return reading.text if reading is not None else None

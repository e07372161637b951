# SPDX-License-Identifier: Apache-2.0
"""The background load of a suite: started before each run, alive until its end, its own throughput recorded."""

from __future__ import annotations

import msgspec

from ktrial.domain.benchmark import Invocation, Measurement, RawOutput
from ktrial.domain.errors import BadRun, KtrialError
from ktrial.domain.run import LOAD_THROUGHPUT, LoadRecord
from ktrial.domain.suite import LOAD_FILE, SETTLE_S, SuiteLoad
from ktrial.formats.stress_ng import read_stress_ng
from ktrial.services.availability import install_command, package_tool
from ktrial.services.ports import Clock, Executor, RunningLoad

#: A load that nobody ends any more ends by itself after a day.
LIMIT_S = 86_400.0
_PACKAGES = {"apt": "stress-ng", "dnf": "stress-ng", "pacman": "stress-ng", "zypper": "stress-ng"}


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the load: its record, its output, and its throughput or why there is none."""

    record: LoadRecord
    raw: RawOutput
    throughput: Measurement | None = None
    failure: str | None = None


class Background:
    """One load, as often as it is wanted."""

    def __init__(self, load: SuiteLoad, cpus: int, executor: Executor, clock: Clock) -> None:
        self._workers = load.workers(cpus)
        self._argv = load.argv(cpus)
        self._executor = executor
        self._clock = clock

    def check(self) -> None:
        """Raise KtrialError when it cannot be started here: without it the suite would measure something else."""
        programs = self._executor.programs([self._argv[0], "apt-get", "dnf", "pacman", "zypper"])
        if programs[self._argv[0]] is None:
            install = install_command(_PACKAGES, package_tool(programs))
            raise KtrialError(
                f"the suite's background load needs {self._argv[0]}, which is not installed",
                hint=install or f"install {self._argv[0]}",
            )

    def start(self) -> RunningLoad:
        """Start it and let it settle."""
        running = self._executor.start(Invocation(argv=self._argv, limit_s=LIMIT_S, files=(LOAD_FILE,)))
        try:
            self._clock.sleep(SETTLE_S)
        except BaseException:
            running.stop()
            raise
        return running

    def finish(self, running: RunningLoad) -> Ended:
        """End it and read what it got done."""
        alive = running.alive()
        raw = running.stop()
        record = LoadRecord(argv=self._argv, workers=self._workers, alive_at_end=alive)
        if not alive:
            said = raw.failed or raw.stderr.decode("utf-8", "backslashreplace").strip().rpartition("\n")[2]
            failure = "the background load ended before the benchmark" + (f"; it said: {said}" if said else "")
            return Ended(record=record, raw=raw, failure=failure)
        try:
            rate = read_stress_ng(raw.files.get(LOAD_FILE, b""), LOAD_FILE).stressors[0].rate
        except BadRun as error:
            return Ended(record=record, raw=raw, failure=f"the background load's own figures: {error.message}")
        return Ended(
            record=record,
            raw=raw,
            throughput=Measurement(outcome=LOAD_THROUGHPUT.name, value=rate.value, original=rate.original),
        )

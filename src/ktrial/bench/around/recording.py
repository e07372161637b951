# SPDX-License-Identifier: Apache-2.0
"""The recording beside one run, and the phases in it, as files of the run."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from ktrial.bench.benchmark import PHASES, RECORDING, RECORDING_FAILED
from ktrial.bench.run.ports import RunRecorder
from ktrial.kit.errors import KtrialError
from ktrial.recordings.ktrial import read_recording
from ktrial.recordings.model import is_telling


class RunRecording:
    """Begins and ends with the run; what fails becomes a file that says why."""

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder
        self._goes_on = False
        self._data: bytes | None = None
        self._failed: str | None = None

    def begin(self) -> None:
        """The run begins directly after this."""
        try:
            self._recorder.start()
            self._goes_on = True
        except KtrialError as error:
            self._failed = error.message

    def end(self) -> None:
        """The run has ended."""
        if not self._goes_on:
            return
        self._goes_on = False
        try:
            self._data = self._recorder.stop()
        except KtrialError as error:
            self._failed = error.message

    def close(self) -> None:
        """Whatever became of the run, nothing records any more."""
        with suppress(KtrialError):
            self.end()

    @property
    def files(self) -> dict[str, bytes]:
        """The recording and its phases, or why there is none."""
        if self._failed is not None:
            return {RECORDING_FAILED: self._failed.encode()}
        return {} if self._data is None else {RECORDING: self._data, **_phases(self._data)}


def _phases(data: bytes) -> dict[str, bytes]:
    """The phases, where the recording can be read; what is wrong with it the benchmark says."""
    from ktrial.recordings.phases import phases_of

    try:
        recording = read_recording(data, RECORDING, is_telling)
    except KtrialError:
        return {}
    return {PHASES: msgspec.json.encode([(one.name, one.begin_s, one.end_s) for one in phases_of(recording).phases])}

# SPDX-License-Identifier: Apache-2.0
"""A recording beside a run becomes files of the run, or a file that says why there is none."""

from __future__ import annotations

import msgspec
import pytest

from ktrial.bench.adapters.watch.adapter import BENCHMARK
from ktrial.bench.around.around_run import RunRecording
from ktrial.bench.benchmark import RawOutput
from ktrial.kit.errors import AgentError, BadInput, BadRun
from ktrial.machine.facts import FactBook
from tests.support.written_recordings import START_NS, layout, recording, samples

FAULTS = {"vmstat.allocstall_normal": {"unit": "count", "per_unit": 1, "kind": "counter"}}
TIMES = [START_NS + second * 10**9 for second in range(3)]
DATA = recording(layout(0, "vmstat_all", FAULTS), samples(0, TIMES, [[5, 6, 9]]))


class Recorder:
    """Records what it is given, or fails where it is told to."""

    def __init__(self, *, starts: bool = True, ends: bool = True) -> None:
        self.starts, self.ends, self.stopped = starts, ends, 0

    def start(self) -> None:
        if not self.starts:
            raise AgentError("privilege", "root was not granted")

    def stop(self) -> bytes:
        self.stopped += 1
        if not self.ends:
            raise AgentError("lost", "the agent was lost")
        return DATA


def recorded(recorder: Recorder) -> RunRecording:
    made = RunRecording(recorder)
    made.begin()
    made.end()
    made.close()
    return made


def parsed(files: dict[str, bytes], **parameters: object) -> dict[str, float]:
    raw = RawOutput(files=files, exit_status=0)
    found = BENCHMARK.parse(raw, {**BENCHMARK.parameters, **parameters})
    return {one.outcome: one.value for one in found.measurements}


def test_the_recording_and_its_phases_are_files_and_the_benchmark_reads_them() -> None:
    recorder = Recorder()
    files = recorded(recorder).files
    assert recorder.stopped == 1
    assert files["recording.ktr"] == DATA
    assert msgspec.json.decode(files["phases.json"]) == [["whole", 0.0, 2.0]]
    assert parsed(files)["allocation-stalls"] == pytest.approx(2.0)
    assert parsed(files, skip_s=1)["allocation-stalls"] == pytest.approx(3.0)


@pytest.mark.parametrize(
    "recorder, why", [(Recorder(starts=False), "was not granted"), (Recorder(ends=False), "was lost")]
)
def test_a_failure_fails_the_run_with_its_reason(recorder: Recorder, why: str) -> None:
    with pytest.raises(BadRun, match=why):
        parsed(recorded(recorder).files)


def test_a_run_without_a_recording_or_with_half_of_one_has_no_value() -> None:
    with pytest.raises(BadRun, match="recorded nothing"):
        parsed({})
    half = recording(layout(0, "vmstat_all", FAULTS), samples(0, TIMES, [[5, 6, 9]]), tail=None)
    with pytest.raises(BadRun, match="incomplete"):
        parsed({"recording.ktr": half})
    with pytest.raises(BadRun, match="skip_s = 5"):
        parsed({"recording.ktr": DATA}, skip_s=5)


def test_figures_per_phase_are_told_where_they_are_asked_for() -> None:
    files = {"recording.ktr": DATA, "phases.json": b'[["warm-up", 0.0, 1.0], ["steady state", 1.0, 2.0]]'}
    found = parsed(files, per_phase=True)
    assert (found["warm-up.allocation-stalls"], found["steady.allocation-stalls"]) == pytest.approx((1.0, 3.0))
    assert "steady.allocation-stalls" not in parsed(files)


@pytest.mark.parametrize(
    "parameters, says",
    [
        ({"program": "'open"}, "a quote is not closed"),
        ({"program": 5}, "expected a command line"),
        ({"limit_ms": -1}, "limit_ms: expected .* got -1"),
        ({"limit_ms": True}, "limit_ms: expected .* got True"),
        ({"duration_s": 10, "skip_s": 10}, "skip_s = 10 leaves nothing to measure in 10 seconds"),
        ({"per_phase": "yes"}, "expected true or false"),
    ],
)
def test_parameters_that_make_no_sense(parameters: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        BENCHMARK.invocation(parameters, FactBook({}))


def test_a_program_is_started_so_that_its_number_is_known() -> None:
    invocation = BENCHMARK.invocation({"program": "env DISPLAY=:0 ./game --level 'a b'"}, FactBook({}))
    assert invocation.argv[3:] == ("env", "DISPLAY=:0", "./game", "--level", "a b")
    assert invocation.files == ("pid",)
    assert invocation.records
    assert BENCHMARK.invocation({}, FactBook({})).argv == ("sleep", "600")

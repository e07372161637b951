# SPDX-License-Identifier: Apache-2.0
"""The background load's own throughput, over the time of the benchmark beside it."""

from __future__ import annotations

import msgspec
import pytest

from ktrial.bench.around.load import Background, LoadEnded
from ktrial.bench.record import Execution
from ktrial.bench.suite import SuiteLoad
from tests.support.bench import SPIN_REPLY, FakeClock, FakeExecutor, FakeLoad, answer

MILLISECOND_NS = 1_000_000


def finished(began_ms: float, took_ms: float, **changes: object) -> LoadEnded:
    """The end of a `spin` beside a run that took `took_ms` from `began_ms` on."""
    reply = msgspec.json.decode(SPIN_REPLY)
    reply["results"].update(changes)
    load = FakeLoad([], dies=False, yaml=b"", spins=True, reply=msgspec.json.encode(reply))
    run = Execution(
        argv=(),
        environment={},
        directory="/",
        started_monotonic_ns=int(began_ms * MILLISECOND_NS),
        started_unix_ms=1,
        raw=msgspec.structs.replace(answer(), wall_ns=int(took_ms * MILLISECOND_NS)),
    )
    return Background(SuiteLoad(use="spin"), 2, FakeExecutor(), FakeClock()).finish(load, run)


@pytest.mark.parametrize(
    "began_ms,took_ms,wanted",
    [
        (0, 1000, 200.0),
        (1000, 1000, 100.0),
        (500, 1000, 150.0),
        # Halves of slices.
        (995, 10, 150.0),
        (12, 3, 200.0),
        # What came after the end of the load is nothing.
        (1500, 1000, 50.0),
    ],
)
def test_only_what_was_done_beside_the_run_counts(began_ms: float, took_ms: float, wanted: float) -> None:
    throughput = finished(began_ms, took_ms).throughput
    assert throughput is not None
    assert throughput.value == pytest.approx(wanted)


def test_the_last_slice_may_be_unfinished() -> None:
    # 100 slices of two rounds, then 50 rounds in the half second that was not counted by slices.
    throughput = finished(1000, 500, rounds=250, slices=[2] * 100, elapsed_ns=1500 * MILLISECOND_NS).throughput
    assert throughput is not None
    assert throughput.value == pytest.approx(100.0)


@pytest.mark.parametrize(
    "began_ms,took_ms,changes",
    [(10, 10, {"start_ns": 20 * MILLISECOND_NS}), (10, 0, {}), (10, 10, {"slice_ns": 0}), (10, 10, {"slices": "x"})],
)
def test_a_load_that_was_not_counted_beside_the_run_fails_it(
    began_ms: float, took_ms: float, changes: dict[str, object]
) -> None:
    ended = finished(began_ms, took_ms, **changes)
    assert ended.throughput is None
    assert ended.failure is not None
    assert ended.failure.startswith("the background load gave no figures: ")

# SPDX-License-Identifier: Apache-2.0
"""What ktrial writes in other tools' formats comes back through its own importers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.domain.foreign import ForeignResults, ImportOptions
from ktrial.domain.stored import SessionRuns, StoredMeasurement
from ktrial.exporters import run_exporters
from ktrial.imports.registry import all_importers
from tests.support.stores import a_run, a_session

TIMES = st.lists(st.floats(min_value=1e-6, max_value=1e6), min_size=2, max_size=6)
#: Exporter -> importer of the same format.
PAIRS = {"csv": "ktrial-csv", "hyperfine": "hyperfine", "gobench": "go-bench"}


def there_and_back(format_: str, stock: list[float], tuned: list[float]) -> ForeignResults:
    """Two sessions of one benchmark, written and read."""
    sessions = []
    for label, values in (("stock", stock), ("tuned", tuned)):
        runs = tuple(
            a_run(
                number,
                session=label,
                benchmark="wakeup",
                measurements=(
                    StoredMeasurement(outcome="time", value=value, unit="s", direction="lower", original=f"{value} s"),
                ),
            )
            for number, value in enumerate(values, 1)
        )
        sessions.append(SessionRuns(session=a_session(label, label=label), runs=runs))
    data = run_exporters()[format_][1](sessions).data
    importer = all_importers()[PAIRS[format_]]
    assert importer.sniff(data[: 1 << 16], f"results.{format_}")
    return importer.read(data, f"results.{format_}", ImportOptions())


@pytest.mark.parametrize("format_", sorted(PAIRS))
@given(stock=TIMES, tuned=TIMES)
def test_every_number_comes_back(format_: str, stock: list[float], tuned: list[float]) -> None:
    found = there_and_back(format_, stock, tuned)
    values = [one.value for run in found.runs for one in run.measurements]
    assert values == pytest.approx([*stock, *tuned], rel=1e-12)
    assert {one.unit for run in found.runs for one in run.measurements} == {"s"}
    assert not any(run.failure for run in found.runs)


@pytest.mark.parametrize("format_", ["csv"])
def test_groups_and_directions_come_back(format_: str) -> None:
    found = there_and_back(format_, [1.0, 2.0], [3.0])
    assert [(run.group, run.benchmark, run.measurements[0].value) for run in found.runs] == [
        ("stock", "wakeup", 1.0),
        ("stock", "wakeup", 2.0),
        ("tuned", "wakeup", 3.0),
    ]
    assert {run.measurements[0].direction for run in found.runs} == {"lower"}

# SPDX-License-Identifier: Apache-2.0
"""A million measurements in a store: imported, listed and grouped, beside DuckDB, which reads them from a CSV."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from ktrial.results.model import StoredMeasurement, StoredRun, StoredSession
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from perf.side_by_side import Action, measure, report

SESSIONS = 100
RUNS = 1000
OUTCOMES = tuple(f"outcome-{number}" for number in range(10))
ROUNDS = 7
PEER = "DuckDB groups the CSV"
_GROUPING = """SELECT benchmark, outcome, label, count(*), avg(value), min(value), max(value)
    FROM read_csv('{file}') GROUP BY ALL ORDER BY ALL"""


def sessions() -> Iterator[tuple[StoredSession, list[tuple[StoredRun, Mapping[str, bytes]]]]]:
    """Yield a hundred sessions of a thousand runs with ten numbers each."""
    chance = random.Random(7)
    for number in range(SESSIONS):
        name = f"session-{number:03d}"
        session = StoredSession(
            session=name,
            suite="perf",
            label="stock" if number % 2 else "tuned",
            origin="bench",
            kernel_release="6.18",
            boot_id="boot",
            started_unix_ms=number,
            runs={},
            document={},
        )
        yield session, [(_run(name, run, chance), {}) for run in range(1, RUNS + 1)]


def _run(session: str, number: int, chance: random.Random) -> StoredRun:
    benchmark = f"benchmark-{number % 5}"
    values = [(outcome, chance.lognormvariate(0, 0.1)) for outcome in OUTCOMES]
    return StoredRun(
        session=session,
        number=number,
        benchmark=benchmark,
        state="ok",
        warm_up=False,
        started_unix_ms=number,
        measurements=tuple(
            StoredMeasurement(outcome=outcome, value=value, unit="s", direction="lower", original=f"{value} s")
            for outcome, value in values
        ),
        raw={},
        document={},
    )


def main() -> int:
    """Measure and print; return 1 if a goal was missed."""
    with tempfile.TemporaryDirectory(prefix="ktrial-perf-") as folder:
        store = Store(Database.open(f"{folder}/results.db"))
        file = Path(folder) / "results.csv"
        took_s = _fill(store, file)
        count = SESSIONS * RUNS * len(OUTCOMES)
        print(f"{count} measurements brought in within {took_s:.1f} s: {count / took_s:.0f} a second")
        own = {(one.benchmark, one.outcome, one.label): (one.n, one.mean) for one in store.grouped()}
        theirs = {row[:3]: (row[3], row[4]) for row in _peer(file)}
        assert own.keys() == theirs.keys()
        assert all(abs(own[key][1] / theirs[key][1] - 1) < 1e-9 and own[key][0] == theirs[key][0] for key in own)
        actions: dict[str, Action] = {
            PEER: lambda: _peer(file),
            "the store groups": store.grouped,
            "the store lists its sessions": store.sessions,
        }
        met = report(measure(actions, ROUNDS), PEER, {"the store groups": 3.0})
        store.close()
        return 0 if met else 1


def _peer(file: Path) -> list[tuple[Any, ...]]:
    found = duckdb.sql(_GROUPING.format(file=file))
    assert found is not None
    return found.fetchall()


def _fill(store: Store, file: Path) -> float:
    """Fill the store and the CSV; return the seconds that the store took."""
    took_s = 0.0
    with file.open("w", encoding="utf-8") as csv:
        csv.write("session,run,benchmark,outcome,label,value\n")
        for session, runs in sessions():
            began = time.perf_counter()
            store.save_all(session, runs)
            took_s += time.perf_counter() - began
            csv.writelines(
                f"{session.session},{run.number},{run.benchmark},{one.outcome},{session.label},{one.value!r}\n"
                for run, _ in runs
                for one in run.measurements
            )
    return took_s


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""A process that records runs is killed at any moment: what it had finished is there, once, and the rest is told."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg

from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from tests.results.system.test_database import mounted
from tests.support.stores import a_session

CHECKOUT = Path(__file__).resolve().parents[3]
#: `./check --full` kills ten times as often.
KILLS = 200 if os.environ.get("KTRIAL_FUZZ") == "new" else 20
#: Kills come after so many runs at most.
MOST_RUNS = 3
#: Forks a recorder for each line of its input. One records runs and says the number of each when it is kept.
NURSERY = """
import os, sys
from ktrial.kit.errors import KtrialError
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from tests.support.stores import a_run
import sqlalchemy.dialects.sqlite, psycopg
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # at once, or a kill leaves half a line
def record(url, number, size):
    store = Store(Database.open(url))
    say("ready")
    while True:
        try:
            store.start("s1", number, "wakeup", number)
            store.save(a_run(number, float(number)), {"stdout": b"%d" % number, "stderr": os.urandom(size)})
        except KtrialError as error:
            say("failed", error.message)
        else:
            say(number)
        number += 1
for line in sys.stdin:
    url, number, size = line.split()
    child = os.fork()
    if child == 0:
        record(url, int(number), int(size))
    say("child", child)
    say("ended", os.waitpid(child, 0)[1])
"""


class Nursery:
    """Makes recorders, one after the other, and kills each."""

    def __init__(self, url: str, size: int) -> None:
        self._url = url
        self._size = size
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONPATH": "."},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._run_s = 0.02

    def killed(self, first: int, chosen: random.Random) -> tuple[set[int], list[str]]:
        """A recorder that records from `first` on and is killed: numbers of the runs it had finished, and failures."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{self._url} {first} {self._size}\n")
        self._process.stdin.flush()
        child, lines = None, []
        while child is None or "ready" not in lines:
            word, _, rest = self._line().partition(" ")
            child = int(rest) if word == "child" else child
            lines.append(word)
        lines.clear()
        began = time.monotonic()
        for count in range(1, chosen.randint(0, MOST_RUNS) + 1):
            lines.append(self._line())
            self._run_s = (time.monotonic() - began) / count
        time.sleep(chosen.uniform(0, 1.5 * self._run_s))
        os.kill(child, signal.SIGKILL)
        while not lines or not lines[-1].startswith("ended"):
            lines.append(self._line())
        assert lines.pop() == "ended 9"
        failed = [line for line in lines if line.startswith("failed")]
        return {int(line) for line in lines if line not in failed}, failed

    def end(self) -> None:
        """No more recorders."""
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")


def backends(url: str) -> set[int]:
    """Processes of the server that serve a client of this database; none of SQLite."""
    if "://" not in url:
        return set()
    listed = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name <> 'looks'"
    with psycopg.connect(url, autocommit=True, application_name="looks") as connection:
        return {row[0] for row in connection.execute(listed)}


def check(store: Store, finished: set[int]) -> int:
    """All that was finished is there with its raw output, once, and nothing runs any more; the next number."""
    gone = store.mark_interrupted()
    assert len(gone) <= 1, "no more than the run in flight"
    runs = list(store.runs("s1"))
    numbers = [run.number for run in runs]
    assert len(numbers) == len(set(numbers))
    states = {run.number: run.state for run in runs}
    assert set(states.values()) <= {"ok", "interrupted"}
    whole = {number for number, state in states.items() if state == "ok"}
    assert finished <= whole
    for run in runs:
        if run.state == "ok":
            assert [one.value for one in run.measurements] == [run.number]
            assert store.raw(run.raw["stdout"]) == str(run.number).encode()
        else:
            assert (run.document, dict(run.raw)) == (None, {})
    assert sum(series.n for series in store.grouped()) == len(whole)
    return max(numbers, default=0) + 1


def test_nothing_is_lost_or_doubled_by_kills(store: Store, url: str) -> None:
    chosen = random.Random(None if KILLS > 20 else 7)
    store.begin(a_session())
    nursery, finished, first = Nursery(url, 3000), set[int](), 1
    for _ in range(KILLS):
        before = backends(url)
        found, failed = nursery.killed(first, chosen)
        assert failed == []
        finished |= found
        while backends(url) - before:
            time.sleep(0.002)  # what a dead client had sent, a server still carries out
        first = check(store, finished)
    nursery.end()
    assert len(finished) > KILLS / 2, "it does record between kills"
    assert store.sessions()[0].runs.get("interrupted", 0) > KILLS / 10, "some kills fall into a run"


def test_nothing_is_lost_by_kills_on_a_full_disk(tmp_path: Path) -> None:
    chosen = random.Random(None if KILLS > 20 else 7)
    with mounted(tmp_path / "small", "size=2m") as folder:
        path = str(folder / "results.db")
        store = Store(Database.open(path))
        store.begin(a_session())
        nursery, finished, first, failures = Nursery(path, 60_000), set[int](), 1, 0
        for _ in range(KILLS):
            found, failed = nursery.killed(first, chosen)
            finished |= found
            failures += len(failed)
            first = check(store, finished)
        nursery.end()
        store.close()
    assert failures > KILLS / 4, "the disk was full"
    assert len(finished) > 3

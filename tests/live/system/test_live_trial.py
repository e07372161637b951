# SPDX-License-Identifier: Apache-2.0
"""Real live trials of seconds on a folder that stands for a machine: a program writes its latency into a log."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ktrial.judge.model.log import BlockVoided, TrialEnd
from tests.support.terminal import KTRIAL
from tests.support.tree import FakeRoot, Ran, use_compiled_catalog
from tests.support.trial_process import TrialProcess, log_of, runs_in, verdict_in, wait_until_blocks

SWAPPINESS = "/proc/sys/vm/swappiness"
#: Latency in milliseconds by the value of the knob.
LATENCY_MS = {"60": 10.0, "10": 8.0, "90": 60.0}


TIMES = ("--period", "0.4s", "--washout", "0.1s", "--poll", "0.1s")
#: Periods in which a guard sees enough samples.
LONGER = ("--period", "8s", "--washout", "0.2s", "--poll", "0.2s")


class Service:
    """Logs a request each 5 ms, and when the knob had which value."""

    def __init__(self, machine: FakeRoot, log: Path) -> None:
        self._machine = machine
        self.log = log
        self.values: list[tuple[float, str]] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Service:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _serve(self) -> None:
        noise = random.Random(7)
        with self.log.open("a", buffering=1) as log:
            while not self._ends.wait(0.005):
                value = self._machine.read(SWAPPINESS).strip()
                if value not in LATENCY_MS:
                    continue  # it is just being written
                self.values.append((time.monotonic(), value))
                log.write(f"took {LATENCY_MS[value] * noise.lognormvariate(0, 0.02):.4f} ms\n")

    def harm_s(self) -> float:
        """The longest time for which the harmful value was in force."""
        stretches = [
            list(group) for value, group in itertools.groupby(self.values, lambda one: one[1]) if value == "90"
        ]
        return max((stretch[-1][0] - stretch[0][0] for stretch in stretches), default=0.0)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "KTRIAL_STORE"):
        monkeypatch.delenv(name, raising=False)
    use_compiled_catalog(folder)
    return folder


@pytest.fixture
def machine(tmp_path: Path) -> FakeRoot:
    machine = FakeRoot(tmp_path / "machine")
    machine.write("/.ktrial-test-machine", "")
    return machine


@pytest.fixture
def service(machine: FakeRoot, tmp_path: Path) -> Iterator[Service]:
    with Service(machine, tmp_path / "app.log") as found:
        yield found


def words(service: Service, value: int, *more: str, times: Sequence[str] = TIMES) -> tuple[str, ...]:
    metric = f"lat_ms:lower=log:{service.log}?match=took ([0-9.]+) ms&take=p50"
    return ("live", f"vm.swappiness={value}", "--metric", metric, *times, *more)


def live(machine: FakeRoot, service: Service, value: int, *more: str, times: Sequence[str] = TIMES) -> Ran:
    return machine.run(*words(service, value, *more, times=times))


def test_a_planted_effect_is_found_and_everything_is_restored(home: Path, machine: FakeRoot, service: Service) -> None:
    load = f"lines_per_s:higher=log:{service.log}?match=(took)&take=count"
    ran = live(machine, service, 10, "--budget", "quick", "--covariate", load, "--adjust")
    assert ran.status == 0, ran.err
    assert "live.lat, lower is better, margin 2 %, at equal lines_per_s" in ran.err
    assert verdict_in(home) == "better"
    assert "the verdict is at equal lines_per_s; as measured, the change of swappiness-10 is" in " ".join(
        ran.out.split()
    )
    assert machine.read(SWAPPINESS) == "60\n"
    assert "swappiness-10 in force, watching until" in ran.err
    values = {event.arm: event.measurements["live.lat"] for event in runs_in(log_of(home))}
    assert values["control"] == pytest.approx(0.010, rel=0.02)
    assert values["swappiness-10"] == pytest.approx(0.008, rel=0.02)
    assert machine.run("trial", "recheck").status == 0
    assert " 0 changed" in machine.run("reparse").out


def test_a_limit_ends_the_trial_and_restores_the_setting_at_once(
    home: Path, machine: FakeRoot, service: Service
) -> None:
    ran = live(machine, service, 90, "--limit-metric", "lat_ms=30")
    assert (ran.status, "lat_ms is " in ran.err) == (3, True), ran.err
    assert machine.read(SWAPPINESS) == "60\n"
    assert 0 < service.harm_s() < 2
    last = log_of(home)[-1]
    assert isinstance(last, TrialEnd)
    assert re.fullmatch(r"stopped: lat_ms is [56][0-9.]+ \(limit 30\)", last.reason), last.reason


def test_a_guard_restores_the_setting_within_seconds(home: Path, machine: FakeRoot, service: Service) -> None:
    ran = live(machine, service, 90, "--guard", "lat_ms=20%", times=LONGER)
    assert (ran.status, "lat_ms in swappiness-90" in ran.err) == (3, True), ran.err
    assert "pilot: 16 s that changes nothing, to learn the usual values" in ran.err
    assert machine.read(SWAPPINESS) == "60\n"
    assert 0 < service.harm_s() < 10
    last = log_of(home)[-1]
    assert isinstance(last, TrialEnd)
    assert last.reason.startswith("stopped: lat_ms in swappiness-90")


def test_a_trial_is_paused_killed_and_continued(home: Path, machine: FakeRoot, service: Service) -> None:
    trial = TrialProcess(["--machine-root", str(machine.folder)], words(service, 10), home / "said")
    try:
        wait_until_blocks(home, 2)
        assert machine.run("trial", "pause").status == 0
        wait_for(lambda: "paused" in trial.said)
        assert machine.read(SWAPPINESS) == "60\n"
        assert machine.run("trial", "resume").status == 0
        wait_for(lambda: machine.read(SWAPPINESS) == "10\n")
        trial.kill("head")
        wait_for(lambda: machine.read(SWAPPINESS) == "60\n")
    finally:
        trial.end()
    ran = machine.run("trial", "resume")
    assert ran.status == 0, ran.err
    assert verdict_in(home) == "better"
    assert {event.cause for event in log_of(home) if isinstance(event, BlockVoided)} <= {"pause"}


def test_guards_of_a_killed_trial_know_what_they_knew(home: Path, machine: FakeRoot, service: Service) -> None:
    primary = f"lines_per_s:higher=log:{service.log}?match=(took)&take=count"
    guarded = words(service, 90, "--guard", "lat_ms=20%", "--primary", "lines_per_s", "--margin", "0.1%")
    trial = TrialProcess(["--machine-root", str(machine.folder)], (*guarded, "--metric", primary), home / "said")
    try:
        wait_until_blocks(home, 10)
        trial.kill("head")
        wait_for(lambda: machine.read(SWAPPINESS) == "60\n")
    finally:
        trial.end()
    before = len({event.block for event in runs_in(log_of(home))})
    ran = machine.run("trial", "resume")
    assert (ran.status, "lat_ms in swappiness-90: worse by" in ran.err) == (3, True), ran.err
    # Guards that had forgotten would need as many blocks again.
    assert before >= 5
    assert "over 8 blocks" in ran.err or "over 9 blocks" in ran.err, ran.err


def wait_for(happens: object) -> None:
    assert callable(happens)
    end = time.monotonic() + 10
    while not happens():
        assert time.monotonic() < end, "nothing happened for 10 s"
        time.sleep(0.02)


#: Has a system's log of its own, runs a command, and prints what came.
LOGGED = """
import socket, subprocess, sys
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.bind("/dev/log")
log.settimeout(1)
subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    while True:
        print(log.recv(4096).decode())
except TimeoutError:
    pass
"""


def test_the_systems_log_says_what_was_switched(
    home: Path, machine: FakeRoot, service: Service, disk_path: Path
) -> None:
    for folder in ("new", "work", "shm"):
        (disk_path / folder).mkdir()
    overlay = f"mount -t overlay -o lowerdir=/dev,upperdir={disk_path}/new,workdir={disk_path}/work overlay /dev"
    # The folders of the tests may be in /dev/shm, which an overlay hides.
    own_dev = f"mount --bind /dev/shm {disk_path}/shm && {overlay} && mount --bind {disk_path}/shm /dev/shm"
    command = [*KTRIAL, "--machine-root", str(machine.folder), *words(service, 10, "--limit-metric", "lat_ms=9.5")]
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{own_dev} && exec "$@"', "sh", sys.executable, "-c", LOGGED, *command],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = ran.stdout.splitlines()
    assert lines, ran.stderr
    # A user's notice, as the service of the system's log takes it.
    assert all(re.match(r"<13>.* ktrial\[[0-9]+\]: trial swappiness-10-[0-9a-f]+: ", line) for line in lines), lines
    assert lines[0].endswith(" is in force")
    assert ": restored: lat_ms is " in lines[-1]


def test_names_of_no_metric_are_refused_before_anything_is_watched(
    home: Path, machine: FakeRoot, service: Service
) -> None:
    for option in ("--guard", "--limit-metric"):
        ran = live(machine, service, 10, option, "latency=3")
        assert (ran.status, "unknown metric: 'latency'" in ran.err) == (2, True), ran.err
    assert machine.run("trial", "list").out.startswith("No trials yet")

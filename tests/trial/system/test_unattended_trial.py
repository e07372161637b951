# SPDX-License-Identifier: Apache-2.0
"""`--unattended`: trials whose blocks the machine carries out by itself, on a tree that stands for a machine.

A program of the tests replays outcomes: what the n-th run of a configuration gives is fixed in advance.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktrial.bench.around import start_gate
from ktrial.bench.around.idle import IdleWatch, LastInput
from ktrial.judge.model.log import BlockVoided, Event, RunEnded, TrialEnd
from tests.support.kept import records
from tests.support.tree import FakeRoot, Ran
from tests.support.trial_process import (
    LIMIT_S,
    TrialProcess,
    check_nothing_is_lost,
    log_of,
    runs_in,
    trials_in,
    verdict_in,
)
from tests.support.unattended import kill, workers

SWAPPINESS = "/proc/sys/vm/swappiness"
STATE = "/var/lib/ktrial"
TRY = ("try", "vm.swappiness=10", "--no-profile", "--seed", "5", "--name", "t", "--budget", "9")
QUICK = ("--settle", "0s")
METRIC = ("--metric", "value_ms:lower=value ([0-9]+)")
PROGRAMS = ("/usr/bin/sh",)


class Place:
    """A machine in a folder, a home for the head, and the program that replays outcomes."""

    def __init__(self, root: FakeRoot, folder: Path) -> None:
        self.root = root
        self.folder = folder
        self.home = Path(os.environ["HOME"])
        folder.mkdir()
        # Commands start in the head's folder, which the agent looks for below the root.
        (root.folder / str(folder).lstrip("/")).mkdir(parents=True)
        root.write("/.ktrial-test-machine", "")
        root.write("/proc/stat", "cpu  1 0 1 9 0 0 0 0 0 0\n")
        for program in PROGRAMS:
            target = root.folder / program.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(program, target)
        rng = random.Random(11)
        for value, center in ((60, 1000), (10, 900)):
            outcomes = [center + rng.randint(-40, 40) for _ in range(60)]
            (folder / f"outcomes-{value}").write_text("".join(f"{one}\n" for one in outcomes))
        self.script = folder / "replay.sh"
        self.begin_anew()

    def begin_anew(self, nap_s: float = 0.0) -> None:
        """Let the program begin with the first outcomes again; each run takes so long."""
        for value in (60, 10):
            (self.folder / f"runs-{value}").write_text("0\n")
        self.script.write_text(
            f"v=$(cat {self.root.folder}{SWAPPINESS}); cd {self.folder}\n"
            f"n=$(( $(cat runs-$v) + 1 )); echo $n > runs-$v; sleep {nap_s}\n"
            "echo value $(sed -n ${n}p outcomes-$v)\n"
        )

    def words(self, *more: str) -> tuple[str, ...]:
        return (*TRY, *more, *METRIC, "--", "sh", str(self.script))

    def run(self, *words: str) -> Ran:
        return self.root.run(*words)

    def start(self, *words: str) -> TrialProcess:
        return TrialProcess(["--machine-root", str(self.root.folder)], words, self.home / "said")

    @property
    def state(self) -> Path:
        return self.root.folder / STATE.lstrip("/")

    def workers(self) -> list[int]:
        return [
            pid
            for pid in workers(Path(STATE))
            if str(self.root.folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]

    def made(self) -> int:
        """How often the program ran; it may be writing that at the moment."""
        while True:
            texts = [(self.folder / f"runs-{value}").read_text() for value in (60, 10)]
            if all(texts):
                return sum(map(int, texts))

    def made_with(self, value: int) -> int:
        """How often the program ran with this value."""
        while not (text := (self.folder / f"runs-{value}").read_text()):
            pass
        return int(text)

    def is_as_before(self) -> bool:
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            if self.root.read(SWAPPINESS) == "60\n":
                return True
            time.sleep(0.01)
        return False


@pytest.fixture
def place(root: FakeRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    found = Place(root, tmp_path / "replay")
    monkeypatch.chdir(found.folder)
    yield found
    for pid in found.workers():
        kill(pid)


def wait_for_runs(place: Place, least: int) -> None:
    """Until a plan is being carried out and the program has run so often in it."""
    end = time.monotonic() + LIMIT_S
    while not place.workers():
        assert time.monotonic() < end, "no plan was started"
        time.sleep(0.01)
    before = place.made()
    while place.made() < before + least:
        assert time.monotonic() < end, "the plan makes no runs"
        time.sleep(0.01)


def replayed(measured: Any) -> Any:
    """What the program replays, without the times and the memory that it took to do so."""
    return {name: value for name, value in measured.items() if name == "sh.value"}


def events_of(log: tuple[Event, ...]) -> list[Event]:
    """The log with the replayed outcomes alone."""
    return [
        msgspec.structs.replace(event, measurements=replayed(event.measurements))
        if isinstance(event, RunEnded)
        else event
        for event in log
    ]


def told(record: dict[str, Any]) -> dict[str, Any]:
    """What a record says about its run, without its times and folders."""
    names = ("run", "benchmark", "argv", "details", "notes", "failure", "findings", "void", "cpus", "directory")
    said = {name: record[name] for name in names}
    said["measurements"] = [one for one in record["measurements"] if one["outcome"] == "value"]
    place = {name: record["trial"][name] for name in ("block", "arm", "kernel_release", "boot_id")}
    during = record["conditions"]["readings_during"]
    return {**said, **place, "environment": sorted(record["environment"]), "readings": sorted(during)}


@pytest.mark.parametrize("settle", ["0s", "100ms"])
def test_the_same_outcomes_give_the_same_log_as_in_a_conversation(place: Place, settle: str) -> None:
    ran = place.run(*place.words("--settle", settle))
    assert ran.status == 0, ran.err
    place.begin_anew()
    ran = place.run(*place.words("--settle", settle, "--unattended"))
    assert ran.status == 0, ran.err
    by_plan, by_talk = (events_of(log_of(place.home, number)) for number in (0, 1))
    assert by_plan == by_talk
    assert verdict_in(place.home) == "better"
    sessions = [one.session for one in trials_in(place.home)]
    kept = [[told(one) for one in records(place.home) if one["session"]["session"] == name] for name in sessions]
    assert kept[0] == kept[1]
    assert len(list((place.state / "unattended").glob("t-*"))) >= 1
    assert place.root.read(SWAPPINESS) == "60\n"
    assert place.run("trial", "recheck").status == 0
    left = list((place.home / ".local/state/ktrial/measuring/unattended").glob("*/run-*"))
    assert left == [], "folders of runs were left"


def test_a_killed_head_loses_no_run_and_makes_none_twice(place: Place) -> None:
    place.begin_anew(nap_s=0.05)
    process = place.start(*place.words(*QUICK, "--unattended"))
    wait_for_runs(place, 4)
    process.kill("head")
    process.wait()
    refused = place.run("trial", "resume")
    assert (refused.status, "is carrying out a plan" in refused.err) == (4, True), refused.err
    end = time.monotonic() + LIMIT_S
    while place.workers():
        assert time.monotonic() < end
        time.sleep(0.05)
    planned = place.made()
    refused = place.run("trial", "resume")
    assert (refused.status, "run `ktrial trial resume" in refused.err) == (4, True), refused.err
    place.begin_anew()
    ran = place.run("trial", "resume", "--unattended")
    assert ran.status == 0, ran.err
    check_nothing_is_lost(place.home)
    runs = runs_in(log_of(place.home))
    assert len(runs) >= 14, "seven blocks were in the first plan"
    assert planned >= 14
    # The runs of the first plan were fetched, and only warm-ups and later blocks were made after the kill.
    assert place.made() <= len(runs) - 14 + 5
    assert place.root.read(SWAPPINESS) == "60\n"


def test_ctrl_c_stops_the_plan_and_a_resume_goes_on(place: Place) -> None:
    place.begin_anew(nap_s=0.2)
    process = place.start(*place.words(*QUICK, "--unattended"))
    wait_for_runs(place, 3)
    process.process.send_signal(signal.SIGINT)
    assert process.wait() == 130, process.said
    assert place.workers() == []
    assert place.root.read(SWAPPINESS) == "60\n"
    place.begin_anew()
    ran = place.run("trial", "resume", "--unattended")
    assert ran.status == 0, ran.err
    check_nothing_is_lost(place.home)
    assert verdict_in(place.home) is not None


def test_a_killed_worker_is_told_and_a_resume_goes_on(place: Place) -> None:
    place.begin_anew(nap_s=0.1)
    process = place.start(*place.words(*QUICK, "--unattended"))
    wait_for_runs(place, 3)
    for pid in place.workers():
        kill(pid)
    assert process.wait() == 1
    assert "the process that carried out the plan was killed" in process.said
    assert place.is_as_before()
    assert runs_in(log_of(place.home)), "the runs before the kill were fetched"
    place.begin_anew()
    ran = place.run("trial", "resume", "--unattended")
    assert ran.status == 0, ran.err
    check_nothing_is_lost(place.home)


def test_trial_stop_ends_a_plan_and_keeps_its_runs(place: Place) -> None:
    place.begin_anew(nap_s=0.1)
    process = place.start(*place.words(*QUICK, "--unattended"))
    wait_for_runs(place, 3)
    process.kill("head")
    process.wait()
    ran = place.run("trial", "stop")
    assert (ran.status, "stopped t-" in ran.err) == (0, True), ran.err
    assert place.root.read(SWAPPINESS) == "60\n"
    place.begin_anew()
    assert place.run("trial", "resume", "--unattended").status == 0
    check_nothing_is_lost(place.home)


def test_a_value_changed_by_somebody_else_voids_its_block_and_another_is_made(place: Place) -> None:
    place.begin_anew(nap_s=0.2)
    process = place.start(*place.words(*QUICK, "--unattended"))
    wait_for_runs(place, 1)
    end, made = time.monotonic() + LIMIT_S, place.made_with(10)
    # A run in progress: before it, the agent reads the value back that it has written.
    while place.made_with(10) == made or place.root.read(SWAPPINESS) != "10\n":
        assert time.monotonic() < end
        time.sleep(0.005)
    # The value as found: the agent leaves it alone when it reverts the arm, so the next block is not affected.
    place.root.write(SWAPPINESS, "60\n")
    assert process.wait() == 0, process.said
    log = log_of(place.home)
    voids = [event for event in log if isinstance(event, BlockVoided)]
    assert [(one.arm, one.cause) for one in voids] == [("swappiness-10", "knob")]
    assert any(isinstance(event, TrialEnd) for event in log)
    void = {one.block for one in voids}
    counted = {event.block for event in log if isinstance(event, RunEnded) and event.block is not None} - void
    assert len(counted) >= 7


def test_a_limit_ends_the_trial(place: Place) -> None:
    place.root.write("/sys/class/hwmon/hwmon0/name", "coretemp\n")
    place.root.write("/sys/class/hwmon/hwmon0/temp1_input", "45000\n")
    place.begin_anew(nap_s=0.3)
    protocol = place.folder / "t.toml"
    protocol.write_text(
        f"""name = "t"
command = ["sh", "{place.script}"]
metrics = ["value_ms:lower=value ([0-9]+)"]
limits = {{ temperature = "90C" }}
[design]
settle = "0s"
[arms.control]
[arms.case]
set = {{ "vm.swappiness" = 10 }}
"""
    )
    process = place.start("trial", "run", str(protocol), "--no-profile", "--unattended")
    wait_for_runs(place, 1)
    place.root.write("/sys/class/hwmon/hwmon0/temp1_input", "95000\n")
    assert process.wait() == 3, process.said
    assert "the temperature is 95.0 °C (limit 90 °C)" in process.said
    assert place.workers() == []
    assert place.root.read(SWAPPINESS) == "60\n"
    assert isinstance(log_of(place.home)[-1], TrialEnd)


def test_a_plan_that_the_agent_refuses_leaves_no_folder(place: Place) -> None:
    (place.state / "unattended").mkdir(parents=True)
    with (place.state / "unattended/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ran = place.run(*place.words("--unattended", *QUICK))
    assert (ran.status, "this machine carries out another plan" in ran.err) == (1, True), ran.err
    (folders,) = place.home.rglob("unattended")
    assert list(folders.iterdir()) == []


def test_what_a_plan_cannot_carry_is_refused_by_name(place: Place) -> None:
    ran = place.run(*TRY, "--unattended", "--prepare", "true", *METRIC, "--", "sh", "-c", "date")
    assert (ran.status, "a plan cannot carry sh, which needs steps before its run" in ran.err) == (4, True), ran.err
    assert not (place.state / "unattended").exists()
    assert trials_in(place.home) == []


# In single steps ------------------------------------------------------------------------------------------------------


FIXED = """
name = "t"
command = ["sh", "{script}"]
metrics = ["value_ms:lower=value ([0-9]+)"]
baseline = "found"
design = {{ cap = 9, fixed = true, seed = 5, settle = "0s" }}

[arms.control]
[arms.less]
set = {{ "vm.swappiness" = 10 }}
"""
TURN = ("--unattended", "--turn", "--json")


def turn_of(done: Ran) -> dict[str, Any]:
    """Return what a step said about the trial."""
    assert done.status == 0, done.err
    events = [json.loads(line) for line in done.out.splitlines()]
    return next(event for event in events if event["event"] == "turn")


def test_a_trial_in_single_steps_makes_all_its_blocks(place: Place) -> None:
    """Its arms differ clearly after seven blocks; fixed blocks are made all the same."""
    file = place.folder / "trial.toml"
    file.write_text(FIXED.format(script=place.script))
    began = turn_of(place.run("trial", "run", str(file), *TURN, "--no-profile"))
    assert (began["state"], began["blocks"], began["cap"]) == ("running", 0, 9)
    end_s = time.monotonic() + LIMIT_S
    while (now := turn_of(place.run("trial", "resume", *TURN)))["state"] != "ended":
        assert time.monotonic() < end_s
        time.sleep(0.1)
    assert now["blocks"] == 9
    assert place.is_as_before()
    made = [(event.block, event.arm) for event in log_of(place.home) if isinstance(event, RunEnded) and event.block]
    assert len(made) == len(set(made)) == 18
    assert place.run("trial", "recheck").status == 0
    assert turn_of(place.run("trial", "resume", *TURN))["state"] == "ended"


def test_each_block_waits_for_an_idle_machine_and_one_with_input_is_made_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = [time.time()]
    monkeypatch.setattr(IdleWatch, "last_input", lambda _: LastInput(time.time() - inputs[-1], "/dev/tty1"))
    monkeypatch.setattr(start_gate, "BUSY_S", 0.01)
    file = place.folder / "trial.toml"
    file.write_text(FIXED.format(script=place.script))
    began = turn_of(place.run("trial", "run", str(file), *TURN, "--no-profile", "--when-idle"))
    assert (began["state"], began["blocks"], began["in_use"]) == ("running", 0, "/dev/tty1")
    assert began["next_look_s"] == 60
    assert place.made() == 0

    def look() -> dict[str, Any]:
        now = turn_of(place.run("trial", "resume", *TURN, "--when-idle"))
        while place.workers():
            time.sleep(0.02)
        return now

    inputs.append(0)
    assert look()["blocks"] == 0
    assert look()["blocks"] == 1, "a plan has one block"
    inputs.append(time.time())
    used = look()
    assert (used["blocks"], used["in_use"]) == (1, "/dev/tty1")
    (void,) = (event for event in log_of(place.home) if isinstance(event, BlockVoided))
    assert (void.block, void.cause, void.reason) == (2, "reading", "input during the run: /dev/tty1")
    inputs.append(0)
    assert look()["in_use"] is None
    assert look()["blocks"] == 2
    idle = place.run("trial", "stop", "t")
    assert (idle.status, "carries out no plan of t-" in idle.err) == (0, True), idle.err
    assert place.run("trial", "recheck").status == 0
    assert place.is_as_before()


def test_a_machine_refuses_the_plans_of_a_coordinator_that_another_one_replaced(place: Place) -> None:
    file = place.folder / "trial.toml"
    file.write_text(FIXED.format(script=place.script))
    turn_of(place.run("trial", "run", str(file), *TURN, "--no-profile", "--fence", "8"))
    while turn_of(place.run("trial", "resume", *TURN, "--fence", "8"))["state"] != "ended":
        time.sleep(0.1)
    file.write_text(FIXED.format(script=place.script).replace('name = "t"', 'name = "u"'))
    late = place.run("trial", "run", str(file), *TURN, "--no-profile", "--fence", "7")
    assert late.status == 4, late.err
    assert "another coordinator has taken over this machine" in late.err
    assert place.is_as_before()


def test_a_single_step_is_for_unattended_trials(place: Place) -> None:
    file = place.folder / "trial.toml"
    file.write_text(FIXED.format(script=place.script))
    done = place.run("trial", "run", str(file), "--turn")
    assert done.status == 2
    assert "--turn requires --unattended" in done.err

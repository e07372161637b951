# SPDX-License-Identifier: Apache-2.0
"""Plans that the agent carries out by itself, on this machine's kernel and on a tree that stands for a machine."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktrial.kit.errors import AgentError, Busy
from tests.support.unattended import (
    LIMIT_S,
    SWAPPINESS,
    Carrying,
    answers,
    kill,
    plan_of,
    shell,
    workers,
    write_arm,
)

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("real_machine")]
KNOB = Path(SWAPPINESS)
ARMS = {"control": {"beside": {SWAPPINESS: "60\n"}}, "case": write_arm(SWAPPINESS, "60\n", "10\n")}
READS = shell(f"id -u; cat {SWAPPINESS}")
KILLS = 30


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Carrying]:
    """A root session; the knob is as it was at the end."""
    before = KNOB.read_text()
    KNOB.write_text("60\n")
    carrying = Carrying(tmp_path / "state")
    try:
        yield carrying
    finally:
        for pid in workers(carrying.state):
            kill(pid)
        carrying.session.close()
        KNOB.write_text(before)


def visit(arm: str, *commands: dict[str, Any], block: int = 1) -> dict[str, Any]:
    return {"block": block, "arm": arm, "runs": [list(commands or (READS,))]}


def wait_for(what: str, text: str) -> None:
    """Until a file has this content."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if Path(what).exists() and Path(what).read_text() == text:
            return
        time.sleep(0.005)
    raise AssertionError(f"{what} never read {text!r}")


def wait_until_over(here: Carrying) -> None:
    end = time.monotonic() + LIMIT_S
    while here.session.request("unattended-status")["running"] is not None:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_visits_are_made_as_the_user_and_leave_nothing_behind(here: Carrying) -> None:
    visits = [visit("case"), visit("control"), visit("control", block=2), visit("case", block=2)]
    here.start(plan_of("x-1", 1, visits, ARMS, period_s=0.1))
    log = here.log("x-1")
    said = [one["stdout"] for one in answers(log, "exec")]
    assert said == [f"65534\n{value}\n" for value in (10, 60, 60, 10)]
    assert len(answers(log, "apply")) == len(answers(log, "revert")) == 2
    assert all(len(one["times_ns"]) >= 2 for one in answers(log, "samples"))
    assert [line["event"] for line in log if line["event"] != "answer"] == [
        "begun",
        *["visit", "run", "visit-ended"] * 4,
        "ended",
    ]
    assert (log[-1]["reason"], KNOB.read_text()) == ("done", "60\n")
    state = here.state_of("x-1")
    assert (state["state"], state["visits"], state["visits_ended"]) == ("ended", 4, 4)
    assert (here.state / "unattended/x-1/plan.json").stat().st_mode & 0o777 == 0o600


def test_a_plan_goes_on_without_the_session_that_started_it(here: Carrying) -> None:
    here.start(plan_of("x-1", 1, [visit("case", shell("sleep 0.5"))], ARMS))
    here.session.close()
    wait_for(SWAPPINESS, "10\n")
    here.session = here.connect()
    assert here.log("x-1")[-1]["reason"] == "done"
    assert KNOB.read_text() == "60\n"


def test_what_may_not_be_carried_out_is_refused_and_starts_nothing(here: Carrying) -> None:
    good = plan_of("x-1", 5, [visit("case")], ARMS)
    refusals: list[tuple[str, dict[str, Any], str | None]] = [
        ("SHA-256", good, "0" * 64),
        ("deadline has passed", {**good, "deadline_unix_ms": int(time.time() * 1000) - 1}, None),
        ("would run as root", {**good, "uid": 0}, None),
        ("no such user", {**good, "uid": 4_000_000_000}, None),
        (
            "arm case",
            {**good, "arms": {**ARMS, "case": write_arm("/etc/ktrial-test", "", "1\n")}},
            None,
        ),
        ("unknown field", {**good, "shell": True}, None),
    ]
    for word, plan, digest in refusals:
        with pytest.raises(AgentError) as refused:
            here.start(plan, digest)
        assert word in refused.value.message, refused.value.message
    assert here.session.request("unattended-status")["plans"] == []
    here.start(good)
    here.log("x-1")
    for token in (4, 5):
        with pytest.raises(AgentError) as refused:
            here.start(plan_of("x-2", token, [visit("case")], ARMS))
        assert f"token {token} is not above 5" in refused.value.message
    with pytest.raises(AgentError, match="started before"):
        here.start(plan_of("x-1", 6, [visit("case")], ARMS))
    assert KNOB.read_text() == "60\n"


def test_only_one_plan_is_carried_out_at_a_time(here: Carrying) -> None:
    here.start(plan_of("x-1", 1, [visit("case", shell("sleep 30"))], ARMS))
    wait_for(SWAPPINESS, "10\n")
    with pytest.raises(Busy, match="carries out x-1"):
        here.start(plan_of("x-2", 2, [visit("case")], ARMS))
    assert here.session.request("unattended-stop")["stopped"] == "x-1"


def test_a_stop_ends_the_command_and_restores_everything_at_once(here: Carrying) -> None:
    visits = [visit("case", shell("trap '' TERM; sleep 40")), visit("control")]
    here.start(plan_of("x-1", 1, visits, ARMS, period_s=1.0))
    wait_for(SWAPPINESS, "10\n")
    began = time.monotonic()
    assert here.session.request("unattended-stop")["stopped"] == "x-1"
    assert time.monotonic() - began < 20
    assert KNOB.read_text() == "60\n"
    log = here.log("x-1")
    assert log[-1]["reason"] == "stopped"
    assert not any(line["event"] == "visit-ended" for line in log)
    assert here.session.request("unattended-stop")["stopped"] is None


def test_the_deadline_ends_a_command_too(here: Carrying) -> None:
    plan = plan_of("x-1", 1, [visit("case", shell("sleep 40"))], ARMS)
    here.start({**plan, "deadline_unix_ms": int(time.time() * 1000) + 700})
    assert here.log("x-1")[-1]["reason"] == "deadline"
    assert KNOB.read_text() == "60\n"


def test_a_value_that_somebody_changed_voids_the_block_and_nothing_else(here: Carrying) -> None:
    visits = [visit("case", shell("sleep 1")), visit("control"), visit("control", block=2), visit("case", block=2)]
    here.start(plan_of("x-1", 1, visits, ARMS))
    wait_for(SWAPPINESS, "10\n")
    KNOB.write_text("33\n")
    log = here.log("x-1")
    (void,) = [line for line in log if line["event"] == "void" and line["visit"] == 0]
    assert (void["cause"], "is no longer as set" in void["reason"]) == ("knob", True)
    begun = [(line["block"], line["arm"]) for line in log if line["event"] == "visit"]
    # The agent leaves another's value alone, so the control of the next block is not as found either.
    assert begun == [(1, "case"), (2, "control")]
    assert KNOB.read_text() == "33\n"


def test_killed_at_any_moment_the_machine_is_as_before_and_the_log_is_whole(here: Carrying) -> None:
    rng = random.Random(20260)
    cut = 0
    for number in range(1, KILLS + 1):
        name = f"x-{number}"
        visits = [
            visit(arm, shell("sleep 0.15; echo 7"), block=block) for block in (1, 2) for arm in ("case", "control")
        ]
        here.start(plan_of(name, number, visits, ARMS, period_s=0.1))
        time.sleep(rng.uniform(0.0, 0.5))
        for worker in workers(here.state):
            kill(worker)
        wait_until_over(here)
        end = time.monotonic() + LIMIT_S
        while KNOB.read_text() != "60\n":
            assert time.monotonic() < end, f"kill {number}: nobody restored the value"
            time.sleep(0.005)
        here.log(name)  # decodes each line
        cut += here.state_of(name)["state"] == "cut-off"
        here.session.request("recover")
        states = {one["state"] for one in here.session.request("status")["transactions"]}
        assert states <= {"reverted", "rolled-back"}, f"kill {number}"
    assert cut > KILLS // 2, "most plans were over before the kill"


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[tuple[Carrying, Path]]:
    """A root session on a tree with a knob, a thermometer and a power supply."""
    root = tmp_path / "root"
    for name, text in {
        "proc/sys/vm/swappiness": "60\n",
        "proc/stat": "cpu  1 0 1 9 0 0 0 0 0 0\n",
        "sys/class/hwmon/hwmon0/name": "coretemp\n",
        "sys/class/hwmon/hwmon0/temp1_input": "45000\n",
        "sys/class/power_supply/AC/type": "Mains\n",
        "sys/class/power_supply/AC/online": "1\n",
        "sys/class/power_supply/BAT0/type": "Battery\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for program in ("bin/sh",):
        (root / program).parent.mkdir(parents=True, exist_ok=True)
        (root / program).symlink_to(f"/{program}")
    carrying = Carrying(Path("/var/lib/ktrial"), root)
    try:
        yield carrying, root
    finally:
        carrying.session.close()


def test_a_limit_ends_the_plan_and_its_command(fake: tuple[Carrying, Path]) -> None:
    carrying, root = fake
    heater = root / "sys/class/hwmon/hwmon0/temp1_input"
    visits = [visit("case", shell(f"echo 95500 > {heater}; sleep 40"))]
    began = time.monotonic()
    carrying.start(plan_of("x-1", 1, visits, ARMS, uid=0, limits={"temperature_c": 90.0}))
    last = carrying.log("x-1")[-1]
    assert (last["reason"], last["message"]) == ("limit", "the temperature is 95.5 °C (limit 90 °C)")
    assert time.monotonic() - began < 20
    assert (root / "proc/sys/vm/swappiness").read_text() == "60\n"


def test_a_gate_voids_the_run_before_its_command(fake: tuple[Carrying, Path]) -> None:
    carrying, root = fake
    mains = root / "sys/class/power_supply/AC/online"
    gate = {"gate": "on_ac", "reading": {"fact": "power.source"}, "rule": "same"}
    visits = [visit("case", shell(f"echo 0 > {mains}; echo 7")), visit("control"), visit("control", block=2)]
    carrying.start(plan_of("x-1", 1, visits, ARMS, uid=0, gates=[gate]))
    log = carrying.log("x-1")
    voids = [(line["visit"], line["cause"]) for line in log if line["event"] == "void"]
    assert voids == [(1, "reading"), (2, "reading")]
    assert len(answers(log, "exec")) == 1
    assert log[-1]["reason"] == "done"

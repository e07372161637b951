# SPDX-License-Identifier: Apache-2.0
"""`ktrial trial next` on a folder that stands for a machine, which boots when its files say so."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ktrial.judge.model.log import ArmFound, BlockVoided, RunEnded
from tests.support.tree import FakeRoot, Ran
from tests.support.trial_process import TrialProcess, log_of, runs_in, trials_in

SWAPPINESS = "/proc/sys/vm/swappiness"
MESSAGES = 2000
#: Forty times the work: no machine is so busy that this is not seen.
KERNELS = f"""
name = "kernels"
suite = "agent-messaging-pipe"
parameters = {{ groups = 1, senders = 2, receivers = 2, messages = {MESSAGES} }}

[design]
seed = 7
budget = 7
replicate = "boot"
runs_per_visit = 2
settle = "0s"

[arms.control]

[arms.bore]
manual = "choose the BORE kernel in the boot menu"
expect = {{ "kernel.release" = "6.18-bore", "kernel.command_line" = "preempt=full" }}
parameters = {{ messages = {40 * MESSAGES} }}
"""
STARTED: list[TrialProcess] = []


class Booting:
    """A machine that is booted by writing its files."""

    def __init__(self, root: FakeRoot, home: Path) -> None:
        self.root = root
        self.home = home
        self.boots = 0
        (root.folder / ".ktrial-test-machine").touch()
        self.boot("6.18", "quiet")

    def boot(self, release: str = "6.18", words: str = "quiet") -> None:
        self.boots += 1
        self.root.write("/proc/sys/kernel/random/boot_id", f"{self.boots:08d}-2222-3333-4444-555555555555\n")
        self.root.write("/proc/sys/kernel/osrelease", f"{release}\n")
        self.root.write("/proc/cmdline", f"root=/dev/sda {words}\n")

    def boot_into(self, arm: str) -> None:
        self.boot(*(("6.18-bore", "quiet preempt=full") if arm == "bore" else ("6.18", "quiet")))

    def run(self, *words: str) -> Ran:
        return self.root.run("trial", *words)

    def begin(self, protocol: str) -> Ran:
        (self.home / "trial.toml").write_text(protocol)
        return self.run("run", "trial.toml")

    def due(self) -> dict[str, Any] | None:
        """The visit that is due; None when the trial is over."""
        told = json.loads(self.run("next", "--dry-run", "--json").out.splitlines()[0])
        due: dict[str, Any] | None = told.get("due")
        return due

    def start(self, *words: str) -> TrialProcess:
        """The real command, which can be killed."""
        process = TrialProcess(["--machine-root", str(self.root.folder)], ("trial", *words), self.home / "said")
        STARTED.append(process)
        return process


@pytest.fixture
def machine(root: FakeRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Booting]:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("KTRIAL_STORE", raising=False)
    monkeypatch.chdir(tmp_path / "home")
    try:
        yield Booting(root, tmp_path / "home")
    finally:
        while STARTED:
            STARTED.pop().end()


def wait_until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def visits(machine: Booting) -> list[tuple[int | None, str]]:
    """Block and arm of every run, in order."""
    return [(event.block, event.arm) for event in runs_in(log_of(machine.home))]


def test_two_kernels_are_compared_over_fourteen_boots(machine: Booting) -> None:
    ran = machine.begin(KERNELS)
    assert ran.status == 0, ran.err
    assert "by hand = choose the BORE kernel in the boot menu" in ran.err
    for _ in range(20):  # a gate may make a block void
        due = machine.due()
        if due is None:
            break
        other = "control" if due["arm"] == "bore" else "bore"
        machine.boot_into(other)
        ran = machine.run("next")
        assert ran.status == 4, ran.out
        assert f"{due['arm']} is due in block {due['block']}, but the machine is not set up as {due['arm']}" in ran.err
        assert due["instruction"] in ran.err
        machine.boot_into(due["arm"])
        ran = machine.run("next")
        assert ran.status == 0, ran.err
        assert machine.due() is None or "every visit is a boot of its own" in machine.run("next").err
    boots = re.search(r"^scope +on this machine, across (\d+) boots$", ran.out, re.MULTILINE)
    assert boots is not None, ran.out
    assert int(boots[1]) >= 14
    assert "page      ktrial trial report kernels-" in ran.out
    check = machine.run("recheck")
    assert check.status == 0, check.err
    (summary,) = machine.run("list", "--json").json["trials"]
    assert (summary["verdicts"], summary["blocks"]) == ({"bore": "worse"}, 7)
    places = [record for record in log_of(machine.home) if isinstance(record, ArmFound)]
    assert {place.by for place in places} == {"facts"}
    assert places[-1].facts.keys() == {"kernel.release", "kernel.command_line"}
    assert {place.facts["kernel.command_line"] for place in places} == {"preempt=full", "!preempt=full"}
    told = machine.run("show", "--json").json
    assert sum(source["boots"] for source in told["arms"]) == int(boots[1])
    assert {source["arm"]: source["known"]["kernel"] for source in told["arms"]} == {
        "control": "6.18",
        "bore": "6.18-bore",
    }
    assert not [finding for finding in told["findings"] if finding["kind"] == "impure"]
    assert machine.run("report", "-o", "page.html").status == 0
    assert "choose the BORE kernel in the boot menu" in Path("page.html").read_text(encoding="utf-8")
    assert machine.root.run("bundle", "kernels.tar.zst", summary["trial"]).status == 0
    assert "all equal" in machine.root.run("recheck", "kernels.tar.zst").out
    assert machine.run("next").status == 0  # it is over, and shown again


def test_runs_of_a_boot_are_one_value(machine: Booting) -> None:
    machine.begin(KERNELS)
    for _ in range(3):
        due = machine.due()
        assert due is not None
        machine.boot_into(due["arm"])
        machine.run("next")
    runs = visits(machine)
    assert len(runs) == 2 * len(set(runs)), "two runs a visit"
    warm = [event for event in log_of(machine.home) if isinstance(event, RunEnded) and event.block is None]
    assert [event.arm for event in warm][::2] == [arm for _, arm in dict.fromkeys(runs)], "a boot warms up its own arm"
    assert len(warm) == 2 * len(set(runs))


def test_an_arm_that_nothing_shows_is_confirmed(machine: Booting) -> None:
    cable = KERNELS.replace('expect = { "kernel.release" = "6.18-bore", "kernel.command_line" = "preempt=full" }', "")
    ran = machine.begin(cable.replace('replicate = "boot"', ""))
    assert ran.status == 0, ran.err
    due = machine.due()
    assert due is not None
    assert due["confirm"]
    assert f"then      ktrial trial next {due['trial']} --done {due['arm']}\n" in ran.out
    ran = machine.run("next")
    assert ran.status == 4
    assert f"ktrial trial next {due['trial']} --done {due['arm']}" in ran.err
    other = "control" if due["arm"] == "bore" else "bore"
    assert machine.run("next", "--done", other).status == 4
    assert machine.run("next", "--done", "boar").status == 2
    assert visits(machine) == []
    ran = machine.run("next", "--done", due["arm"])
    assert ran.status == 0, ran.err
    assert set(visits(machine)) == {(1, due["arm"])}
    (finding,) = [one for one in machine.run("show", "--json").json["findings"] if one["kind"] == "arm-claimed"]
    assert finding["sentence"].endswith(f"{due['arm']} (in 1 block)")


def test_a_kernel_is_recognised_by_its_configuration(machine: Booting) -> None:
    configs = {"control": "CONFIG_HZ=250\n", "bore": "CONFIG_HZ=1000\n"}
    machine.root.write("/boot/config-6.18", configs["control"])
    digest = hashlib.sha256(configs["bore"].encode()).hexdigest()
    found = '"kernel.release" = "6.18-bore", "kernel.command_line" = "preempt=full"'
    ran = machine.begin(KERNELS.replace(found, f'"kernel.config_hash" = "{digest}"'))
    assert ran.status == 0, ran.err
    for _ in range(2):
        due = machine.due()
        assert due is not None
        assert due["expect"] == {"kernel.config_hash": hashlib.sha256(configs[due["arm"]].encode()).hexdigest()}
        machine.boot()
        machine.root.write("/boot/config-6.18", configs["control" if due["arm"] == "bore" else "bore"])
        assert machine.run("next").status == 4
        machine.root.write("/boot/config-6.18", configs[due["arm"]])
        ran = machine.run("next")
        assert ran.status == 0, ran.err
        assert visits(machine)[-1] == (due["block"], due["arm"])


def test_settings_across_boots_are_in_force_during_their_visit_only(machine: Booting) -> None:
    swap = KERNELS.partition("[arms.bore]")[0] + '[arms.swap]\nset = { "vm.swappiness" = 10 }\n'
    machine.begin(swap)
    for _ in range(3):
        machine.boot()
        assert machine.run("next").status == 0
        assert machine.root.read(SWAPPINESS) == "60\n"
        ran = machine.run("next")
        assert (ran.status, "reboot first" in ran.err) == (4, True)
    assert {arm for _, arm in visits(machine)} == {"control", "swap"}
    (change,) = [one for one in machine.run("show", "--json").json["state_changes"] if one["name"] == "vm.swappiness"]
    assert (change["control_value"], change["arm_value"], change["declared"]) == ("60", "10", "arm swap")
    machine.boot()
    machine.root.write(SWAPPINESS, "80\n")
    ran = machine.run("next")
    assert ran.status == 4
    assert "vm.swappiness was 60 when" in ran.err


@pytest.mark.parametrize("is_same_boot", [True, False])
def test_a_visit_that_was_killed_goes_on_in_its_boot_and_is_void_in_another(
    machine: Booting, is_same_boot: bool
) -> None:
    slow = KERNELS.replace("runs_per_visit = 2", "runs_per_visit = 4").replace('settle = "0s"', 'settle = "0.3s"')
    (machine.home / "trial.toml").write_text(slow)
    first = machine.start("run", "trial.toml")
    assert first.wait() == 0, first.said
    due = machine.due()
    assert due is not None
    before = len(visits(machine))
    machine.boot_into(due["arm"])
    killed = machine.start("next")
    wait_until(lambda: len(visits(machine)) > before)
    killed.kill("both")
    killed.wait()
    made = len(visits(machine)) - before
    assert 1 <= made < 4, killed.said
    if not is_same_boot:
        machine.boot_into(due["arm"])
    again = machine.start("next")
    assert again.wait() == 0, again.said
    voids = [event for event in log_of(machine.home) if isinstance(event, BlockVoided)]
    if is_same_boot:
        assert voids == []
        assert visits(machine)[before:] == [(due["block"], due["arm"])] * 4
    else:
        (void,) = voids
        assert (void.block, void.arm, void.cause) == (due["block"], due["arm"], "boot")
    check = machine.run("recheck")
    assert check.status == 0, check.err


def test_ctrl_c_in_a_visit_is_told_with_what_goes_on(machine: Booting) -> None:
    (machine.home / "trial.toml").write_text(KERNELS.replace('settle = "0s"', 'settle = "0.5s"'))
    begun = machine.start("run", "trial.toml")
    assert begun.wait() == 0, begun.said
    due = machine.due()
    assert due is not None
    machine.boot_into(due["arm"])
    events = len(log_of(machine.home))
    going = machine.start("next")
    wait_until(lambda: len(log_of(machine.home)) > events)
    going.process.send_signal(signal.SIGINT)
    assert going.wait() == 130, going.said
    assert f"interrupted; continue with `ktrial trial next {due['trial']}`" in going.said


def test_an_edited_protocol_is_another_trial(machine: Booting) -> None:
    machine.begin(KERNELS)
    machine.begin(KERNELS.replace("seed = 7", "seed = 8"))
    second, first = trials_in(machine.home)
    assert first.protocol_sha256 != second.protocol_sha256
    assert machine.run("next", first.trial, "--dry-run").out.splitlines()[-1].split()[-1] == first.trial
    assert machine.run("next", "--dry-run").out.splitlines()[-1].split()[-1] == second.trial


@pytest.mark.parametrize(
    "old, new, status, told",
    [
        ("kernel.release", "kernel.relase", 2, "unknown fact: 'kernel.relase'"),
        ('manual = "choose', 'manuel = "choose', 2, "unknown field `manuel`"),
        ('"preempt=full"', '" "', 2, "expected words that the fact contains"),
        ('replicate = "boot"', 'replicate = "reboot"', 2, "invalid enum value 'reboot'"),
    ],
)
def test_protocols_that_cannot_be_carried_out(machine: Booting, old: str, new: str, status: int, told: str) -> None:
    ran = machine.begin(KERNELS.replace(old, new))
    assert ran.status == status, ran.err
    assert told in ran.err
    assert trials_in(machine.home) == []


def test_a_trial_does_not_begin_in_an_arm_that_is_not_its_control(machine: Booting) -> None:
    machine.boot_into("bore")
    ran = machine.begin(KERNELS)
    assert ran.status == 4
    assert "the machine is set up as bore" in ran.err
    assert trials_in(machine.home) == []


def test_without_such_a_trial_nothing_is_due(machine: Booting) -> None:
    assert machine.run("next").status == 2
    plain = (
        KERNELS.partition("[arms.bore]")[0]
        .replace('replicate = "boot"', "cap = 7")
        .replace("budget = 7\n", "anyway = true\n")
    )
    assert machine.begin(f"{plain}[arms.placebo]\nplacebo = true\n").status == 0
    ran = machine.run("next", "kernels")
    assert ran.status == 2
    assert "has neither manual arms nor boots" in ran.err

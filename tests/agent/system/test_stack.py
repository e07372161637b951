# SPDX-License-Identifier: Apache-2.0
"""Transactions that change the same knobs end in any order, with edits between them and an agent that dies: live values
are always those of a model in which every value is a layer, and an end takes one layer away."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.agent.system.test_crash import STATE, Machine, content, restore, write
from tests.support.long import IS_LONG
from tests.support.tree import add_knobs

# With the other tests of an agent that dies: one worker builds it once.
pytestmark = pytest.mark.xdist_group("faults")

SINGLES = {
    "/proc/sys/vm/swappiness": "60",
    "/proc/sys/vm/page-cluster": "3",
    "/proc/sys/vm/vfs_cache_pressure": "100",
    "/proc/sys/vm/watermark_scale_factor": "10",
}
RATIO, BYTES = "/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_bytes"
PAIR = {RATIO: "20", BYTES: "0"}
#: Knobs of the test that kills, which needs as many steps.
MANY = [f"/proc/sys/vm/knob{number}" for number in range(40)]
KILLS = 200 if IS_LONG else 50
#: A step at which no agent arrives.
NEVER = 10_000
AT = st.just(NEVER) | st.just(NEVER) | st.integers(1, 40)


def stacked_machine(agent: Path, folder: Path) -> Machine:
    """A fake machine with some knobs."""
    root = folder / "root"
    files = {"/proc/sys/kernel/random/boot_id": "this-boot", "/etc/sysctl.d/README": "", **SINGLES, **PAIR}
    for path, text in files.items():
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (root / path[1:]).write_text(f"{text}\n")
    return Machine(agent, root, STATE, folder / "plan.json", folder / "count")


def values(machine: Machine) -> dict[str, str]:
    paths = [path for path in (*SINGLES, *PAIR, *MANY) if (machine.root / path[1:]).exists()]
    return {path: (machine.root / path[1:]).read_text().strip() for path in paths}


def apply(machine: Machine, wanted: dict[str, str], **faults: str) -> subprocess.CompletedProcess[str]:
    """Apply these values as one transaction."""
    couples = {RATIO: [BYTES], BYTES: [RATIO]}
    steps = [write(path, f"{value}\n", "integer", couples.get(path)) for path, value in wanted.items()]
    machine.plan.write_text(json.dumps({"schema": "ktrial.plan/2", "stacks": True, "steps": steps}))
    return machine.run("apply", str(machine.plan), **faults)


def states(machine: Machine) -> dict[int, str]:
    return {one["transaction"]: one["state"] for one in machine.succeed("status")["transactions"]}


class Layers:
    """The values of one knob, or of a pair, from the one before all transactions to the live one."""

    def __init__(self, base: tuple[str, ...]) -> None:
        self._layers: list[tuple[int | None, tuple[str, ...]]] = [(None, base)]

    @property
    def live(self) -> tuple[str, ...]:
        return self._layers[-1][1]

    def begin(self, owner: int, value: tuple[str, ...]) -> None:
        self._layers.append((owner, value))

    def edit(self, value: tuple[str, ...]) -> None:
        """Somebody else writes; who writes what is there already has changed nothing."""
        self._layers.append((None, value))
        self._settle()

    def end(self, owner: int) -> None:
        self._layers = [layer for layer in self._layers if layer[0] != owner]
        self._settle()

    def _settle(self) -> None:
        """Let a later edit stand for an earlier one, and drop an edit to what lies below it."""
        settled: list[tuple[int | None, tuple[str, ...]]] = []
        for owner, value in self._layers:
            if owner is None and len(settled) > 1 and settled[-1][0] is None:
                settled.pop()
            if owner is not None or not settled or settled[-1][1] != value:
                settled.append((owner, value))
        self._layers = settled


class StackedTransactions(RuleBasedStateMachine):
    """Begin and end transactions, edit, and kill the agent; the model tells what must be live."""

    agent: Path

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        self.machine = stacked_machine(self.agent, self.folder)
        self.layers = {path: Layers((base,)) for path, base in SINGLES.items()}
        self.pair = Layers((PAIR[RATIO], PAIR[BYTES]))
        self.open: list[int] = []
        self.unfinished: int | None = None
        self.fresh = 1000

    def teardown(self) -> None:
        """Recover and end all, newest first: what comes back is what lies at the bottom."""
        try:
            if self.unfinished is not None:
                self._recover()
            for owner in reversed(self.open):
                ran = self.machine.run("revert", "--only", str(owner))
                assert json.loads(ran.stdout)["transactions"][0]["state"] == "reverted", ran.stdout
                self._ended(owner)
            assert values(self.machine) == self._expected()
        finally:
            shutil.rmtree(self.folder)

    def _expected(self) -> dict[str, str]:
        singles = {path: layers.live[0] for path, layers in self.layers.items()}
        return {**singles, RATIO: self.pair.live[0], BYTES: self.pair.live[1]}

    def _ended(self, owner: int) -> None:
        for layers in (*self.layers.values(), self.pair):
            layers.end(owner)

    def _recover(self) -> None:
        self.machine.succeed("recover")
        if self.unfinished is not None:
            self._ended(self.unfinished)
            self.unfinished = None

    @precondition(lambda self: self.unfinished is None and len(self.open) < 6)
    @rule(
        wanted=st.dictionaries(st.sampled_from(sorted(SINGLES)), st.sampled_from(["10", "20", "60"]), max_size=3),
        half=st.sampled_from([None, RATIO, BYTES]),
        at=AT,
    )
    def begin(self, wanted: dict[str, str], half: str | None, at: int) -> None:
        wanted = dict(wanted)
        if half is not None:
            self.fresh += 1
            wanted[half] = str(self.fresh)
        if not wanted:
            return
        newest = self._applied(wanted, at)
        if newest is None:
            return
        self.open.append(newest)
        for path in wanted.keys() & SINGLES.keys():
            self.layers[path].begin(newest, (wanted[path],))
        if half is not None:
            ratio, in_bytes = self.pair.live
            value = (wanted[RATIO], in_bytes) if half == RATIO else (ratio, wanted[BYTES])
            self.pair.begin(newest, value)

    def _applied(self, wanted: dict[str, str], at: int) -> int | None:
        """Apply with an agent that may die; the transaction, if it is in force once recovered."""
        ran = apply(self.machine, wanted, AT=str(at), KIND="kill")
        if ran.returncode == 0:
            return int(json.loads(ran.stdout)["transaction"])
        assert ran.returncode == -signal.SIGKILL, (ran.stdout, ran.stderr)
        self.machine.succeed("recover")
        found = states(self.machine)
        newest = max(found, default=0)
        return newest if newest not in self.open and found.get(newest) == "applied" else None

    @precondition(lambda self: self.open)
    @rule(data=st.data(), at=AT)
    def end(self, data: st.DataObject, at: int) -> None:
        """End any transaction, even while another one is unfinished; an agent that died may have done either."""
        owner = data.draw(st.sampled_from(self.open))
        if self.unfinished is not None:
            at = NEVER
        ran = self.machine.run("revert", "--only", str(owner), AT=str(at), KIND="kill")
        if ran.returncode == -signal.SIGKILL:
            state = states(self.machine)[owner]
            assert state in {"reverted", "unfinished", "applied"}
        else:
            (reply,) = json.loads(ran.stdout)["transactions"]
            state = reply["state"]
            assert state == "reverted", (ran.stdout, ran.stderr)
        if state == "applied":
            return
        self.open.remove(owner)
        if state == "unfinished":
            self.unfinished = owner
        else:
            self._ended(owner)

    @precondition(lambda self: self.unfinished is not None)
    @rule()
    def recover(self) -> None:
        self._recover()

    @precondition(lambda self: self.unfinished is None)
    @rule(path=st.sampled_from(sorted(SINGLES)), value=st.sampled_from(["10", "20", "33"]))
    def edit(self, path: str, value: str) -> None:
        (self.machine.root / path[1:]).write_text(f"{value}\n")
        self.layers[path].edit((value,))

    @precondition(lambda self: self.unfinished is None)
    @rule()
    def edit_pair(self) -> None:
        self.fresh += 1
        (self.machine.root / RATIO[1:]).write_text(f"{self.fresh}\n")
        self.pair.edit((str(self.fresh), self.pair.live[1]))

    @invariant()
    def live_values_are_those_of_the_model(self) -> None:
        if self.unfinished is None:
            assert values(self.machine) == self._expected()


@pytest.mark.timeout(1800)
def test_live_values_are_always_those_of_the_layers(fault_agent: Path) -> None:
    StackedTransactions.agent = fault_agent
    quiet = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    run_state_machine_as_test(
        StackedTransactions,
        settings=settings(
            max_examples=200 if IS_LONG else 6, stateful_step_count=25, deadline=None, suppress_health_check=quiet
        ),
    )


def spread(points: int) -> list[int]:
    """Steps to die at, evenly from the first to the last."""
    return [1 + (points - 1) * at // (KILLS - 1) for at in range(KILLS)]


@pytest.fixture
def stacked(fault_agent: Path, memory_path: Path) -> Machine:
    """Three transactions: the lowest one shares knobs with each of the others, and with both, and has some alone."""
    machine = stacked_machine(fault_agent, memory_path)
    add_knobs(machine.root, "/proc/sys/vm/knob{device}")
    for path in MANY:
        (machine.root / path[1:]).write_text("1\n")
    assert apply(machine, {**dict.fromkeys((*SINGLES, *MANY), "10"), RATIO: "10"}).returncode == 0
    assert apply(machine, {**dict.fromkeys(MANY[:20], "20"), BYTES: "4096"}).returncode == 0
    assert apply(machine, dict.fromkeys((*SINGLES, *MANY[10:30]), "30")).returncode == 0
    return machine


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("owner", [1, 2])
@pytest.mark.parametrize("kind", ["kill", "power"])
def test_an_end_below_others_that_is_killed_anywhere_is_finished(
    stacked: Machine, memory_path: Path, kind: str, owner: int
) -> None:
    """It is wholly done, or has not begun: in both cases the first values come back when all have ended."""
    machine = stacked
    start, applied = content(machine.root), values(machine)
    journals, kept = machine.root / STATE[1:], memory_path / "journals"
    shutil.copytree(journals, kept)
    points = machine.points("revert", "--only", str(owner))
    after = values(machine)
    live = {path: "30" if 10 <= place < 30 else "20" if place < 10 else "1" for place, path in enumerate(MANY)}
    pair = {RATIO: "10", BYTES: "4096"}
    if owner == 1:
        assert after == {**dict.fromkeys(SINGLES, "30"), **pair, **live}
    found = {"applied": 0, "reverted": 0}
    for at in spread(points):
        restore(machine.root, start)
        machine.forget()
        shutil.copytree(kept, journals)
        machine.die("revert", "--only", str(owner), at=at, kind=kind)
        machine.succeed("recover")
        state = states(machine)[owner]
        found[state] += 1
        assert values(machine) == (applied if state == "applied" else after), at
        for other in [one for one in (3, 1, 2) if one != owner or state == "applied"]:
            machine.succeed("revert", "--only", str(other))
        assert values(machine) == {**SINGLES, **PAIR, **dict.fromkeys(MANY, "1")}, at
    assert points > (200 if owner == 1 else 100)
    assert found["reverted"] > found["applied"] > 0


def test_an_entry_that_an_agent_does_not_know_is_named(stacked: Machine) -> None:
    """As `inherited` is for agents from before it."""
    machine = stacked
    journal = machine.root / STATE[1:] / "transactions/000003.journal"
    machine.succeed("revert", "--only", "1")
    lines = journal.read_bytes().splitlines()
    assert any(b'"entry":"inherited"' in line for line in lines)
    unknown = lines[-1][18:].replace(b"inherited", b"bequeathed")
    lines[-1] = f"{len(unknown):08x} {zlib.crc32(unknown):08x} ".encode() + unknown
    journal.write_bytes(b"\n".join([*lines, b""]))
    status = machine.succeed("status")
    assert "unknown variant `bequeathed`" in status["damaged"][0]["message"]
    assert status["transactions"][-1]["state"] == "unfinished"
    before = values(machine)
    assert machine.run("recover").returncode == 1
    assert values(machine) == before

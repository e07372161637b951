# SPDX-License-Identifier: Apache-2.0
"""The agent is killed, or its power cut, before and after every write, journal append and fsync. After `recover` every
byte of the machine is what it was, or the transaction is complete and `revert` makes it so."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.fault_agent import fault_agent_with
from tests.support.long import IS_LONG
from tests.support.memory import mounted_tmpfs
from tests.support.tree import add_knobs

# One worker builds the agent once.
pytestmark = pytest.mark.xdist_group("faults")

STATE = "/var/lib/ktrial"

Tree = dict[str, tuple[int, bytes]]


@dataclass(frozen=True)
class Machine:
    """A tree that an agent works on, with its journals and a plan for it."""

    agent: Path
    root: Path
    state: str
    plan: Path
    count: Path

    def run(self, *argv: str, **faults: str) -> subprocess.CompletedProcess[str]:
        """Run the agent with what `faults` say: `AT` and `KIND` of its death, `COUNT` of its steps."""
        environment = {f"KTRIAL_FAULT_{name}": value for name, value in faults.items()}
        command = [str(self.agent), *argv, "--root", str(self.root), "--state", self.state, "--json"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    def succeed(self, *argv: str, **faults: str) -> Any:
        """Run the agent, which must succeed; its reply."""
        done = self.run(*argv, **faults)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def die(self, *argv: str, at: int, kind: str) -> None:
        """Run the agent, which must die at step `at`."""
        done = self.run(*argv, AT=str(at), KIND=kind)
        assert done.returncode == -signal.SIGKILL, (argv, at, done.stdout, done.stderr)

    def points(self, *argv: str) -> int:
        """How many steps a command has at which it can die."""
        self.succeed(*argv, COUNT=str(self.count))
        return int(self.count.read_text())

    def newest_state(self) -> str | None:
        """Where the newest transaction stands; none when there is none."""
        transactions = self.succeed("status")["transactions"]
        return transactions[-1]["state"] if transactions else None

    def forget(self) -> None:
        """Remove all journals."""
        shutil.rmtree(self.root / self.state.lstrip("/"), ignore_errors=True)


def content(root: Path) -> Tree:
    """Every file and folder of a tree but the journals: mode and bytes."""
    found = {}
    for folder, folders, files in os.walk(root):
        if Path(folder) == root and "var" in folders:
            folders.remove("var")
        for name in folders:
            path = Path(folder) / name
            found[str(path.relative_to(root)) + "/"] = (path.stat().st_mode & 0o7777, b"")
        for name in files:
            path = Path(folder) / name
            found[str(path.relative_to(root))] = (path.stat().st_mode & 0o7777, path.read_bytes())
    return found


def restore(root: Path, tree: Tree) -> None:
    """Bring a fake tree into a state that `content` returned."""
    for path in sorted(content(root).keys() - tree.keys(), reverse=True):
        if path.endswith("/"):
            (root / path).rmdir()
        else:
            (root / path).unlink()
    for path, (mode, data) in sorted(tree.items()):
        target = root / path
        if path.endswith("/"):
            target.mkdir(exist_ok=True)
        elif not target.exists() or target.read_bytes() != data:
            target.write_bytes(data)
        target.chmod(mode)


def test_an_agent_that_another_worker_runs_can_be_built(fault_agent: Path) -> None:
    """Without `--dist loadgroup` each worker builds it, while others run it."""
    command = [str(fault_agent), "serve", "--role", "user"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as running:
        assert fault_agent_with("fault-injection") == fault_agent
        assert running.poll() is None


def write(path: str, new: str, verify: str, couples: list[str] | None = None) -> dict[str, Any]:
    """A step that writes a knob."""
    return {"kind": "write", "path": path, "new": new, "verify": verify, "couples": couples or []}


def fake_machine(agent: Path, folder: Path) -> Machine:
    """A fake tree with 27 knobs, a pair that clears each other, and two configuration files."""
    root = folder / "root"
    files = {
        "proc/sys/kernel/random/boot_id": "this-boot\n",
        "sys/block/sda/queue/scheduler": "[none] mq-deadline kyber\n",
        "sys/block/sda/queue/nr_requests": "256\n",
        "sys/kernel/debug/sched/features": "PLACE_LAG NO_NEXT_BUDDY\n",
        "proc/sys/vm/dirty_bytes": "0\n",
        "proc/sys/vm/dirty_ratio": "20\n",
        "etc/sysctl.d/90-ktrial.conf": "vm.knob0 = 1\n",
    }
    files |= {f"proc/sys/vm/knob{number}": f"{number}\n" for number in range(22)}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "etc/systemd").mkdir()
    add_knobs(root, "/proc/sys/vm/knob{device}")
    (root / "proc/sys/vm/knob3").chmod(0o600)
    steps = [write(f"/proc/sys/vm/knob{number}", f"{number + 1000}\n", "integer") for number in range(22)]
    steps += [
        write("/sys/block/sda/queue/scheduler", "kyber\n", "choice", ["/sys/block/sda/queue/nr_requests"]),
        write("/sys/block/sda/queue/nr_requests", "1024\n", "integer"),
        write("/sys/kernel/debug/sched/features", "NEXT_BUDDY\n", "token"),
        write("/proc/sys/vm/dirty_bytes", "4096\n", "integer", ["/proc/sys/vm/dirty_ratio"]),
        write("/proc/sys/vm/dirty_ratio", "0\n", "integer"),
        {
            "kind": "file",
            "path": "/etc/sysctl.d/90-ktrial.conf",
            "holds": {"sysctl.d": [{"path": "/proc/sys/vm/swappiness", "value": "10"}]},
            "mode": "0640",
        },
        {
            "kind": "file",
            "path": "/etc/systemd/zram-generator.conf.d/ktrial.conf",
            "holds": {"zram-generator": [{"device": "zram0"}]},
            "mode": "0644",
        },
    ]
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"schema": "ktrial.plan/2", "title": "crash", "steps": steps}))
    return Machine(agent, root, STATE, plan, folder / "count")


def deaths(points: int) -> list[int]:
    """Steps to die at: each one in the long check, else every fourth, and each of the first and last eight."""
    return [at for at in range(1, points + 1) if IS_LONG or at % 4 == 0 or at <= 8 or at > points - 8]


def crash_apply(machine: Machine, kind: str, start: Tree) -> tuple[list[int], int]:
    """Die at the steps of an apply. Steps after which `recover` did not bring the start back, and how many
    transactions were complete when the agent died."""
    points = machine.points("apply", str(machine.plan))
    applied = content(machine.root)
    assert applied != start
    bad, complete = [], 0
    for at in deaths(points):
        restore(machine.root, start)
        machine.forget()
        machine.die("apply", str(machine.plan), at=at, kind=kind)
        machine.succeed("recover")
        if machine.newest_state() == "applied":
            complete += 1
            assert content(machine.root) == applied, at
            machine.succeed("revert")
        if content(machine.root) != start:
            bad.append(at)
    assert points > 150
    return bad, complete


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_apply_interrupted_anywhere_is_undone(fault_agent: Path, memory_path: Path, kind: str) -> None:
    """An apply that dies leaves nothing behind once recovered; only after its last fsync does it stand."""
    machine = fake_machine(fault_agent, memory_path)
    bad, complete = crash_apply(machine, kind, content(machine.root))
    assert bad == []
    assert complete <= 3


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_revert_interrupted_anywhere_is_finished(fault_agent: Path, memory_path: Path, kind: str) -> None:
    """A revert that dies is finished by `recover`, or had not begun and can be made again."""
    machine = fake_machine(fault_agent, memory_path)
    start = content(machine.root)
    machine.succeed("apply", str(machine.plan))
    applied = content(machine.root)
    journals = machine.root / STATE.lstrip("/")
    kept = memory_path / "journals"
    shutil.copytree(journals, kept)
    points = machine.points("revert")
    assert content(machine.root) == start
    assert points > 100
    not_begun = 0
    for at in deaths(points):
        restore(machine.root, applied)
        machine.forget()
        shutil.copytree(kept, journals)
        machine.die("revert", at=at, kind=kind)
        machine.succeed("recover")
        if machine.newest_state() == "applied":
            not_begun += 1
            assert content(machine.root) == applied, at
            machine.succeed("revert")
        assert content(machine.root) == start, at
    assert not_begun <= 7, "more than the journal takes until `reverting` is in its new file, and that in its folder"


def fill(path: Path) -> None:
    """Write to a file until its disk is full."""
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_revert_needs_no_room_on_a_full_disk(fault_agent: Path, memory_path: Path) -> None:
    machine = fake_machine(fault_agent, memory_path)
    before = content(machine.root)
    library = machine.root / "var/lib"
    library.mkdir(parents=True)
    with mounted_tmpfs(library / "ktrial", "256k") as state:
        machine.succeed("apply", str(machine.plan))
        with pytest.raises(OSError, match="No space left"):
            fill(state / "full")
        assert content(machine.root) != before
        machine.succeed("revert")
        assert machine.newest_state() == "reverted"
    assert content(machine.root) == before


def test_recovery_interrupted_anywhere_is_finished_by_the_next(fault_agent: Path, memory_path: Path) -> None:
    """A recovery that dies is finished by the next one."""
    machine = fake_machine(fault_agent, memory_path)
    start = content(machine.root)
    middle = machine.points("apply", str(machine.plan)) * 3 // 4
    restore(machine.root, start)
    machine.forget()
    machine.die("apply", str(machine.plan), at=middle, kind="kill")
    torn = content(machine.root)
    journals = machine.root / STATE.lstrip("/")
    kept = memory_path / "journals"
    shutil.copytree(journals, kept)
    points = machine.points("recover")
    for at in deaths(points):
        restore(machine.root, torn)
        machine.forget()
        shutil.copytree(kept, journals)
        machine.die("recover", at=at, kind="power")
        machine.succeed("recover")
        assert content(machine.root) == start, at
    assert points > 50


def test_a_late_fsync_is_convicted(sabotaged_agent: Path, memory_path: Path) -> None:
    """With the fsync behind the first write a power cut loses old values: the test above must notice."""
    machine = fake_machine(sabotaged_agent, memory_path)
    bad, _ = crash_apply(machine, "power", content(machine.root))
    assert bad != []


# Numbers that no profile of the catalog names, so that nobody else changes them meanwhile.
CANDIDATES = [
    "net/ipv4/ipfrag_time",
    "net/ipv4/ipfrag_max_dist",
    "net/ipv4/igmp_max_msf",
    "net/ipv4/igmp_max_memberships",
    "net/ipv4/igmp_qrv",
    "net/ipv4/inet_peer_minttl",
    "net/ipv4/inet_peer_maxttl",
    "net/ipv4/inet_peer_threshold",
    "net/ipv4/icmp_msgs_burst",
    "net/unix/max_dgram_qlen",
    "kernel/pty/max",
    "kernel/pty/reserve",
    "kernel/keys/gc_delay",
    "kernel/keys/maxkeys",
    "kernel/keys/maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/keys/persistent_keyring_expiry",
    "kernel/shmmni",
    "kernel/msgmnb",
    "kernel/hung_task_warnings",
    "fs/lease-break-time",
    "fs/pipe-user-pages-soft",
    "fs/mqueue/msg_max",
    "fs/mqueue/queues_max",
    "fs/mqueue/msgsize_max",
    "fs/mqueue/msg_default",
    "net/ipv4/neigh/default/gc_interval",
    "net/ipv4/neigh/default/proxy_qlen",
    "net/ipv4/neigh/default/mcast_solicit",
    "net/ipv4/route/error_burst",
    "net/ipv4/route/gc_timeout",
    "net/ipv4/route/redirect_number",
    "net/ipv4/route/mtu_expires",
    "net/ipv4/tcp_max_reordering",
    "net/ipv6/idgen_retries",
]


@pytest.fixture
def real_knobs(real_machine: None) -> Iterator[dict[Path, bytes]]:
    """Numbers of the running kernel that a step up does not hurt, with their values; put back whatever happens."""
    values: dict[Path, bytes] = {}
    for name in CANDIDATES:
        path = Path("/proc/sys") / name
        if len(values) < 28 and path.exists() and path.read_text().strip().isdigit():
            values[path] = path.read_bytes()
    added = add_knobs(Path("/"), *map(str, values))
    yield values
    added.unlink()
    for path, value in values.items():
        if path.read_bytes() != value:
            path.write_bytes(value)


def values_of(knobs: dict[Path, bytes]) -> dict[Path, bytes]:
    """What the knobs hold now, read past the agent."""
    return {path: path.read_bytes() for path in knobs}


def test_the_running_kernel_gets_its_values_back(
    fault_agent: Path, memory_path: Path, real_knobs: dict[Path, bytes]
) -> None:
    """The same with real sysctls of this kernel, for an apply and for a revert: at each step."""
    assert len(real_knobs) >= 25, sorted(real_knobs)
    steps = [write(str(path), f"{int(value) + 1}\n", "integer") for path, value in real_knobs.items()]
    plan = memory_path / "plan.json"
    plan.write_text(json.dumps({"schema": "ktrial.plan/2", "steps": steps}))
    machine = Machine(fault_agent, Path("/"), str(memory_path / "state"), plan, memory_path / "count")
    apply_points = machine.points("apply", str(plan))
    applied = values_of(real_knobs)
    assert all(applied[path] != value for path, value in real_knobs.items())
    revert_points = machine.points("revert")
    assert values_of(real_knobs) == real_knobs
    for at in range(1, apply_points + revert_points + 1):
        machine.forget()
        if at <= apply_points:
            machine.die("apply", str(plan), at=at, kind="kill")
        else:
            machine.succeed("apply", str(plan))
            machine.die("revert", at=at - apply_points, kind="kill")
        machine.succeed("recover")
        if machine.newest_state() == "applied":
            assert values_of(real_knobs) == applied, at
            machine.succeed("revert")
        assert values_of(real_knobs) == real_knobs, at

# SPDX-License-Identifier: Apache-2.0
"""The zram benchmarks on this machine: a device of their own, and nothing left of it whatever happens."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktrial.cli.main import main
from tests.support.kept import records
from tests.support.tree import Ran
from tests.support.user import CHECKOUT, User, ordinary_user

pytestmark = pytest.mark.root
CONTROL = Path("/sys/class/zram-control")
#: Data that takes a second or so.
LONG_BYTES = 512 << 20


def devices() -> dict[str, str]:
    """All zram devices, each with its size and algorithm."""
    folders = sorted(Path("/sys/block").glob("zram*"))
    return {
        folder.name: (folder / "disksize").read_text() + (folder / "comp_algorithm").read_text() for folder in folders
    }


def algorithms() -> list[str]:
    """What this kernel's zram compresses with, as a device shows it."""
    shown = next(iter(devices().values())).splitlines()[1]
    return [name.strip("[]") for name in shown.split()]


@pytest.fixture(autouse=True)
def as_they_were(real_machine: None) -> Iterator[None]:
    loads_module = not CONTROL.is_dir()
    if loads_module:
        subprocess.run(["modprobe", "zram"], check=True)
    before = devices()
    yield
    left = devices()
    for name in set(left) - set(before):
        Path(f"/sys/block/{name}/reset").write_text("1")
        (CONTROL / "hot_remove").write_text(name.removeprefix("zram"))
    assert left == before
    if loads_module:
        subprocess.run(["modprobe", "--remove", "zram"], check=True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for the head."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder of its own for the agent."""
    return tmp_path / "state"


def run(state: Path, *argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    return Ran(main(["--machine-state", str(state), *argv], out, err), out.getvalue(), err.getvalue())


def suite(home: Path, **parameters: object) -> None:
    """A suite `own` of `zram-compression` with these parameters."""
    listed = ", ".join(f"{name} = {json.dumps(value)}" for name, value in parameters.items())
    path = home / ".config/ktrial/suites/own.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'name = "own"\nsummary = "x"\n[[benchmark]]\nuse = "zram-compression"\nparameters = {{ {listed} }}\n'
    )


def values(record: Any) -> dict[str, float]:
    return {kept["outcome"]: kept["value"] for kept in record["measurements"]}


def test_each_algorithm_of_the_kernel_is_measured(home: Path, state: Path) -> None:
    named = [name for name in ("lzo-rle", "lzo", "lz4", "zstd") if name in algorithms()]
    assert named
    for name in named:
        ran = run(state, "bench", f"zram-{name}", "-n", "1")
        assert ran.status == 0, ran.err
    for name, record in zip(named, records(home), strict=True):
        assert record["agent_load"]["parameters"]["algorithm"] == name
        measured = values(record)
        # One piece in eight is zeros, one cannot be compressed, and the six others can be.
        assert 1.5 < measured["compression-ratio"] < 8
        assert 1 < measured["memory-ratio"] <= measured["compression-ratio"] * 1.01
        assert measured["read-rate"] > 1e6
        assert measured["write-rate"] > 1e6
        results = record["details"]["results"]
        assert results["same_pages"] * os.sysconf("SC_PAGESIZE") == results["data_bytes"] // 8


def test_an_algorithm_that_the_kernel_does_not_have_fails_the_run(home: Path, state: Path) -> None:
    suite(home, algorithm="nonsense")
    ran = run(state, "bench", "own", "-n", "1")
    assert ran.status == 1
    assert "does not compress with" in ran.err
    assert algorithms()[0] in ran.err
    (record,) = records(home)
    assert record["measurements"] == []


def test_data_of_ones_own(home: Path, state: Path) -> None:
    size = (1 << 20) + 100
    data = home / "data"
    data.write_bytes(os.urandom(size))
    suite(home, data=str(data))
    assert run(state, "bench", "own", "-n", "1").status == 0
    (record,) = records(home)
    measured = values(record)
    # Random bytes stay as they are; of a file, whole pieces of 64 KiB are taken.
    assert measured["compression-ratio"] == pytest.approx(1.0)
    assert record["details"]["results"]["data_bytes"] == 1 << 20
    assert record["details"]["results"]["data_sha256"] == hashlib.sha256(data.read_bytes()[: 1 << 20]).hexdigest()
    assert record["agent_load"]["data"] == str(data)


def by_dd(data: Path, size: int) -> dict[str, float]:
    """The same of a device by hand: what the kernel says that the data take, and the rates that dd prints."""
    number = (CONTROL / "hot_add").read_text().strip()
    device, shown = f"/dev/zram{number}", Path(f"/sys/block/zram{number}")
    try:
        (shown / "comp_algorithm").write_text(algorithms()[0])
        (shown / "disksize").write_text(str(size))
        written = dd(f"if={data}", f"of={device}", "oflag=direct")
        stored, compressed, memory = (int(word) for word in (shown / "mm_stat").read_text().split()[:3])
        assert stored == size
        read = dd(f"if={device}", "of=/dev/null", "iflag=direct")
    finally:
        (shown / "reset").write_text("1")
        (CONTROL / "hot_remove").write_text(number)
    return {
        "compression-ratio": size / compressed,
        "memory-ratio": size / memory,
        "write-rate": size / written,
        "read-rate": size / read,
    }


def dd(*words: str) -> float:
    """The seconds that it says it took."""
    command = ["dd", "bs=128K", *words]
    ran = subprocess.run(command, env={"LC_ALL": "C"}, capture_output=True, text=True, check=True)
    return float(ran.stderr.rpartition("copied, ")[2].split()[0])


def test_it_agrees_with_a_device_made_by_hand(home: Path, state: Path) -> None:
    data = home / "data"
    data.write_text("".join(f"{number} {number * number}\n" for number in range(1_500_000))[: 16 << 20])
    size = data.stat().st_size
    assert size == 16 << 20
    suite(home, data=str(data), algorithm=algorithms()[0])
    assert run(state, "bench", "own", "-n", "5").status == 0
    ours = [values(record) for record in records(home)]
    theirs = [by_dd(data, size) for _ in range(5)]
    assert len(ours) == 5
    assert {one["compression-ratio"] for one in ours + theirs} == {ours[0]["compression-ratio"]}
    assert ours[0]["memory-ratio"] == pytest.approx(theirs[0]["memory-ratio"], rel=0.01)
    # dd's own copy from the file is in its time.
    for name in ("write-rate", "read-rate"):
        own, others = [one[name] for one in ours], [one[name] for one in theirs]
        allowed = 2 * max(own) / min(own) * max(others) / min(others)
        assert 1 / allowed <= statistics.median(own) / statistics.median(others) <= allowed, f"{own} and {others}"


@pytest.mark.parametrize(
    "what,said",
    [("zeros", "one repeated word"), ("short", "bytes"), ("absent", "No such file"), ("folder", "Is a dir")],
)
def test_data_that_cannot_be_measured_fails_the_run(home: Path, state: Path, what: str, said: str) -> None:
    data = home / "data"
    if what == "folder":
        data.mkdir()
    elif what != "absent":
        data.write_bytes(bytes(1 << 20 if what == "zeros" else 1000))
    suite(home, data=str(data))
    ran = run(state, "bench", "own", "-n", "1")
    assert ran.status == 1
    assert said in ran.err


def start(home: Path, state: Path) -> subprocess.Popen[str]:
    """A run that takes seconds, under way: its device is there."""
    before = devices()
    suite(home, bytes=LONG_BYTES)
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "src")}
    command = [sys.executable, "-m", "ktrial", "--machine-state", str(state), "bench", "own", "-n", "1"]
    head = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not is_written_to(before):
        assert head.poll() is None, head.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return head


def is_written_to(before: dict[str, str]) -> bool:
    for name in set(devices()) - set(before):
        with contextlib.suppress(OSError):
            return int((Path("/sys/block") / name / "mm_stat").read_text().split()[0]) > 0
    return False


def agents_of(head: subprocess.Popen[str], state: Path) -> list[int]:
    """All agents of a head with their holders of leases."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"ktrial-agent" in words[0] or words[0] == b"/proc/self/exe":
                found += [int(process.name)] if str(state).encode() in words else []
    return found


def wait_until_gone(before: dict[str, str]) -> None:
    deadline = time.monotonic() + 30
    while devices() != before:
        assert time.monotonic() < deadline, devices()
        time.sleep(0.05)


def test_ctrl_c_takes_the_device_away(home: Path, state: Path) -> None:
    before = devices()
    head = start(home, state)
    os.killpg(head.pid, signal.SIGINT)
    out, err = head.communicate(timeout=60)
    assert head.returncode == 130, out + err
    assert devices() == before


def test_a_killed_head_takes_the_device_away(home: Path, state: Path) -> None:
    before = devices()
    head = start(home, state)
    head.kill()
    head.communicate()
    wait_until_gone(before)


def test_what_kill_9_of_everything_leaves_is_recovered(home: Path, state: Path) -> None:
    before = devices()
    head = start(home, state)
    head.send_signal(signal.SIGSTOP)
    agents = agents_of(head, state)
    assert len(agents) == 4, "the sessions of user and root, the holder of the lease, and the one that samples"
    for _ in range(2):
        for process in agents:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        agents = agents_of(head, state)
    head.kill()
    head.communicate()
    assert len(devices()) == len(before) + 1
    ran = run(state, "recover")
    assert ran.status == 0, ran.err
    assert devices() == before


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with ordinary_user("zram") as made:
        done = made.start("sudo", "./ktrial", "doctor", "--json")
        assert done.returncode in {0, 1}, done.stderr
        yield made


@pytest.mark.parametrize("prefix", [("sudo",), ()], ids=["sudo-ktrial", "ktrial-asks"])
def test_an_ordinary_user_measures_through_sudo(user: User, prefix: tuple[str, ...]) -> None:
    state = Path("/var/lib") / f"ktrial-test-zram-{os.getpid()}"
    try:
        ran = user.start(*prefix, "./ktrial", "--machine-state", str(state), "bench", "zram-lz4", "-n", "1")
    finally:
        shutil.rmtree(state, ignore_errors=True)
    assert ran.returncode == 0, ran.stderr
    assert "compression-ratio" in ran.stdout
    if not prefix:
        assert "zram-lz4 (it creates, fills and removes" in ran.stderr
        assert "needs root: asking sudo" in ran.stderr
    assert user.files_of_others() == []


def test_without_root_it_is_left_out(user: User) -> None:
    ran = user.start("./ktrial", "--no-sudo", "bench", "zram-lz4", "-n", "1")
    assert ran.returncode == 1
    assert "needs root, because it creates, fills and removes" in ran.stderr


def test_a_blame_sets_the_device_up_as_one_factor(home: Path, state: Path) -> None:
    """Algorithm and size only act together; a variable that does nothing is the other choice."""
    program = home / "program.py"
    program.write_text(
        "import random\n"
        "took = 1.3 if 'zram' in open('/proc/swaps').read() else 1.0\n"
        "print('took', took * (1 + random.gauss(0, 0.01)))\n"
    )
    swaps = Path("/proc/swaps").read_text()
    algorithm = algorithms()[0]
    words = ["zram:disksize=64MiB", f"zram:comp_algorithm={algorithm}", "--env", "S1=1", "--known", "worse"]
    metric = ["--metric", "took_s:lower=took ([0-9.]+)", "--primary", "took", "--settle", "0s", "--json"]
    ran = run(state, "blame", *words, *metric, "--", sys.executable, "-S", str(program))
    assert ran.status == 0, ran.err
    found = json.loads(ran.out.splitlines()[-1])["blame"]
    assert sorted(found["factors"]) == ["S1", "zram:comp_algorithm + zram:disksize"]
    assert [one["factors"] for one in found["culprits"]] == [["zram:comp_algorithm + zram:disksize"]]
    assert Path("/proc/swaps").read_text() == swaps

# SPDX-License-Identifier: Apache-2.0
"""Arms of commands, a service and a scheduler, through real agents; systemctl and scheduler are scripts of the test."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import ktrial.bench.adapters
from ktrial.cli.main import main
from tests.support.terminal import KTRIAL
from tests.support.tree import FakeRoot, Ran, use_compiled_catalog

LIMIT_S = 60.0
LOAD = """
suite = "agent-memcpy"
parameters = { duration_s = 0.1, bytes = 1048576 }
design = { budget = 9, settle = "0s" }
[arms.control]
"""
FAKE_SYSTEMCTL = """#!/bin/sh
case "$1" in
show) echo loaded ;;
is-active) [ "$2" = --quiet ] || cat {folder}/state; grep -qx active {folder}/state ;;
start) echo active > {folder}/state; echo start >> {folder}/asked ;;
stop) echo inactive > {folder}/state; echo stop >> {folder}/asked ;;
esac
"""


#: A scheduler that the third time it is started is thrown out at once.
FAKE_SCX = """#!/bin/sh
umask 022
folder={folder}/sys/kernel/sched_ext
echo started >> {folder}/starts
n=$(wc -l < {folder}/starts)
echo $n > $folder/enable_seq
mkdir -p $folder/root
echo fake_1.0 > $folder/root/ops
echo enabled > $folder/state
gone() {{ echo disabled > $folder/state; rm -r $folder/root; exit 0; }}
trap gone TERM
[ $n -ne 3 ] || {{ sleep 0.15; gone; }}
while :; do sleep 0.02; done
"""


@pytest.fixture
def home(tmp_path: Path, machine_alone: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for the head, while no other trial has the machine."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    use_compiled_catalog(folder)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "KTRIAL_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    return folder


def words(home: Path, *argv: str) -> list[str]:
    return ["--machine-state", str(home / "journal"), *argv]


def run(home: Path, *argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    return Ran(main(words(home, *argv), out, err), out.getvalue(), err.getvalue())


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


def commanded(home: Path) -> Path:
    """A protocol whose arm makes a file named flag."""
    path = home / "trial.toml"
    command = 'commands = [{ run = ["touch", "flag"], undo = ["rm", "flag"], check = ["test", "-e", "flag"] }]'
    path.write_text(f'name = "flags"{LOAD}[arms.case]\n{command}\n')
    return path


def is_stopped_in_its_arm(head: subprocess.Popen[bytes], flag: Path) -> bool:
    """Stopped while the flag is there, and no undo on its way; else it goes on."""
    if flag.exists():
        head.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        if flag.exists():
            return True
        head.send_signal(signal.SIGCONT)
    return False


def test_commands_are_run_in_their_arm_and_undone(home: Path) -> None:
    ran = run(home, "trial", "run", str(commanded(home)), "--no-profile")
    assert ran.status == 0, ran.err
    assert "touch flag; undone by rm flag" in ran.err
    assert not (home / "flag").exists()
    assert run(home, "trial", "recheck").status == 0


@pytest.mark.parametrize("how", ["recover", "trial resume"])
def test_a_killed_head_leaves_a_command_that_the_next_one_undoes(home: Path, how: str) -> None:
    said = home / "said"
    with said.open("wb") as file:
        argv = [*KTRIAL, *words(home, "trial", "run", str(commanded(home)), "--no-profile")]
        head = subprocess.Popen(argv, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: b"block 1/" in said.read_bytes() and is_stopped_in_its_arm(head, home / "flag"))
    finally:
        head.send_signal(signal.SIGKILL)
        head.wait(LIMIT_S)
    assert (home / "flag").exists()
    ran = run(home, *how.split())
    assert ran.status == 0, ran.err
    assert "; undoing this arm: " in ran.err
    assert "Nothing to do" not in ran.out
    assert not (home / "flag").exists()
    assert not list(home.rglob("commands.jsonl"))
    assert how != "recover" or run(home, "recover").out == "Nothing to do.\n"


def stopping(home: Path, service: str) -> list[str]:
    """The command of a trial with an arm in which a service is stopped; `systemctl` is another program for it."""
    program, path = home / "systemctl", home / "trial.toml"
    program.write_text(FAKE_SYSTEMCTL.format(folder=home))
    program.chmod(0o755)
    (home / "state").write_text("active\n")
    path.write_text(f'name = "services"{LOAD}[arms.case]\nservice = {{ name = "{service}", state = "stopped" }}\n')
    place = next(one for one in ("/usr/bin/systemctl", "/bin/systemctl") if Path(one).exists())
    inner = f'mount --bind {program} {place} && exec "$@"'
    return ["unshare", "-m", "sh", "-c", inner, "sh", *KTRIAL, *words(home, "trial", "run", str(path), "--no-profile")]


@pytest.mark.root
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_service_is_stopped_in_its_arm_and_as_found_afterwards(home: Path, is_killed: bool) -> None:
    state, asked = home / "state", home / "asked"
    argv = stopping(home, "irqbalance.service")
    said = home / "said"
    with said.open("wb") as file:
        head = subprocess.Popen(argv, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        if is_killed:
            wait_until(lambda: b"block 1/" in said.read_bytes() and state.read_text() == "inactive\n")
            os.kill(head.pid, signal.SIGKILL)
        status = head.wait(LIMIT_S)
    finally:
        head.kill()
    # The holder of the lease outlives the head for a moment.
    wait_until(lambda: state.read_text() == "active\n")
    told = asked.read_text().split()
    assert told == ["stop", "start"] * (len(told) // 2)
    if not is_killed:
        assert status == 0, said.read_text()
        assert "service irqbalance.service = stopped" in said.read_text()
        assert told, "visits that follow each other share one stop"
        assert "service irqbalance.service" in run(home, "ledger", "--json").out


@pytest.mark.root
def test_a_service_that_the_agent_never_stops_is_refused_before_anything_runs(home: Path) -> None:
    argv = stopping(home, "ssh.service")
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False)
    assert done.returncode == 2, done.stderr
    assert 'arm case: a plan may not start or stop "ssh.service"' in done.stderr
    assert "block 1/" not in done.stderr
    assert not (home / "asked").exists()


@pytest.mark.root
def test_a_scheduler_runs_in_its_arm_and_where_it_is_ejected_the_run_has_failed(
    root: FakeRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.folder.parent)
    program = root.folder.parent / "scx_fake"
    program.write_text(FAKE_SCX.format(folder=root.folder))
    program.chmod(0o755)
    # The head looks for it on this machine, the agent below its root.
    root.write(str(program), program.read_text())
    (root.folder / str(program).lstrip("/")).chmod(0o755)
    root.write("/.ktrial-test-machine", "")
    root.write("/sys/kernel/sched_ext/state", "disabled\n")
    path = root.folder.parent / "trial.toml"
    load = LOAD.replace("duration_s = 0.1", "duration_s = 0.4")
    path.write_text(f'name = "schedulers"{load}[arms.case]\nsched_ext = {{ run = ["{program}"] }}\n')
    ran = root.run("trial", "run", str(path), "--no-profile")
    assert ran.status == 0, ran.err
    assert "sched_ext = fake" in ran.err
    assert ran.err.count("run discarded: the arm was lost") == 1
    assert root.read("/sys/kernel/sched_ext/state") == "disabled\n"
    assert root.run("trial", "recheck").status == 0


BUILDER = """#!/bin/sh
rm -f prog
echo "#!/bin/sh
# $1
echo value $2" > prog
chmod +x prog
"""
BUILT = """
name = "built"
command = ["./prog"]
metrics = ["value:higher=value ([0-9.]+)"]
primary = "value"
design = {{ replicate = "build", settle = "0s", seed = 7, runs_per_visit = 2, cap = 7 }}
[arms.control]
build = {{ run = ["/bin/sh", "-c", 'exec ./build.sh "{number}" 10'], artefact = "prog" }}
[arms.case]
build = {{ run = ["/bin/sh", "-c", 'exec ./build.sh "{number}" 20'], artefact = "prog" }}
"""


@pytest.mark.parametrize(
    "number, scope, doubt",
    [
        ("$KTRIAL_BUILD", "across 14 builds, on this boot of this machine", False),
        ("fixed", "on this build of each arm, on this boot of this machine", True),
    ],
)
def test_every_visit_measures_a_build_of_its_own(home: Path, number: str, scope: str, doubt: bool) -> None:
    for name, text in (("build.sh", BUILDER), ("prog", "#!/bin/sh\necho value 1\n")):
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    (home / "trial.toml").write_text(BUILT.format(number=number))
    ran = run(home, "trial", "run", "trial.toml", "--no-profile")
    assert ran.status == 0, ran.err
    assert "control build = prog by /bin/sh" in " ".join(ran.err.split())
    assert "at most 7 blocks of 2 builds in random order, 2 runs each" in ran.err
    shown = " ".join(ran.out.split())
    assert f"scope {scope}" in shown
    assert "case better +100 %" in shown
    assert ("builds gave the same bytes again" in shown) is doubt
    assert run(home, "trial", "recheck").status == 0
    assert '"build":"prog by /bin/sh' in run(home, "ledger", "--json").out.replace(": ", ":")


def test_an_arm_that_has_the_tool_measure_something_else_is_not_compared(home: Path) -> None:
    """The variable of its environment makes the tool use four threads, and the tool says so."""
    printed = (Path(ktrial.bench.adapters.__file__).parent / "sysbench/cases/1.0.20-cpu/stdout").resolve()
    tool = home / "sysbench"
    tool.write_text(f'#!/bin/sh\nsed "s/^Number of threads: .*/Number of threads: ${{THREADS:-2}}/" {printed}\n')
    tool.chmod(0o755)
    (home / "trial.toml").write_text(
        'name = "threads"\nsuite = "sysbench-cpu"\nparameters = { threads = 2, seconds = 2 }\n'
        'design = { cap = 7, settle = "0s" }\n[arms.control]\n[arms.case]\nenvironment = { THREADS = "4" }\n'
    )
    inner = f'mount --bind {tool} {shutil.which("sysbench")} && exec "$@"'
    namespace = ["unshare", "--map-root-user", "--mount", "--propagation", "private", "sh", "-c", inner, "sh"]
    argv = [*namespace, *KTRIAL, *words(home, "trial", "run", "trial.toml", "--no-profile")]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, ran.stderr
    shown = " ".join(ran.stdout.split())
    assert "case not comparable" in shown
    assert "runs measured something else (1 of case): asked for threads 2, but the tool reports 4" in shown
    assert run(home, "trial", "recheck").status == 0

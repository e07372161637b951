# SPDX-License-Identifier: Apache-2.0
"""Steps before a run and servers beside it, through the real agent."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.agent.binary import find_agent
from ktrial.agent.transport import DetachedTransport
from ktrial.bench.benchmark import DIRECTORY, Invocation, Step
from ktrial.bench.run.executor import AgentExecutor
from ktrial.kit.errors import KtrialError
from tests.support.memory import mounted_tmpfs

# One worker: these tests count what is left of them.
pytestmark = pytest.mark.xdist_group("steps")
SERVER = ("sh", "-c", "sleep 0.2; touch ready; exec sleep 61")
READY = ("test", "-e", f"{DIRECTORY}/ready")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.fixture
def executor(work: Path) -> Iterator[AgentExecutor]:
    argv = [str(find_agent()), "serve", "--role", "user"]
    executor = AgentExecutor(lambda: DetachedTransport(argv), work, None)
    yield executor
    executor.close()


def test_the_highest_version_of_a_server_is_taken(tmp_path: Path) -> None:
    for version in ("9.6", "15", "16"):
        folder = tmp_path / "root/usr/lib/postgresql" / version / "bin"
        folder.mkdir(parents=True)
        (folder / "initdb").touch()
    (tmp_path / "root/usr/bin").mkdir()
    for name in ("initdb", "true"):
        (tmp_path / "root/usr/bin" / name).touch()
    argv = [str(find_agent()), "serve", "--role", "user", "--root", str(tmp_path / "root")]
    executor = AgentExecutor(lambda: DetachedTransport(argv), tmp_path / "work", None)
    found = executor.programs(["initdb", "true", "/usr/bin/initdb", "absent"])
    executor.close()
    assert found == {
        "initdb": "/usr/lib/postgresql/16/bin/initdb",
        "true": "/usr/bin/true",
        "/usr/bin/initdb": "/usr/bin/initdb",
        "absent": None,
    }


def test_files_are_collected_by_name_and_by_pattern(executor: AgentExecutor) -> None:
    script = "echo one > log.17; echo two > log.17.1; echo no > other; ln -s log.17 log.link; mkdir log.folder"
    files = ("log.*", "absent", "absent.*", "other")
    done = executor.run(Invocation(argv=("sh", "-c", script), limit_s=10, files=files))
    assert done.raw.files == {"log.17": b"one\n", "log.17.1": b"two\n", "other": b"no\n"}


def sleepers() -> int:
    """Servers of these tests that still run."""
    return subprocess.run(["pgrep", "-fx", "sleep 61"], capture_output=True, check=False).stdout.count(b"\n")


def test_steps_come_before_the_run_in_its_folder(executor: AgentExecutor, work: Path) -> None:
    steps = (Step(argv=("sh", "-c", "echo made; cat > made"), stdin=b"by a step"), Step(argv=("chmod", "400", "made")))
    done = executor.run(Invocation(argv=("cat", f"{DIRECTORY}/made"), limit_s=10, steps=steps))
    assert done.raw.stdout == b"by a step"
    assert done.argv == ("/usr/bin/cat", "{directory}/made")
    assert done.steps[1] == ("/usr/bin/chmod", "400", "made")
    assert done.step_raw == {"steps/0-sh/stdout": b"made\n"}
    assert list(work.iterdir()) == []


def test_the_run_waits_for_its_server_and_ends_it(executor: AgentExecutor) -> None:
    server = Step(argv=SERVER, ready=READY, limit_s=10)
    done = executor.run(Invocation(argv=("ls",), limit_s=10, steps=(server,)))
    assert (done.raw.failed, done.raw.stdout) == (None, b"ready\n")
    assert sleepers() == 0


@pytest.mark.parametrize(
    "step, said",
    [
        (
            Step(argv=("sh", "-c", "echo no room >&2; exit 3")),
            "sh, which must run first, ended with status 3; it said: no",
        ),
        (Step(argv=("nosuch",)), "nosuch, which must run first, did not complete"),
        (Step(argv=("sleep", "61"), limit_s=0.2), "sleep, which must run first, exceeded its time limit"),
        (
            Step(argv=("true",), ready=("false",), limit_s=9),
            "true, which must run first, ended before it was ready: it ended with status 0",
        ),
        (
            Step(argv=("sh", "-c", "echo no port >&2; exit 3"), ready=("false",), limit_s=9),
            "sh, which must run first, ended before it was ready: it ended with status 3; it said: no port",
        ),
        (Step(argv=("sleep", "61"), ready=("false",), limit_s=0.3), "was not ready within 0.3 s"),
    ],
)
def test_a_step_that_fails_fails_the_run(executor: AgentExecutor, step: Step, said: str) -> None:
    done = executor.run(Invocation(argv=("touch", "/nowhere/run"), limit_s=10, steps=(step,)))
    assert said in (done.raw.failed or "")
    assert done.raw.exit_status is None
    assert sleepers() == 0


def test_a_server_that_dies_fails_the_run(executor: AgentExecutor) -> None:
    server = Step(argv=("sh", "-c", "touch ready; sleep 0.3; echo broken >&2; exit 7"), ready=READY, limit_s=10)
    done = executor.run(Invocation(argv=("sleep", "0.8"), limit_s=10, steps=(server,)))
    assert done.raw.failed == "its server /usr/bin/sh ended too early: it ended with status 7; it said: broken"
    assert done.step_raw == {"steps/0-sh/stderr": b"broken\n"}


def test_a_run_in_memory_lies_on_a_tmpfs_of_the_user(
    executor: AgentExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mounted_tmpfs(tmp_path / "mounted", "1m") as mounted:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(mounted))
        done = executor.run(Invocation(argv=("stat", "-f", "-c", "%T", "."), limit_s=10, in_memory=True))
        assert done.raw.stdout == b"tmpfs\n"
        assert done.directory.startswith(str(mounted))
        assert list((mounted / "ktrial-work").iterdir()) == []


def test_without_a_tmpfs_a_run_in_memory_is_refused(
    executor: AgentExecutor, disk_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(disk_path))
    monkeypatch.setattr("ktrial.agent.run_folder.ROOTS_OWN", Path("/nowhere"))
    with pytest.raises(KtrialError, match=r"this user has none") as refused:
        executor.run(Invocation(argv=("true",), limit_s=10, in_memory=True))
    assert "XDG_RUNTIME_DIR" in (refused.value.hint or "")

# SPDX-License-Identifier: Apache-2.0
"""Which session carries out what, and what a session of root is asked for, with agents made of memory."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from ktrial import __version__
from ktrial.agent.interrupts import Interrupts
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import DetachedTransport
from ktrial.bench.benchmark import AgentLoad, Invocation, RawOutput, check_exit
from ktrial.bench.guest_tools import GuestTools
from ktrial.bench.run.executor import AgentExecutor
from ktrial.bench.run.folders import FoldersHere
from ktrial.kit.errors import BadRun, PrivilegeMissing

EXEC = {
    "exit": {"status": 0},
    "timed_out": False,
    "hung_up": False,
    "stdout": "",
    "stderr": "",
    "stdout_total_bytes": 0,
    "stderr_total_bytes": 0,
    "wall_ns": 5,
    "rusage": None,
}


class FakeAgent:
    """Answers requests; keeps them in `log` under its name."""

    asker = None

    def __init__(self, log: list[tuple[str, dict[str, Any]]], name: str, uid: int, refuse: str | None = None) -> None:
        self._log = log
        self.name = name
        self._uid = uid
        self._refuse = refuse
        self._reply = b""
        self.interrupts = False
        self.open = True

    def send(self, line: bytes) -> None:
        request = msgspec.json.decode(line)
        number, do = request.pop("id"), request.pop("do")
        self._log.append((f"{self.name} {do}", request))
        if do == self._refuse:
            reply: dict[str, Any] = {"id": number, "error": {"kind": "privilege", "message": "root may not"}}
        else:
            answers: dict[str, Callable[[], dict[str, Any]]] = {
                "hello": lambda: {"agent": __version__, "uid": self._uid, "pid": 77, "capabilities": ["load"]},
                "list": lambda: {"matches": {pattern: [pattern] for pattern in request["patterns"]}},
                "exec": lambda: EXEC,
                "load": lambda: {"wall_ns": 9},
            }
            reply = {"id": number, "ok": answers.get(do, dict)()}
        self._reply = msgspec.json.encode(reply) + b"\n"

    def wait(self, interrupts: Interrupts) -> None:
        if self.interrupts:
            raise KeyboardInterrupt

    def hang_up(self) -> None:
        self._log.append((f"{self.name} hang-up", {}))

    def receive(self, limit_s: float | None = None) -> bytes:
        return self._reply

    def close(self) -> None:
        self.open = False

    finish = abandon = close


class Scene:
    """An executor of user `uid` with its agents, and what they were asked."""

    def __init__(self, tmp_path: Path, uid: int = 1000, *, root: bool = True, refuse: str | None = None) -> None:
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.agents: list[FakeAgent] = []
        self.asked_for: list[str] = []
        self._uid = uid
        self._refuse = refuse
        self.executor = AgentExecutor(self._connect, tmp_path / "work", self._open_root if root else None)

    def _connect(self) -> DetachedTransport:
        agent = FakeAgent(self.log, f"user{len(self.agents)}", self._uid)
        self.agents.append(agent)
        return cast(DetachedTransport, agent)

    def _open_root(self, purpose: str) -> AgentSession:
        self.asked_for.append(purpose)
        self.root = FakeAgent(self.log, "root", 0, self._refuse)
        return AgentSession(self.root)

    def did(self) -> list[str]:
        """Requests beside greetings and searches, in order."""
        return [what for what, _ in self.log if what.split()[1] not in {"hello", "list"}]

    def request(self, what: str) -> dict[str, Any]:
        return next(fields for done, fields in self.log if done == what)


REALTIME = Invocation(argv=("cyclictest",), limit_s=1, realtime_priority=80)
PLAIN = Invocation(argv=("true",), limit_s=1)


def test_a_realtime_priority_is_lent_to_a_session_of_the_user_apart(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.executor.obtain_root("cyclictest-fifo")
    for invocation in (PLAIN, REALTIME, PLAIN, REALTIME):
        assert scene.executor.run(invocation).raw.exit_status == 0
    grants = ["root grant", "user1 exec"]
    assert scene.did() == ["user0 exec", *grants, "user0 exec", *grants]
    assert scene.request("root grant") == {"process": 77, "realtime_priority": 80}
    assert scene.asked_for == ["cyclictest-fifo"]


def test_root_lends_itself_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path, uid=0)
    scene.executor.obtain_root("cyclictest-fifo")
    scene.executor.run(REALTIME)
    assert scene.did() == ["user0 exec"]
    assert scene.asked_for == []


def test_a_right_that_root_cannot_lend_fails_the_run(tmp_path: Path) -> None:
    scene = Scene(tmp_path, refuse="grant")
    raw = scene.executor.run(REALTIME).raw
    assert raw.failed == "the agent reported an error (root may not)"
    assert scene.did() == ["root grant"]


@pytest.mark.parametrize("uid", [0, 1000])
def test_a_load_of_roots_own_runs_there_on_the_data_that_the_user_may_read(tmp_path: Path, uid: int) -> None:
    data = tmp_path / "data"
    data.write_bytes(os.urandom((2 << 20) + 5))
    load = AgentLoad(name="zram", parameters={"bytes": (2 << 20) + 3}, as_root=True, data=str(data))
    scene = Scene(tmp_path, uid)
    scene.executor.run(Invocation(load=load, limit_s=1))
    assert scene.did() == ["root data", "root data", "root load"]
    parts = [fields for done, fields in scene.log if done == "root data"]
    assert [part["first"] for part in parts] == [True, False]
    handed = b"".join(base64.b64decode(part["bytes"]["base64"]) for part in parts)
    assert handed == data.read_bytes()[: (2 << 20) + 3]


def test_data_that_cannot_be_read_fails_the_run(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name, why in (("nothing", "No such file"), ("fifo", "not a regular file"), ("", "irectory")):
        load = AgentLoad(name="zram", parameters={"bytes": 5}, as_root=True, data=f"{tmp_path}/{name}")
        scene = Scene(tmp_path)
        failed = scene.executor.run(Invocation(load=load, limit_s=1)).raw.failed
        assert failed is not None
        assert why in failed
        assert scene.did() == []


def test_an_interruption_ends_the_session_of_root(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.executor.obtain_root("zram")
    scene.root.interrupts = True
    raw = scene.executor.run(Invocation(load=AgentLoad(name="zram", as_root=True), limit_s=1)).raw
    assert (raw.interrupted, raw.wall_ns) == (True, 9)
    assert scene.did()[-1] == "root hang-up"
    assert not scene.root.open


def test_without_root_nothing_that_needs_it_is_run(tmp_path: Path) -> None:
    scene = Scene(tmp_path, root=False)
    assert not scene.executor.has_root
    with pytest.raises(PrivilegeMissing, match="zram-lz4 needs root"):
        scene.executor.obtain_root("zram-lz4")


def test_a_file_of_the_run_that_cannot_be_read_makes_it_no_run(tmp_path: Path) -> None:
    (tmp_path / "good").write_text("7")
    read = FoldersHere.with_files(RawOutput(exit_status=0), tmp_path, ["good", "never-written"])
    assert (read.files, read.unread) == ({"good": b"7"}, None)
    (tmp_path / "link").symlink_to("/etc/hostname")
    (tmp_path / "folder").mkdir()
    for name, why in (("link", "symbolic"), ("folder", "not a regular file")):
        with pytest.raises(BadRun, match=f"left a file that ktrial cannot read: {name} .*{why}"):
            check_exit(FoldersHere.with_files(RawOutput(exit_status=0), tmp_path, ["good", name]))


def test_programs_of_a_guest_are_looked_for_once_and_first_where_they_were_put(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    tools = GuestTools(places={"schbench": "/opt/tools/schbench"})
    scene.executor = AgentExecutor(scene._connect, tmp_path / "work", None, guest=lambda: tools)
    assert scene.executor.guest == tools
    for _ in range(2):
        assert scene.executor.programs(["schbench", "true"])["schbench"] == "/opt/tools/schbench"
    listed = [fields["patterns"] for what, fields in scene.log if what.endswith(" list")]
    assert len(listed) == 1
    assert listed[0][0] == "/opt/tools/schbench"

# SPDX-License-Identifier: Apache-2.0
"""The connection to another machine, with a stand-in for ssh that runs the command here."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktrial.agent.binary import find_agent
from ktrial.agent.carrier import CarriedTransport
from ktrial.agent.remote import OtherMachine, start_script
from ktrial.agent.session import AgentSession
from ktrial.agent.ssh import SshWay, check_name
from ktrial.kit.errors import AgentError, BadInput, KtrialError

Stand = Callable[[str], None]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    """Puts a program in the place of ssh; `$command` is what ssh would run there."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def put(script: str) -> None:
        program = tmp_path / "ssh"
        program.write_text(f"#!/bin/sh\nfor command; do :; done\n{script}\n")
        program.chmod(0o755)

    put('exec /bin/sh -c "$command"')
    return put


def machine(**more: Any) -> OtherMachine:
    return OtherMachine(SshWay("web1"), lambda _: find_agent(), lambda _: None, **more)


def session(there: OtherMachine) -> AgentSession:
    ends = there.open(["serve", "--role", "user", "--work", f"{there.base}/work"], root=False)
    return AgentSession(CarriedTransport(ends.to_agent, ends.from_agent, lambda: None, there.why_gone))


def test_every_login_shell_passes_the_script_on_unchanged() -> None:
    assert not set("'\\\n!") & set(start_script("x", SshWay.bases))


def test_sessions_go_over_one_connection_and_nothing_stays(stand_in: Stand, tmp_path: Path) -> None:
    there = machine()
    assert there.machine.uid == os.geteuid()
    one, other = session(there), session(there)
    folder = one.request("folder-make", in_memory=False)["path"]
    assert Path(folder).is_relative_to(tmp_path / "home/.cache/ktrial/work")
    assert one.request("seat", of="measurement") == {"taken": True}
    assert other.request("seat", of="measurement")["taken"] is False
    with there.quiet(5):
        assert one.facts(("kernel.release",)).value("kernel.release") == os.uname().release
    one.close()
    other.close()
    there.close()
    assert list((tmp_path / "home").rglob("*")) in ([], [tmp_path / "home/.cache"])


def test_a_copy_that_is_kept_is_used_again(stand_in: Stand, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    machine(keeps=True).close()
    (copy,) = (tmp_path / "home").rglob("ktrial-agent")
    first = copy.stat().st_ino
    machine().close()
    assert copy.stat().st_ino == first
    copy.write_bytes(copy.read_bytes() + b"x")
    machine().close()
    assert copy.read_bytes() == find_agent().read_bytes()


def test_a_copy_of_another_version_is_removed(stand_in: Stand, tmp_path: Path) -> None:
    old = tmp_path / "home/.cache/ktrial/agents/0123"
    old.mkdir(parents=True)
    (old / "ktrial-agent").write_bytes(b"old")
    machine().close()
    assert not old.exists()


def test_what_a_login_prints_first_is_skipped(stand_in: Stand) -> None:
    stand_in('echo Welcome; printf "no newline"; exec /bin/sh -c "$command"')
    there = machine()
    session(there).close()
    there.close()


def test_folders_that_cannot_hold_the_agent_are_passed_over(stand_in: Stand, tmp_path: Path) -> None:
    (tmp_path / "home/.cache").write_text("a file")
    there = machine()
    assert there.base == str(tmp_path / "home/.local/state/ktrial")
    there.close()


def test_a_machine_without_a_place_names_each_folder_and_why(stand_in: Stand, tmp_path: Path) -> None:
    for name in (".cache", ".local"):
        (tmp_path / "home" / name).write_text("a file")
    stand_in('XDG_RUNTIME_DIR=/proc/nowhere; export XDG_RUNTIME_DIR; exec /bin/sh -c "$command"')
    with pytest.raises(KtrialError) as caught:
        machine()
    lines = caught.value.message.splitlines()
    assert lines[0] == "cannot start the agent on web1: no folder there can hold and run it"
    assert [re.match(r"  (\S+):", line)[1].removeprefix(str(tmp_path)) for line in lines[1:]] == [  # type: ignore[index]
        "/home/.cache/ktrial",
        "/home/.local/state/ktrial",
        "/proc/nowhere/ktrial",
    ]


@pytest.mark.parametrize(
    "script, message",
    [
        ("echo 'Host key verification failed.' >&2; exit 255", "cannot connect to web1: Host key verification failed"),
        ("exit 255", "cannot connect to web1: ssh ended without a reason"),
        (
            "echo 'This account is currently not available.'; exit 1",
            "cannot run commands on web1: its login ended with status 1: This account is currently not available.",
        ),
        ("exit 0", "cannot run commands on web1: its login ended with status 0"),
        ("yes", "cannot run commands on web1: its login prints more than 1 MiB"),
    ],
)
def test_why_there_is_no_machine_is_said(stand_in: Stand, script: str, message: str) -> None:
    stand_in(script)
    with pytest.raises(KtrialError) as caught:
        machine()
    assert caught.value.message.startswith(message)
    assert caught.value.hint


def test_an_architecture_without_an_agent_is_said(stand_in: Stand) -> None:
    def none(architecture: str) -> Path:
        raise KtrialError(f"no agent for {architecture}")

    with pytest.raises(KtrialError, match=f"no agent for {os.uname().machine}"):
        OtherMachine(SshWay("web1"), none, lambda _: None)


def test_a_connection_that_ends_is_told_with_the_last_words(stand_in: Stand) -> None:
    stand_in('echo "bye now." >&2; exec /bin/sh -c "$command"')
    there = machine()
    one = session(there)
    there._process.kill()
    with pytest.raises(AgentError, match="lost the connection to web1: bye now") as caught:
        one.request("facts")
    assert caught.value.kind == "lost"
    there.close()


@pytest.mark.parametrize("name", ["", "-oProxyCommand=x", "a b", "a\nb"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="not the name of a machine"):
        check_name(f"ssh:{name}", name)

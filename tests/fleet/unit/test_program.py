# SPDX-License-Identifier: Apache-2.0
"""How the collection starts ktrial, and what becomes of its messages."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from ktrial.fleet.ansible_collections.ktrial.tuning.plugins.plugin_utils.program import (
    Ktrial,
    MachineUnreachable,
    TaskFailed,
    program_words,
)

ERROR = """
import json, sys
print("ktrial: a note", file=sys.stderr)
print("ktrial: {message}\\n  next: do it", file=sys.stderr)
if "--json" in sys.argv:
    print(json.dumps({{"schema": "ktrial.error/1", "error": "{message}", "status": {status}, "next": "do it"}}))
sys.exit({status})
"""


def ktrial(code: str, **more: object) -> Ktrial:
    return Ktrial([sys.executable, "-c", code], dict(os.environ), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [("plan", "--json"), ("trial", "stop")])
def test_a_failure_has_the_message_the_next_step_and_the_status(words: tuple[str, ...]) -> None:
    with pytest.raises(TaskFailed) as failure:
        ktrial(ERROR.format(message="it broke", status=4)).run(*words)
    assert failure.value.result == {
        "failed": True,
        "msg": "it broke; next: do it",
        "hint": "do it",
        "rc": 4,
        "kind": None,
    }


@pytest.mark.parametrize("message", ["cannot connect to web1: no route", "lost the connection to web1"])
def test_a_machine_that_is_away_is_unreachable(message: str) -> None:
    with pytest.raises(MachineUnreachable, match="next: do it"):
        ktrial(ERROR.format(message=message, status=1)).run("facts", "--json")


def test_the_next_step_is_that_of_ansible_where_it_is_another() -> None:
    with pytest.raises(TaskFailed) as failure:
        ktrial(ERROR.format(message="apply needs root", status=5), has_root=False).run("apply", "--json")
    assert failure.value.result["hint"] == "set `become: true` for this task"
    denied = ERROR.format(message="cannot connect to web1: Permission denied (publickey)", status=1)
    with pytest.raises(MachineUnreachable, match="next: use a key"):
        ktrial(denied, login_hint="use a key").run("facts", "--json")


def test_a_password_goes_through_a_pipe_and_no_terminal_is_left() -> None:
    code = """
import json, os
words = open("/proc/self/cmdline").read() + open("/proc/self/environ").read()
with os.fdopen(int(os.environ["KTRIAL_PASSWORD_FD"])) as file:
    told = {"password": file.read(), "leaks": "pass" + " word" in words, "leader": os.getsid(0) == os.getpid()}
print(json.dumps(told))
"""
    for _ in range(2):
        answer = ktrial(code, password="pass word").run("apply")
        assert answer.document == {"password": "pass word\n", "leaks": False, "leader": True}


def test_without_a_password_none_of_an_earlier_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTRIAL_PASSWORD_FD", "3")
    answer = ktrial("import json, os; print(json.dumps({'has': 'KTRIAL_PASSWORD_FD' in os.environ}))").run("apply")
    assert answer.document == {"has": False}


def test_lines_of_json_are_read_and_other_output_is_an_error() -> None:
    answer = ktrial('print(\'{"a": 1}\\n{"b": 2}\')').run("trial")
    assert answer.documents == ({"a": 1}, {"b": 2})
    with pytest.raises(TaskFailed, match="not JSON: 'hello"):
        ktrial("print('hello')").run("facts")


def test_a_task_that_is_stopped_ends_ktrial_first(tmp_path: Path) -> None:
    """As the keyword `timeout` does, and Ansible itself if it is interrupted."""
    place = tmp_path / "ended"
    code = f"""
import signal, sys, time, pathlib
def end(*_):
    time.sleep(0.1)
    pathlib.Path({str(place)!r}).touch()
    sys.exit(1)
signal.signal(signal.SIGTERM, end)
pathlib.Path({str(tmp_path / "began")!r}).touch()
time.sleep(60)
"""

    def stop(*_: object) -> None:
        raise TimeoutError

    def interrupt() -> None:
        while not (tmp_path / "began").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, stop)
    waiting = threading.Thread(target=interrupt)
    waiting.start()
    try:
        with pytest.raises(TimeoutError):
            ktrial(code).run("apply")
    finally:
        waiting.join()
        signal.signal(signal.SIGUSR1, before)
    assert place.exists()


def test_a_program_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(TaskFailed, match="cannot start /nowhere/ktrial: No such file"):
        Ktrial(["/nowhere/ktrial"], {}).run("facts")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TaskFailed, match="cannot find ktrial on the controller"):
        program_words(None)
    (tmp_path / "ktrial").touch(mode=0o755)
    assert program_words(None) == [str(tmp_path / "ktrial")]
    assert program_words("'/my folder/ktrial' --no-sudo") == ["/my folder/ktrial", "--no-sudo"]

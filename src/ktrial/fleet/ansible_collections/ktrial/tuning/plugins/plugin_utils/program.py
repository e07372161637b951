# SPDX-License-Identifier: Apache-2.0
"""Starts `ktrial` on the controller, and reads its answers."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: The start of ktrial's messages if it cannot reach the machine.
_UNREACHABLE = re.compile(r"(?:cannot connect to|lost the connection to|lost the agent) ")
_PRIVILEGE_MISSING = 5
_END_S = 20.0
#: Processes that continue after their task. Python would warn of a process object that is deleted early.
_GOING_ON: list[subprocess.Popen[bytes]] = []


class TaskFailed(Exception):
    """A task failed; `result` is what Ansible reports for it."""

    def __init__(self, message: str, hint: str | None = None, **more: Any) -> None:
        super().__init__(f"{message}; next: {hint}" if hint else message)
        self.result = {"failed": True, "msg": str(self), "hint": hint, **more}


class MachineUnreachable(TaskFailed):
    """ktrial cannot connect to the machine."""


class ProgramAnswer(NamedTuple):
    """The exit status of a command, the documents that it wrote, and its messages."""

    status: int
    documents: tuple[dict[str, Any], ...]
    messages: str

    @property
    def document(self) -> dict[str, Any]:
        """The last JSON document that the command wrote; empty if there is none."""
        return self.documents[-1] if self.documents else {}

    @property
    def notes(self) -> list[str]:
        """The lines of the command's messages, without the program's name."""
        return [line.removeprefix("ktrial: ") for line in self.messages.splitlines() if line.strip()]


class Ktrial:
    """The program on the controller, for one machine.

    `words` start the program, `environment` holds its variables, and `password` is for sudo on the machine. `has_root`
    is true if the task may become root. `login_hint` is the next step if the machine refuses the login.
    """

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        *,
        password: str | None = None,
        has_root: bool = True,
        login_hint: str | None = None,
    ) -> None:
        self._words = [*words]
        self._environment = environment
        self._password = password
        self._has_root = has_root
        self._login_hint = login_hint

    def run(self, *verb: str, accepts: Sequence[int] = (0,)) -> ProgramAnswer:
        """Run one command. Raise TaskFailed if the command's exit status is not in `accepts`."""
        status, out, messages = self._start([*self._words, *verb])
        # A command that a signal ended may have written only half of its answer.
        answer = ProgramAnswer(status, documents_of(out) if status >= 0 else (), messages)
        if status not in accepts:
            raise self.failure(answer)
        return answer

    def begin(self, *verb: str, output: str) -> int:
        """Start one command that continues after this task, and return its process id.

        The command writes its documents to the file `output`, and its messages to `output`.txt.
        """
        with Path(output).open("wb") as documents, Path(f"{output}.txt").open("wb") as messages:
            process = self._open_process([*self._words, *verb], documents, messages)
        _GOING_ON.append(process)
        return process.pid

    def failure(self, answer: ProgramAnswer) -> TaskFailed:
        """Return the error with which the task fails, from the answer of a failed command."""
        told = next((one for one in answer.documents if one.get("schema") == "ktrial.error/1"), {})
        message, hint = told.get("error"), told.get("next")
        if message is None:
            message, hint = last_error(answer.messages)
        if answer.status == _PRIVILEGE_MISSING and not self._has_root:
            hint = "set `become: true` for this task"
        if not _UNREACHABLE.match(message):
            return TaskFailed(message, hint, rc=answer.status, kind=told.get("kind"))
        if "Permission denied" in message and self._login_hint:
            hint = self._login_hint
        return MachineUnreachable(message, hint, rc=answer.status)

    def _start(self, argv: Sequence[str]) -> tuple[int, str, str]:
        process = self._open_process(argv, subprocess.PIPE, subprocess.PIPE)
        try:
            out, messages = process.communicate()
        except BaseException:
            _end(process)
            raise
        return process.returncode, out.decode(errors="replace"), messages.decode(errors="replace")

    def _open_process(self, argv: Sequence[str], out: Any, messages: Any) -> subprocess.Popen[bytes]:
        environment = {**self._environment}
        environment.pop("KTRIAL_PASSWORD_FD", None)
        files: tuple[int, ...] = ()
        if self._password is not None:
            reading, writing = os.pipe()
            os.write(writing, f"{self._password}\n".encode())
            os.close(writing)
            files, environment["KTRIAL_PASSWORD_FD"] = (reading,), str(reading)
        try:
            # In a session of its own without a terminal, neither ssh nor sudo can ask anything.
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=messages,
                pass_fds=files,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise TaskFailed(
                f"cannot start {argv[0]}: {error.strerror}", "set the variable `ktrial_program` to the path of ktrial"
            ) from None
        finally:
            for file in files:
                os.close(file)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command whose task was stopped. ktrial restores the settings of its session before it ends."""
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def documents_of(text: str) -> tuple[dict[str, Any], ...]:
    """Return the JSON objects in a text: one object, or one in each line. Raise TaskFailed for other output."""
    for parts in ([text], text.splitlines()):
        try:
            found = [json.loads(part) for part in parts if part.strip()]
        except ValueError:
            continue
        return tuple(one for one in found if isinstance(one, dict))
    raise TaskFailed(
        f"ktrial's answer is not JSON: {text[:200]!r}", "update ktrial, or check the variable `ktrial_program`"
    )


def last_error(messages: str) -> tuple[str, str | None]:
    """Return ktrial's last error message and its hint."""
    lines = messages.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("ktrial: ")]
    if not starts:
        return (" ".join(lines[-3:]) or "ktrial ended without a message", None)
    hints = [line.strip() for line in lines[starts[-1] + 1 :] if line.startswith("  next: ")]
    return lines[starts[-1]].removeprefix("ktrial: "), hints[0].removeprefix("next: ") if hints else None


def program_words(variable: str | None) -> list[str]:
    """Return the words that start ktrial: those in the variable, or the program beside this Python, or in PATH."""
    if variable:
        return shlex.split(variable)
    beside = Path(sys.executable).parent / "ktrial"
    found = str(beside) if beside.exists() else shutil.which("ktrial")
    if found is None:
        raise TaskFailed(
            "cannot find ktrial on the controller",
            "run `pip install 'ktrial[fleet]'` on the controller, or set the variable `ktrial_program`",
        )
    return [found]

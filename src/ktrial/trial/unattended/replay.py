# SPDX-License-Identifier: Apache-2.0
"""A machine that answers a trial's requests from the log of a plan."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ktrial import __version__
from ktrial.agent.interrupts import Interrupts
from ktrial.agent.session import AgentSession
from ktrial.bench.benchmark import Invocation
from ktrial.bench.record import Execution, Watch
from ktrial.bench.run.executor import AgentExecutor
from ktrial.bench.run.folders import PlanFolders
from ktrial.bench.run.servers import output_of
from ktrial.kit.errors import KtrialError
from ktrial.trial.unattended.log import LogMoment, MadeVisit, PlanAnswer
from ktrial.trial.unattended.plan import PlannedCommand

#: Requests that may come once more than in the plan; the newest answer is repeated.
_AGAIN = frozenset(("sample", "facts"))
_REPEAT = "start a new trial, without --unattended"


class Unanswered(KtrialError):
    """The log lacks an answer, because the agent ended the visit earlier than this trial would."""


class Answers:
    """The answers of one visit, and the machine's clock at each answer."""

    def __init__(self) -> None:
        self.now = LogMoment(at_ns=0, at_unix_ms=0, slept_ms=0)
        self._left: dict[Hashable, deque[PlanAnswer]] = {}
        self._last: dict[Hashable, PlanAnswer] = {}
        self._lists: dict[str, Any] = {}
        self._values: dict[str, Any] = {}

    def load(self, made: MadeVisit, first_run: int) -> None:
        """Answer requests from this visit, beginning with run `first_run`."""
        found = [*made.before, *(one for run in made.runs[first_run:] for one in run), *made.after]
        self._left = defaultdict(deque)
        for one in found:
            self._left[_key(one.by, one.do, one.fields)].append(one)
        self._last = {}
        self._lists, self._values = {}, {}
        for one in found:
            if one.do == "list":
                self._lists |= _content(one)["matches"]
        self.now = made.visit

    def take(self, by: str, do: str, fields: Mapping[str, Any]) -> PlanAnswer:
        """Return the next answer to a request. Raise Unanswered if there is none."""
        key = _key(by, do, fields)
        left = self._left.get(key)
        if left:
            found = self._last[key] = left.popleft()
        elif do in _AGAIN and key in self._last:
            return self._last[key]
        else:
            raise Unanswered(f"the log of the plan lacks an answer to {do!r}", hint=_REPEAT)
        self.now = found
        return found

    def content(self, by: str, do: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the content of a reply without its id: `ok` or `error`."""
        if do == "list":
            return {"ok": {"matches": {one: self._lists.get(one, []) for one in fields["patterns"]}}}
        if do == "read":
            return {"ok": {"values": self._read(by, fields["paths"])}}
        found = self.take(by, do, fields)
        return {"ok": found.ok} if found.error is None else {"error": found.error}

    def _read(self, by: str, paths: Sequence[str]) -> list[Any]:
        """Return values as they were read together or, if the plan read other paths together, the newest values."""
        try:
            found = _content(self.take(by, "read", {"paths": paths}))["values"]
        except Unanswered:
            missing = [path for path in paths if path not in self._values]
            for key in [key for key in self._left if missing and isinstance(key, tuple) and key[1] == "read"]:
                for one in self._left[key]:
                    self._values |= {value["path"]: value for value in _content(one)["values"]}
            if any(path not in self._values for path in paths):
                raise
            return [self._values[path] for path in paths]
        self._values |= {value["path"]: value for value in found}
        return list(found)


def _content(answer: PlanAnswer) -> dict[str, Any]:
    if answer.ok is None:
        raise Unanswered(f"the answer to {answer.do!r} in the log of the plan has no content", hint=_REPEAT)
    return answer.ok


def _key(by: str, do: str, fields: Mapping[str, Any]) -> Hashable:
    """Return the key that a request and its answer share. Reads of the same paths in any order have the same key."""
    if do == "read":
        return by, do, frozenset(fields.get("paths", ()))
    if do == "facts":
        return by, do, tuple(fields.get("only", ()))
    if do == "verify":
        return by, do, "transaction" in fields
    return by, do


class AnswerTransport:
    """The transport of a session whose agent is the log; implements `Detached`."""

    asker: str | None = None

    def __init__(self, answers: Answers, by: str) -> None:
        self._answers = answers
        self._by = by
        self._lines: deque[bytes] = deque()
        self._sampling: int | None = None

    def send(self, line: bytes) -> None:
        fields: dict[str, Any] = msgspec.json.decode(line)
        number, do = fields.pop("id"), fields.pop("do")
        if do == "hello":
            self._reply(number, {"ok": {"agent": __version__, "role": "root", "uid": 0, "pid": 0}})
        elif do == "sample" and fields.get("tell_begun"):
            self._sampling = number
            self._reply(number, {"begun": True})
        else:
            self._reply(number, self._answers.content(self._by, do, fields))

    def hang_up(self) -> None:
        """End a sampling; its samples are then the next answer."""
        if self._sampling is not None:
            number, self._sampling = self._sampling, None
            self._reply(number, self._answers.content(self._by, "samples", {}))

    def receive(self, limit_s: float | None = None) -> bytes:
        del limit_s
        return self._lines.popleft()

    def wait(self, interrupts: Interrupts) -> None:
        interrupts.check()

    def close(self) -> int | None:
        return None

    def abandon(self) -> None:
        self.close()

    def finish(self) -> None:
        self.close()

    def answered(self) -> bool:
        return bool(self._lines)

    def _reply(self, number: int, content: Mapping[str, Any]) -> None:
        self._lines.append(msgspec.json.encode({"id": number, **content}) + b"\n")


class LogClock:
    """The machine's clock at the current answer. A sleep takes no time, but advances this clock."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def monotonic_ns(self) -> int:
        return self._answers.now.at_ns

    def unix_ms(self) -> int:
        return self._answers.now.at_unix_ms

    def sleep(self, seconds: float) -> None:
        now = self._answers.now
        later = LogMoment(
            at_ns=now.at_ns + int(seconds * 1e9),
            at_unix_ms=now.at_unix_ms + int(seconds * 1e3),
            slept_ms=now.slept_ms,
        )
        self._answers.now = later

    def slept_s(self) -> float:
        return self._answers.now.slept_ms / 1e3


class LogExecutor:
    """Returns the logged output of a plan's commands, and runs nothing. Implements `bench.run.make_run.Carries`."""

    def __init__(self, answers: Answers, executor: AgentExecutor, folders: PlanFolders) -> None:
        self._folders = folders
        self._answers = answers
        self._executor = executor
        self._commands: deque[PlannedCommand] = deque()

    def load(self, commands: Iterable[PlannedCommand]) -> None:
        """Make `run` return the output of these commands, in order."""
        self._commands = deque(commands)

    def run(self, invocation: Invocation, watch: Watch | None = None) -> Execution:
        command = self._commands.popleft()
        do = "exec" if command.load is None else "load"
        session = AgentSession(AnswerTransport(self._answers, "user"))
        if watch is not None:
            watch.begin()
        session.send(do)
        answered = self._answers.now
        assert isinstance(answered, PlanAnswer), "an answer was just taken"
        raw = output_of(session, own_load=do == "load")
        if watch is not None:
            watch.end()
        if invocation.load is None:
            raw = self._folders.with_files(raw, Path(command.folder), invocation.files)
        request = command.exec or {}
        return Execution(
            argv=(request["argv"][0], *invocation.argv[1:]) if invocation.argv else (),
            environment=request.get("environment", {}),
            directory=str(request.get("directory", "/")),
            started_monotonic_ns=answered.began_ns,
            started_unix_ms=answered.began_unix_ms,
            raw=raw,
            built=self._executor.receipt(invocation),
        )

# SPDX-License-Identifier: Apache-2.0
"""A session on a phone, with facts from Android's own programs and messages about what SELinux denied."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ktrial.agent.session import AgentSession
from ktrial.agent.transport import Transport
from ktrial.kit.json_bytes import read_bytes
from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.kernel_log import KernelLog
from ktrial.machine.phone import LIST_MODULES, MODULES, modules_in, names_in, phone_facts, script
from ktrial.machine.watch_kernel_log import look

_LIMIT_S, _MOST_BYTES = 30.0, 1 << 20
#: A denial that SELinux writes to the kernel's log, and how many denials ktrial shows.
_DENIAL = re.compile(r"avc: +denied +\{ ([^}]*) \}(.*?) scontext=(\S+) tcontext=(\S+)")
_NAME = re.compile(r" name=\"([^\"]*)\"")
_MOST_DENIALS = 3


class PhoneSession(AgentSession):
    """An agent's session on a phone. Facts from `ask` complete or replace the agent's facts.

    `list_modules` asks for root on the phone's screen. A session without root calls it only if a caller requests the
    fact MODULES by its full name. If the kernel refuses a setting, `say` shows what SELinux denied, as far as the
    kernel's log tells.
    """

    def __init__(
        self,
        transport: Transport,
        ask: Callable[[Sequence[str]], Mapping[str, Fact]],
        list_modules: Callable[[], Fact],
        say: Callable[[str], None],
    ) -> None:
        super().__init__(transport)
        self._ask = ask
        self._list_modules = list_modules
        self._say = say

    def facts(self, only: Sequence[str] = ()) -> FactBook:
        found = super().facts(only)
        asked = self._ask(names) if (names := names_in(only)) else {}
        wins = {name: fact for name, fact in asked.items() if fact.known or name not in found}
        if MODULES in asked and not asked[MODULES].known and (self.is_root or MODULES in only):
            wins[MODULES] = self._list_modules()
        return FactBook({**found, **wins})

    def request(self, do: str, **fields: Any) -> dict[str, Any]:
        if do != "apply":
            return super().request(do, **fields)
        before = look(self)
        answer = super().request(do, **fields)
        if any(step.get("outcome") == "refused" for step in answer.get("steps", ())):
            after = look(self, 0 if before.newest is None else before.newest + 1)
            for line in denials(after):
                self._say(line)
        return answer


def denials(log: KernelLog) -> tuple[str, ...]:
    """Return a line for each of the first few denials of SELinux, or why the denials are unknown."""
    if log.unreadable is not None:
        return (f"SELinux may have refused the setting; the kernel's log is unreadable: {log.unreadable}",)
    found = dict.fromkeys(
        f"SELinux denied {what.strip()}{f' of {name[1]}' if (name := _NAME.search(more)) else ''}"
        f" ({source} on {target})"
        for record in log.records
        for what, more, source, target in (one.groups() for one in _DENIAL.finditer(record.text))
    )
    return tuple(found)[:_MOST_DENIALS]


def ask_phone(session: AgentSession, names: Sequence[str], environment: Mapping[str, str]) -> Mapping[str, Fact]:
    """Return the named facts from Android's own programs, which run as the phone's shell user in `session`."""
    argv = ("/system/bin/sh", "-c", script(names))
    return phone_facts(_text(_run(session, argv, environment), "stdout"), names)


def ask_modules(session: AgentSession, asker: Sequence[str], environment: Mapping[str, str]) -> Fact:
    """Return the fact about the phone's modules; `asker` begins the command line that runs a program as root."""
    answer = _run(session, (*asker, *LIST_MODULES), environment)
    if answer["exit"].get("status") != 0:
        why = _text(answer, "stderr").strip().splitlines() or ["su ended without a reason"]
        return Fact(unknown=why[-1])
    return Fact(value=modules_in(_text(answer, "stdout")))


def _run(session: AgentSession, argv: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    return session.request(
        "exec",
        argv=list(argv),
        environment=dict(environment),
        directory="/",
        limit_s=_LIMIT_S,
        capture_bytes=_MOST_BYTES,
    )


def _text(answer: Mapping[str, Any], stream: str) -> str:
    return read_bytes(answer[stream]).decode(errors="replace")

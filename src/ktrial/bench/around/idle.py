# SPDX-License-Identifier: Apache-2.0
"""Find out whether somebody uses the machine, and wait until neither people nor other programs use it.

logind's sessions and the access times of terminals show whether somebody uses the machine.

`find /dev … -printf '%A@ %C@ %p'` prints when each terminal was last read from, and when it was opened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ktrial.bench.benchmark import Invocation, check_exit
from ktrial.bench.run.ports import Executor, run_or_stop
from ktrial.kit.errors import BadRun, Refused
from ktrial.kit.formats.tool_output import number, numbered, unreadable
from ktrial.machine.logins import PROPERTIES, read_session_ids, read_sessions
from ktrial.machine.ports import Clock

#: A terminal opened at most this many seconds before its last access has not been read since.
_OPENING_S = 0.5


def read_access_times(data: bytes, source: str) -> dict[str, float]:
    """Return when each terminal was last read, in seconds since 1970. Raise UnreadableOutput for other text.

    The time is 0 for a terminal that was not read after it was opened: some program opened it, and nobody types there.
    """
    found: dict[str, float] = {}
    for line_number, line in numbered(data, source):
        read, _, rest = line.strip().partition(" ")
        opened, _, path = rest.partition(" ")
        if not path.startswith("/dev/"):
            raise unreadable(source, line_number, line, "a line with two times and a terminal")
        read_s = number(read, source, line_number, "the time at which a terminal was read")
        opened_s = number(opened, source, line_number, "the time at which a terminal was opened")
        found[path] = read_s if read_s >= opened_s + _OPENING_S else 0.0
    return found


#: The machine counts as idle after this many seconds without input.
IDLE_S = 60.0
_ASK_EACH_S = 5.0
_LIMIT_S = 10.0
_CHOICE = ("(", "-name", "tty[0-9]*", "-o", "-path", "/dev/pts/[0-9]*", ")")
_TERMINALS = ("find", "/dev", "/dev/pts", "-maxdepth", "1", "-type", "c", *_CHOICE, "-printf", "%A@ %C@ %p\\n")


class MachineInUse(Exception):
    """Somebody or something uses the machine, and ktrial must not wait."""


class LastInput(NamedTuple):
    """The source of the last input, and the seconds since then."""

    seconds: float
    of: str


class IdleWatch:
    """Watches for input with the user's rights.

    `others` returns how much CPU time other programs use, None if they use little. If `is_patient` is false, `wait`
    raises MachineInUse instead of waiting.
    """

    is_patient = True

    def __init__(self, executor: Executor, clock: Clock, others: Callable[[], str | None] = lambda: None) -> None:
        self._executor = executor
        self._clock = clock
        self._others = others

    def wait(self, tell: Callable[[str], None]) -> None:
        """Wait until the machine is idle; call `tell` with what uses the machine, again after each change."""
        last_told = None
        while (used := self._used()) is not None:
            if not self.is_patient:
                raise MachineInUse(used)
            if used != last_told:
                last_told = used
                tell(used)
            self._clock.sleep(_ASK_EACH_S)

    def _used(self) -> str | None:
        last = self.last_input()
        return last.of if last.seconds < IDLE_S else self._others()

    def disturbed(self, seconds: float) -> str | None:
        """Return the source of input within the last `seconds`, or why that is unknown; None if there was no input."""
        try:
            last = self.last_input()
        except Refused as error:
            return error.message
        return last.of if last.seconds < seconds else None

    def last_input(self) -> LastInput:
        """Return the newest input. Raise Refused if ktrial cannot observe any source."""
        try:
            found = self._sessions() or self._terminals()
        except BadRun as error:
            raise Refused(f"cannot tell whether this machine is idle: {error.message}", hint=_HINT) from None
        if not found:
            raise Refused("cannot tell whether this machine is idle: no session or terminal shows input", hint=_HINT)
        return min(found)

    def _sessions(self) -> list[LastInput]:
        if self._executor.programs(["loginctl"])["loginctl"] is None:
            return []
        try:
            ids = read_session_ids(self._ask(("loginctl", "list-sessions", "--no-legend")), "loginctl list-sessions")
        except BadRun:
            return []
        if not ids:
            return []
        wanted = [word for name in PROPERTIES for word in ("-p", name)]
        sessions = read_sessions(self._ask(("loginctl", "show-session", *ids, *wanted)), "loginctl show-session")
        now_us = self._clock.unix_ms() * 1000
        idle = ((one, one.idle_s(now_us)) for one in sessions)
        return [
            LastInput(seconds, f"session {one.id} ({one.kind}) of {one.name}")
            for one, seconds in idle
            if seconds is not None
        ]

    def _terminals(self) -> list[LastInput]:
        said = self._ask(_TERMINALS)
        if not said.strip():
            return []
        now_s = self._clock.unix_ms() / 1000
        return [LastInput(max(0.0, now_s - time_s), path) for path, time_s in read_access_times(said, "find").items()]

    def _ask(self, argv: tuple[str, ...]) -> bytes:
        raw = run_or_stop(self._executor, Invocation(argv=argv, limit_s=_LIMIT_S))
        try:
            check_exit(raw)
        except BadRun as error:
            raise BadRun(f"`{argv[0]}` {error.message}", hint=error.hint) from None
        return raw.stdout


_HINT = "leave out --when-idle"

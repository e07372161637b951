# SPDX-License-Identifier: Apache-2.0
"""Run the user's program on another machine and collect the captures that it leaves there."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from ktrial.agent.interrupts import Interrupts
from ktrial.agent.session import AgentSession
from ktrial.bench.agent_output import exec_output
from ktrial.bench.benchmark import RawOutput
from ktrial.bench.record import Exit
from ktrial.bench.run.folders import FoldersThere
from ktrial.kit.errors import KtrialError
from ktrial.kit.streams import pass_on
from ktrial.recordings.frames.statistics import Capture

#: ktrial ends a game after a week.
_LIMIT_S = 604_800.0
_SHOWN_BYTES = 1 << 20


class GameThere:
    """Implements `bench.run.ports.Launcher` and `CaptureFolder` with the user's session on another machine."""

    def __init__(self, session: AgentSession, home: str, interrupts: Interrupts) -> None:
        self._session = session
        self._home = home
        self._interrupts = interrupts
        self._folders: FoldersThere = FoldersThere(self._own_session)
        self._folder = self._folders.make(in_memory=False, for_program=True)

    def _own_session(self) -> AgentSession:
        return self._session

    @property
    def folder(self) -> str:
        return str(self._folder)

    def run(self, argv: Sequence[str], environment: Mapping[str, str], *, quiet: bool) -> Exit:
        """Run the program to its end, or until Ctrl-C; its output appears at the end."""
        self._session.send(
            "exec",
            argv=list(argv),
            environment={**environment, "HOME": self._home},
            directory=self._home,
            limit_s=_LIMIT_S,
            capture_bytes=_SHOWN_BYTES,
            while_connected=True,
        )
        with self._interrupts:
            self._session.wait(self._interrupts)
        raw = exec_output(self._session.receive("exec"))
        pass_on(sys.stderr if quiet else sys.stdout, raw.stdout)
        pass_on(sys.stderr, raw.stderr)
        if raw.failed is not None:
            raise KtrialError(
                f"cannot start {argv[0]}: {raw.failed}", hint=f"check the path of {argv[0]} on the machine of --host"
            )
        return Exit.of(raw)

    def found(self, started_unix_ms: int) -> tuple[Capture, ...]:
        """Return the captures in the folder, which was empty at the start."""
        del started_unix_ms
        files = self._folders.with_files(RawOutput(), self._folder, ["*.csv"]).files
        return tuple(Capture(name, data) for name, data in files.items() if not name.endswith("_summary.csv"))

    def close(self) -> None:
        self._folders.remove(self._folder)

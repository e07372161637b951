# SPDX-License-Identifier: Apache-2.0
"""Runs benchmarks through the agent: fresh private directories, a pinned environment, programs from fixed folders."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from ktrial.domain.benchmark import PROGRAM_FOLDERS, Invocation, RawOutput
from ktrial.domain.errors import AgentError, BadInput, KtrialError
from ktrial.domain.facts import FactBook
from ktrial.domain.run import Execution
from ktrial.host.agent import AgentSession, read_bytes
from ktrial.host.clock import SystemClock
from ktrial.host.rights import Connect, OpenRoot, Rights
from ktrial.host.transport import DetachedTransport

#: Bytes kept of each stream. A reply has at most 4 MiB, and JSON may write a byte as six.
CAPTURE_BYTES = 1 << 20
#: Bytes kept of a file that a run leaves.
FILE_BYTES = 64 << 20
_PINNED = {"PATH": ":".join(PROGRAM_FOLDERS), "LC_ALL": "C", "TZ": "UTC"}


class AgentExecutor:
    """Implements `services.ports.Executor` with agents of its own.

    `connect` starts one as the user, detached. `root` opens the session of root, given what it is for; None where root
    cannot be had.
    """

    def __init__(self, connect: Connect, work: Path, root: OpenRoot | None) -> None:
        self._connect = connect
        self._rights = Rights(root, connect)
        self._work = work
        self._clock = SystemClock()
        self._transport: DetachedTransport | None = None
        self._session: AgentSession | None = None

    @property
    def agent_version(self) -> str:
        """Version of the agent."""
        return str(self._open().hello["agent"])

    @property
    def has_root(self) -> bool:
        """Whether root can be had: this is root, or sudo or its like may be asked."""
        return self._rights.has_root

    def obtain_root(self, purpose: str) -> None:
        """Ask for root now where somebody has to be asked, and say what for."""
        self._rights.obtain(purpose, self._open())

    @property
    def has_loads(self) -> bool:
        """Whether the agent carries out loads itself."""
        return "load" in self._open().hello.get("capabilities", ())

    def facts(self) -> FactBook:
        """All facts of the machine."""
        return self._open().facts()

    def programs(self, names: Iterable[str]) -> dict[str, str | None]:
        """Where each program is: bare names in the fixed folders, others as they are; None when it is not there."""
        names = list(dict.fromkeys(names))
        places = {name: _places(name) for name in names}
        found = self._open().list([place for name in names for place in places[name]])
        return {name: next((place for place in places[name] if found[place]), None) for name in names}

    def run(self, invocation: Invocation) -> Execution:
        """Run it to its end or its limit. Whatever interrupts this ends the run and its children too."""
        with self._private_directory() as folder:
            request = self._request(invocation, folder)
            started = (self._clock.monotonic_ns(), self._clock.unix_ms())
            try:
                raw = self._ask(invocation, request)
            except BaseException:
                self._abandon()
                raise
            if invocation.load is None:
                raw = _with_files(raw, folder, invocation.files)
        return _execution(invocation, request, started, raw)

    def start(self, invocation: Invocation) -> RunningLoad:
        """Start a background load; it ends when it is stopped."""
        transport = self._connect()
        try:
            session = AgentSession(transport)
            folder = self._make_directory()
            request = self._request(invocation, folder)
            session.send("exec" if invocation.load is None else "load", **request)
        except BaseException:
            transport.finish()
            raise
        return RunningLoad(transport, session, folder, invocation)

    def close(self) -> None:
        """End the sessions of the user; that of root is its owner's."""
        self._rights.close()
        if self._session is not None:
            self._session.close()

    def _open(self) -> AgentSession:
        if self._session is None:
            self._transport = self._connect()
            self._session = AgentSession(self._transport)
        return self._session

    def _abandon(self) -> None:
        if self._transport is not None:
            self._transport.finish()
        self._rights.abandon()
        self._session = self._transport = None

    def _ask(self, invocation: Invocation, request: Mapping[str, Any]) -> RawOutput:
        try:
            session = self._rights.session_for(invocation, self._open())
            if invocation.load is not None:
                return _load_output(session.request("load", **request))
            return exec_output(session.request("exec", **request))
        except AgentError as error:
            if error.kind == "lost":
                self._session = self._transport = None
                self._rights.forget()
            return RawOutput(failed=f"the agent said {error.kind}: {error.message}")
        except BadInput as error:
            return RawOutput(failed=error.message)

    def _request(self, invocation: Invocation, folder: Path) -> dict[str, Any]:
        common = {"limit_s": invocation.limit_s, **({"cpus": list(invocation.cpus)} if invocation.cpus else {})}
        if invocation.load is not None:
            return {"load": invocation.load.name, "parameters": dict(invocation.load.parameters), **common}
        program = self.programs([invocation.argv[0]])[invocation.argv[0]]
        return {
            **common,
            "argv": [program or f"{PROGRAM_FOLDERS[0]}/{invocation.argv[0]}", *invocation.argv[1:]],
            "environment": {**_PINNED, "HOME": str(folder), "TMPDIR": str(folder), **invocation.environment},
            "directory": invocation.directory or str(folder),
            "capture_bytes": CAPTURE_BYTES,
            "while_connected": True,
            **({"stdin": _bytes(invocation.stdin)} if invocation.stdin else {}),
        }

    @contextmanager
    def _private_directory(self) -> Iterator[Path]:
        folder = self._make_directory()
        try:
            yield folder
        finally:
            _remove(folder)

    def _make_directory(self) -> Path:
        try:
            self._work.mkdir(exist_ok=True, mode=0o700)
            return Path(tempfile.mkdtemp(prefix="run-", dir=self._work))
        except OSError as error:
            raise KtrialError(
                f"cannot make a private directory in {self._work}: {error.strerror}",
                hint="free some space there, or set XDG_STATE_HOME to another file system",
            ) from None


class RunningLoad:
    """A background load in an agent of its own; implements `services.ports.RunningLoad`."""

    def __init__(
        self, transport: DetachedTransport, session: AgentSession, folder: Path, invocation: Invocation
    ) -> None:
        self._transport = transport
        self._session = session
        self._folder = folder
        self._invocation = invocation

    def alive(self) -> bool:
        """Whether it still runs."""
        return not self._transport.answered()

    def stop(self) -> RawOutput:
        """End it: what it printed."""
        try:
            self._transport.hang_up()
            if self._invocation.load is not None:
                raw = _load_output(self._session.receive("load"))
            else:
                raw = exec_output(self._session.receive("exec"))
                raw = _with_files(raw, self._folder, self._invocation.files)
        except AgentError as error:
            raw = RawOutput(failed=f"the agent said {error.kind}: {error.message}")
        finally:
            self._transport.finish()
            _remove(self._folder)
        return raw


def remove_leftovers(work: Path) -> None:
    """Take away the private directories of runs whose head was killed; the caller holds the lock of all runs."""
    for folder in work.glob("run-*"):
        _remove(folder)


def exec_output(answer: Mapping[str, Any]) -> RawOutput:
    """The reply to `exec`."""
    ended = answer["exit"]
    usage = answer.get("rusage") or {}
    stdout, stderr = read_bytes(answer["stdout"]), read_bytes(answer["stderr"])
    return RawOutput(
        stdout=stdout,
        stderr=stderr,
        exit_status=ended.get("status"),
        signal=ended.get("signal"),
        failed=ended.get("failed"),
        timed_out=answer["timed_out"],
        cut=answer["stdout_total_bytes"] > len(stdout) or answer["stderr_total_bytes"] > len(stderr),
        wall_ns=answer["wall_ns"],
        user_us=usage.get("user_us"),
        system_us=usage.get("system_us"),
        max_rss_bytes=usage.get("max_rss_bytes"),
    )


def _load_output(answer: Mapping[str, Any]) -> RawOutput:
    return RawOutput(stdout=msgspec.json.encode(answer, order="sorted"), exit_status=0, wall_ns=answer.get("wall_ns"))


def _execution(
    invocation: Invocation, request: Mapping[str, Any], started: tuple[int, int], raw: RawOutput
) -> Execution:
    return Execution(
        argv=tuple(request.get("argv", ())),
        environment=request.get("environment", {}),
        directory=str(request.get("directory", "/")),
        started_monotonic_ns=started[0],
        started_unix_ms=started[1],
        raw=raw,
    )


def _places(name: str) -> tuple[str, ...]:
    return (name,) if name.startswith("/") else tuple(f"{folder}/{name}" for folder in PROGRAM_FOLDERS)


def _bytes(data: bytes) -> str | dict[str, str]:
    import base64

    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _with_files(raw: RawOutput, folder: Path, names: Iterable[str]) -> RawOutput:
    files: dict[str, bytes] = {}
    cut = raw.cut
    for name in names:
        try:
            descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            continue
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                files[name] = file.read(FILE_BYTES)
                cut = cut or bool(file.read(1))
    return msgspec.structs.replace(raw, files=files, cut=cut)


def _remove(folder: Path) -> None:
    """Also what the run made unreadable for its own user. What stays is taken away before the next measurement."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for place, names, _ in os.walk(folder):
            for name in names:
                if not (Path(place) / name).is_symlink():
                    (Path(place) / name).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)

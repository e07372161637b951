# SPDX-License-Identifier: Apache-2.0
"""A guest that outlives a command: who keeps it hands sessions with it to other commands, over a socket of this user's.

One command at a time talks to it, over a connection that lasts as long as the command. It gets the pipes of a session
themselves: nothing of a session passes through the keeper, and a command that ends in any way ends its sessions.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import stat
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Self

import msgspec

from ktrial.agent.interrupts import Interrupts
from ktrial.agent.run_folder import private_place
from ktrial.agent.transport import PATIENCE_S
from ktrial.bench.guest_tools import Ends, KeptProgram, ProgramPast
from ktrial.guests.transport import Guest
from ktrial.kit.errors import AgentError, BadInput, Busy, KtrialError
from ktrial.tuning.state.lock import look
from ktrial.tuning.state.lock_holder import told_process

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}", re.ASCII)
_FOLDER = "ktrial-guests"
_PACKET_BYTES = 1 << 16
_LOOK_S = 0.5
#: A keeper answers at once; a guest that hangs may hold it up.
_ANSWER_LIMIT_S = 30.0
#: So long after the end of a guest's session whoever had it is told why.
_TOLD_LIMIT_S = 1.0
_BACKLOG = 8
_CREDENTIALS = struct.Struct("3i")


class _KeptRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a command asks for: a session, or its hard end; or that what comes along is kept of an exact guest."""

    open: list[str] | None = None
    root: bool = False
    kill: int | None = None
    past: bool = False


class _KeeperMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the keeper says: what is kept; a session, whose pipes come with it; why nothing follows.

    Of an exact guest all that was said to it comes along; `past` says that what a command has added is kept.
    """

    kept: KeptProgram | None = None
    session: int | None = None
    past: bool = False
    busy: str | None = None
    gone: str | None = None


def is_name(word: str) -> bool:
    """Return whether a guest that is kept may be called so."""
    return _NAME.fullmatch(word) is not None


def check_name(name: str) -> None:
    """Raise BadInput for what cannot be the name of a guest that is kept."""
    if not is_name(name):
        raise BadInput(f"{name!r} is not a name for a guest", hint="take letters and digits, forty at most: --keep lab")


def kept_names() -> tuple[str, ...]:
    """Return the guests of this user that are kept, and those whose keeper was killed."""
    with contextlib.suppress(FileNotFoundError), _Folder(make=False) as folder:
        return tuple(sorted(one.name for one in Path(folder.address("")).iterdir() if is_name(one.name)))
    return ()


class _Folder:
    """Where the sockets lie, which this user alone may read; held open, so that it stays the one that was looked at."""

    def __init__(self, *, make: bool) -> None:
        self._path = private_place(_FOLDER)
        if make:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        self.descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        found = os.fstat(self.descriptor)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            os.close(self.descriptor)
            raise KtrialError(
                f"{self._path} is not this user's alone: owner {found.st_uid}, mode {stat.S_IMODE(found.st_mode):o}",
                hint=f"look who made it, then remove it; ktrial makes it anew with mode 700: rm -r {self._path}",
            )
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def address(self, name: str) -> str:
        """That of a socket, however long the path of the folder is."""
        return f"/proc/self/fd/{self.descriptor}/{name}"


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    made.settimeout(_ANSWER_LIMIT_S)
    return made


def _connected(folder: _Folder, name: str) -> socket.socket | None:
    """A connection to who keeps it; None if nobody does any more. Raises FileNotFoundError if nobody did."""
    made = _socket()
    try:
        made.connect(folder.address(name))
    except ConnectionRefusedError:
        made.close()
        return None
    except OSError:
        made.close()
        raise
    return made


def _other_end(connection: socket.socket) -> tuple[int, int]:
    """Process and user of the other end, as the kernel knows them."""
    process, user, _ = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return process, user


class Keeper:
    """Hands out sessions with a guest. Raises Busy if one of this name is kept already.

    Commands may come from the beginning; they are answered as soon as the guest is served.
    """

    def __init__(self, name: str) -> None:
        check_name(name)
        self._name = name
        self._command: socket.socket | None = None
        self._open: list[int] = []
        #: A file with all that was said to an exact guest.
        self._past: int | None = None
        #: Sessions of commands that are gone, and when those that still run are killed.
        self._leaving: list[tuple[float, int]] = []
        with _Folder(make=True) as folder:
            self._listening = _listening(folder, name)
            self._inode = os.stat(name, dir_fd=folder.descriptor).st_ino

    def serve(self, guest: Guest, kept: KeptProgram, interrupts: Interrupts, limit_s: float | None) -> str | None:
        """Until the limit passes (None), or the guest ends (why); a Ctrl-C is raised."""
        deadline = None if limit_s is None else time.monotonic() + limit_s
        while deadline is None or time.monotonic() < deadline:
            if (gone := guest.why_gone()) is not None:
                self._tell(_KeeperMessage(gone=gone))
                return gone
            self._end_late(guest)
            interrupts.wait(self._descriptors(), _LOOK_S)
            self._attend(guest, kept)
        return None

    def close(self) -> None:
        with contextlib.suppress(OSError), _Folder(make=False) as folder:
            if os.stat(self._name, dir_fd=folder.descriptor).st_ino == self._inode:
                os.unlink(self._name, dir_fd=folder.descriptor)
        self._listening.close()
        self._hang_up()
        if self._past is not None:
            os.close(self._past)

    def _descriptors(self) -> list[int]:
        return [one.fileno() for one in (self._listening, self._command) if one is not None]

    def _attend(self, guest: Guest, kept: KeptProgram) -> None:
        ready, _, _ = select.select(self._descriptors(), [], [], 0)
        if self._command is not None and self._command.fileno() in ready:
            self._hear(self._command, guest)
        if self._listening.fileno() in ready:
            self._welcome(self._listening.accept()[0], kept)

    def _welcome(self, command: socket.socket, kept: KeptProgram) -> None:
        """Talk to a new command, or tell it who is talking."""
        command.settimeout(_ANSWER_LIMIT_S)
        if _other_end(command)[1] not in (os.geteuid(), 0):
            command.close()
        elif self._command is not None:
            busy = told_process(look(_other_end(self._command)[0]))
            with contextlib.suppress(OSError):
                command.send(msgspec.json.encode(_KeeperMessage(busy=busy)))
            command.close()
        else:
            self._command = command
            self._tell(_KeeperMessage(kept=kept), [] if self._past is None else [self._past])

    def _hear(self, command: socket.socket, guest: Guest) -> None:
        try:
            packet, descriptors, _, _ = socket.recv_fds(command, _PACKET_BYTES, 1, flags=socket.MSG_CMSG_CLOEXEC)
            asked = msgspec.json.decode(packet, type=_KeptRequest)
        except (OSError, msgspec.DecodeError):  # it has ended, or is none of ktrial's
            self._hang_up()
            return
        if asked.past and descriptors:
            descriptors, self._past = [] if self._past is None else [self._past], descriptors[0]
            self._tell(_KeeperMessage(past=True))
        for descriptor in descriptors:
            os.close(descriptor)
        if asked.open is not None:
            self._hand_over(guest, asked.open, root=asked.root)
        elif asked.kill in self._open:
            guest.kill(asked.kill)

    def _hand_over(self, guest: Guest, arguments: list[str], *, root: bool) -> None:
        try:
            ends = guest.open(arguments, root=root)
        except AgentError as error:
            self._tell(_KeeperMessage(gone=error.message))
            return
        self._open.append(ends.session)
        self._tell(_KeeperMessage(session=ends.session), [ends.to_agent, ends.from_agent])
        os.close(ends.to_agent)
        os.close(ends.from_agent)

    def _tell(self, told: _KeeperMessage, descriptors: list[int] | None = None) -> None:
        if self._command is None:
            return
        try:
            socket.send_fds(self._command, [msgspec.json.encode(told)], descriptors or [])
        except OSError:
            self._hang_up()

    def _hang_up(self) -> None:
        """The command is gone: its sessions find their input ended, and may end what they run."""
        if self._command is not None:
            self._command.close()
            self._command = None
        self._leaving += [(time.monotonic() + PATIENCE_S, session) for session in self._open]
        self._open = []

    def _end_late(self, guest: Guest) -> None:
        late = [session for until, session in self._leaving if until <= time.monotonic()]
        self._leaving = [(until, session) for until, session in self._leaving if session not in late]
        for session in late:
            guest.kill(session)


def _listening(folder: _Folder, name: str) -> socket.socket:
    """Return the socket of that name; one that a killed keeper left is taken away."""
    import fcntl

    fcntl.flock(folder.descriptor, fcntl.LOCK_EX)  # until the folder is closed
    with contextlib.suppress(FileNotFoundError):
        other = _connected(folder, name)
        if other is not None:
            holder = told_process(look(_other_end(other)[0]))
            other.close()
            raise Busy("busy", f"a guest {name} is kept already: {holder}", hint="take another name, or end that one")
        os.unlink(name, dir_fd=folder.descriptor)
    made = _socket()
    made.bind(folder.address(name))
    made.listen(_BACKLOG)
    return made


def _read_past(descriptors: list[int]) -> ProgramPast | None:
    """Return what comes along with an exact guest, nothing with others; None if it is not as agreed."""
    if not descriptors:
        return ProgramPast()
    with os.fdopen(descriptors[0], "rb") as file:
        file.seek(0)
        try:
            return msgspec.msgpack.decode(file.read(), type=ProgramPast)
        except msgspec.DecodeError:
            return None


class KeptGuest:
    """The guest of that name, for this command alone until it is closed. Raises Busy, FileNotFoundError."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = Lock()
        self._gone: str | None = None
        with _Folder(make=False) as folder:
            connection = _connected(folder, name)
        if connection is None or _other_end(connection)[1] != os.geteuid():
            raise self._lost(f"nobody keeps the guest {name} any more: it has ended")
        self._connection = connection
        try:
            told, descriptors = self._receive()
        except AgentError:
            self.close()
            raise
        if told.busy is not None:
            self.close()
            raise Busy("busy", f"the guest {name} is in use: {told.busy}", hint="one command at a time: wait for it")
        past = _read_past(descriptors)
        if told.kept is None or past is None:
            self.close()
            raise KtrialError(f"who keeps the guest {name} is another version of ktrial", hint="end it, boot it anew")
        #: What it is, and all that was said to it where it is an exact one.
        self.kept, self.past = told.kept, past

    def open(self, arguments: list[str], *, root: bool) -> Ends:
        """Return a session with an agent of its own. Raises AgentError if the guest is gone."""
        with self._lock:
            self._ask(_KeptRequest(open=arguments, root=root))
            told, descriptors = self._receive()
            if told.session is None or len(descriptors) != 2:
                raise self._lost(f"who keeps the guest {self._name} opens no session")
            return Ends(descriptors[0], descriptors[1], told.session)

    def keep(self, past: ProgramPast) -> None:
        """From now on this is what was said to it. Raises AgentError if nobody keeps it any more."""
        descriptor = os.memfd_create("ktrial-past", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(msgspec.msgpack.encode(past))
            with self._lock:
                self._ask(_KeptRequest(past=True), [descriptor])
                if not self._receive()[0].past:
                    raise self._lost(f"who keeps the guest {self._name} did not take what was said to it")
        finally:
            os.close(descriptor)

    def kill(self, session: int) -> None:
        with self._lock, contextlib.suppress(AgentError):
            self._ask(_KeptRequest(kill=session))

    def why_gone(self) -> str | None:
        with self._lock:
            if self._gone is None and select.select([self._connection], [], [], _TOLD_LIMIT_S)[0]:
                with contextlib.suppress(AgentError):
                    self._receive()
            return self._gone

    def close(self) -> None:
        self._connection.close()

    def _ask(self, asked: _KeptRequest, descriptors: Sequence[int] = ()) -> None:
        try:
            socket.send_fds(self._connection, [msgspec.json.encode(asked)], descriptors)
        except OSError:
            self._receive()  # perhaps it has said why
            raise self._lost(self._without_keeper()) from None

    def _receive(self) -> tuple[_KeeperMessage, list[int]]:
        try:
            packet, descriptors, _, _ = socket.recv_fds(
                self._connection, _PACKET_BYTES, 2, flags=socket.MSG_CMSG_CLOEXEC
            )
            told = msgspec.json.decode(packet, type=_KeeperMessage)
        except TimeoutError:
            raise self._lost(f"who keeps the guest {self._name} does not answer") from None
        except (OSError, msgspec.DecodeError):
            raise self._lost(self._without_keeper()) from None
        if told.gone is not None:
            raise self._lost(told.gone)
        return told, descriptors

    def _without_keeper(self) -> str:
        return f"who kept the guest {self._name} is gone, and the guest with it"

    def _lost(self, why: str) -> AgentError:
        self._gone = why
        hint = f"`ktrial kernel boot KERNEL --keep {self._name}` boots another one; what was set there is gone with it"
        return AgentError("lost", why, hint=hint)

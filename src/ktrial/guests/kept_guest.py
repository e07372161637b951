# SPDX-License-Identifier: Apache-2.0
"""A guest that outlives a command: its keeper offers sessions to other commands, over a socket of the same user.

One command at a time uses the guest, over a connection that lasts as long as the command. The keeper hands the pipes
of a session to the command. No data goes through the keeper, and the sessions end with the command.
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

from ktrial.agent.carrier import AgentCarrier, Ends
from ktrial.agent.interrupts import Interrupts
from ktrial.agent.run_folder import private_place
from ktrial.agent.transport import PATIENCE_S
from ktrial.bench.guest_tools import KeptProgram, ProgramPast
from ktrial.kit.errors import AgentError, BadInput, Busy, KtrialError
from ktrial.tuning.state.lock import look
from ktrial.tuning.state.lock_holder import told_process

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}", re.ASCII)
_FOLDER = "ktrial-guests"
_PACKET_BYTES = 1 << 16
_LOOK_S = 0.5
#: Seconds until a keeper must answer. It answers at once unless its guest hangs.
_ANSWER_LIMIT_S = 30.0
#: Seconds to wait for the reason after a session has ended.
_TOLD_LIMIT_S = 1.0
_BACKLOG = 8
_CREDENTIALS = struct.Struct("3i")


class _KeptRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A request of a command: open a session, kill one, or store the history of an exact guest (`past`)."""

    open: list[str] | None = None
    root: bool = False
    kill: int | None = None
    past: bool = False


class _KeeperMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A message of the keeper: the guest's description, a session with its pipes attached, or an error.

    An exact guest's history comes with its description; `past` confirms that the keeper has stored a new history.
    """

    kept: KeptProgram | None = None
    session: int | None = None
    past: bool = False
    busy: str | None = None
    gone: str | None = None


def is_name(word: str) -> bool:
    return _NAME.fullmatch(word) is not None


def check_name(name: str) -> None:
    if not is_name(name):
        raise BadInput(
            f"{name!r} is not a valid guest name", hint="use up to 40 letters and digits, such as --keep lab"
        )


def kept_names() -> tuple[str, ...]:
    """Return the names of this user's kept guests, including those whose keeper was killed."""
    with contextlib.suppress(FileNotFoundError), _Folder(make=False) as folder:
        return tuple(sorted(one.name for one in Path(folder.address("")).iterdir() if is_name(one.name)))
    return ()


class _Folder:
    """The folder of the sockets, which only this user can read.

    The descriptor stays open, so that nobody can replace the folder meanwhile.
    """

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
                f"{self._path} is not private: owner {found.st_uid}, mode {stat.S_IMODE(found.st_mode):o}",
                hint=f"remove the folder, as its owner or as root: `rm -r {self._path}`",
            )
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def address(self, name: str) -> str:
        """Return the address of a socket, which is short even if the path of the folder is long."""
        return f"/proc/self/fd/{self.descriptor}/{name}"


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    made.settimeout(_ANSWER_LIMIT_S)
    return made


def _connected(folder: _Folder, name: str) -> socket.socket | None:
    """Connect to the keeper; return None if it has ended. Raise FileNotFoundError if no socket has this name."""
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
    """Return process id and user id of the other end, as the kernel reports them."""
    process, user, _ = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return process, user


class Keeper:
    """Offers sessions with a guest. The constructor raises Busy if a guest with this name exists already.

    Commands may connect at once; they get an answer when `serve` runs.
    """

    def __init__(self, name: str) -> None:
        check_name(name)
        self._name = name
        self._command: socket.socket | None = None
        self._open: list[int] = []
        #: A file with the history of an exact guest.
        self._past: int | None = None
        #: Sessions of commands that have ended, and when to kill those that are still running.
        self._leaving: list[tuple[float, int]] = []
        with _Folder(make=True) as folder:
            self._listening = _listening(folder, name)
            self._inode = os.stat(name, dir_fd=folder.descriptor).st_ino

    def serve(
        self, guest: AgentCarrier, kept: KeptProgram, interrupts: Interrupts, limit_s: float | None
    ) -> str | None:
        """Offer the guest until `limit_s` has passed or the guest has ended.

        Return why the guest has ended; None after the limit. Raise KeyboardInterrupt on Ctrl-C.
        """
        deadline = None if limit_s is None else time.monotonic() + limit_s
        while deadline is None or time.monotonic() < deadline:
            if (gone := guest.why_gone()) is not None:
                self._tell(_KeeperMessage(gone=gone))
                return gone
            self._end_late(guest)
            interrupts.wait(self._descriptors(), _LOOK_S)
            ready, _, _ = select.select(self._descriptors(), [], [], 0)
            if self._command is not None and self._command.fileno() in ready:
                self._hear(self._command, guest)
            if self._listening.fileno() in ready:
                self._welcome(self._listening.accept()[0], kept)
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

    def _welcome(self, command: socket.socket, kept: KeptProgram) -> None:
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

    def _hear(self, command: socket.socket, guest: AgentCarrier) -> None:
        try:
            packet, descriptors, _, _ = socket.recv_fds(command, _PACKET_BYTES, 1, flags=socket.MSG_CMSG_CLOEXEC)
            asked = msgspec.json.decode(packet, type=_KeptRequest)
        except (OSError, msgspec.DecodeError):  # the process has ended, or is not ktrial
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

    def _hand_over(self, guest: AgentCarrier, arguments: list[str], *, root: bool) -> None:
        try:
            ends = guest.open(arguments, root=root)
        except AgentError as error:
            self._tell(_KeeperMessage(gone=error.message))
            return
        self._open.append(ends.session)
        self._tell(_KeeperMessage(session=ends.session), [ends.to_agent, ends.from_agent])
        os.close(ends.to_agent)
        os.close(ends.from_agent)

    def _tell(self, message: _KeeperMessage, descriptors: list[int] | None = None) -> None:
        if self._command is None:
            return
        try:
            socket.send_fds(self._command, [msgspec.json.encode(message)], descriptors or [])
        except OSError:
            self._hang_up()

    def _hang_up(self) -> None:
        """Close the connection of a command that is gone. The input of its sessions ends, and they may finish."""
        if self._command is not None:
            self._command.close()
            self._command = None
        self._leaving += [(time.monotonic() + PATIENCE_S, session) for session in self._open]
        self._open = []

    def _end_late(self, guest: AgentCarrier) -> None:
        late = [session for until, session in self._leaving if until <= time.monotonic()]
        self._leaving = [(until, session) for until, session in self._leaving if session not in late]
        for session in late:
            guest.kill(session)


def _listening(folder: _Folder, name: str) -> socket.socket:
    """Return the socket with this name, after removing one that a killed keeper left."""
    import fcntl

    fcntl.flock(folder.descriptor, fcntl.LOCK_EX)  # the lock lasts until the folder is closed
    with contextlib.suppress(FileNotFoundError):
        other = _connected(folder, name)
        if other is not None:
            holder = told_process(look(_other_end(other)[0]))
            other.close()
            raise Busy(
                "busy",
                f"a guest named {name} already exists: {holder}",
                hint="use another name, or end that guest with Ctrl-C in its terminal",
            )
        os.unlink(name, dir_fd=folder.descriptor)
    made = _socket()
    made.bind(folder.address(name))
    made.listen(_BACKLOG)
    return made


def _read_past(descriptors: list[int]) -> ProgramPast | None:
    """Return the history that comes with an exact guest, empty for other guests; None if it is malformed."""
    if not descriptors:
        return ProgramPast()
    with os.fdopen(descriptors[0], "rb") as file:
        file.seek(0)
        try:
            return msgspec.msgpack.decode(file.read(), type=ProgramPast)
        except msgspec.DecodeError:
            return None


class KeptGuest:
    """A kept guest, reserved for this command until `close`.

    The constructor raises Busy if another command uses the guest.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = Lock()
        self._gone: str | None = None
        with _Folder(make=False) as folder:
            connection = _connected(folder, name)
        if connection is None or _other_end(connection)[1] != os.geteuid():
            raise self._lost(f"the guest {name} has ended")
        self._connection = connection
        try:
            message, descriptors = self._receive()
        except AgentError:
            self.close()
            raise
        if message.busy is not None:
            self.close()
            raise Busy("busy", f"the guest {name} is in use: {message.busy}", hint="wait until that command has ended")
        past = _read_past(descriptors)
        if message.kept is None or past is None:
            self.close()
            raise KtrialError(
                f"the guest {name} belongs to another version of ktrial",
                hint=f"end that guest, then boot a new one: `ktrial kernel boot KERNEL --keep {name}`",
            )
        #: The description of the guest, and the history of an exact one.
        self.kept, self.past = message.kept, past

    def open(self, arguments: list[str], *, root: bool) -> Ends:
        """Open a session with its own agent. Raise AgentError if the guest is gone."""
        with self._lock:
            self._ask(_KeptRequest(open=arguments, root=root))
            message, descriptors = self._receive()
            if message.session is None or len(descriptors) != 2:
                raise self._lost(f"`ktrial kernel boot --keep {self._name}` cannot open a session")
            return Ends(descriptors[0], descriptors[1], message.session)

    def keep(self, past: ProgramPast) -> None:
        """Replace the guest's history by `past`. Raise AgentError if the keeper is gone."""
        descriptor = os.memfd_create("ktrial-past", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(msgspec.msgpack.encode(past))
            with self._lock:
                self._ask(_KeptRequest(past=True), [descriptor])
                if not self._receive()[0].past:
                    raise self._lost(f"`ktrial kernel boot --keep {self._name}` did not save the guest's history")
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
            self._receive()  # it may have sent the reason
            raise self._lost(self._without_keeper()) from None

    def _receive(self) -> tuple[_KeeperMessage, list[int]]:
        try:
            packet, descriptors, _, _ = socket.recv_fds(
                self._connection, _PACKET_BYTES, 2, flags=socket.MSG_CMSG_CLOEXEC
            )
            message = msgspec.json.decode(packet, type=_KeeperMessage)
        except TimeoutError:
            raise self._lost(f"`ktrial kernel boot --keep {self._name}` does not answer") from None
        except (OSError, msgspec.DecodeError):
            raise self._lost(self._without_keeper()) from None
        if message.gone is not None:
            raise self._lost(message.gone)
        return message, descriptors

    def _without_keeper(self) -> str:
        return f"`ktrial kernel boot --keep {self._name}` has ended, and the guest with it"

    def _lost(self, why: str) -> AgentError:
        self._gone = why
        hint = f"run `ktrial kernel boot KERNEL --keep {self._name} …` again; the guest's settings are lost"
        return AgentError("lost", why, hint=hint)

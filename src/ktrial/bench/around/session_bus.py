# SPDX-License-Identifier: Apache-2.0
"""The desktop, asked over the session bus of D-Bus not to blank or lock the screen.

GNOME and others do not heed what systemd-inhibit says of idleness; `org.freedesktop.ScreenSaver` they do. What was
asked for holds as long as the connection, so that it ends with ktrial whatever becomes of it.
"""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_LIMIT_S = 5.0
_MOST_BYTES = 1 << 20
_CALL, _REPLY, _ERROR = 1, 2, 3
#: Nothing is started by being asked.
_NO_AUTO_START = 2
_PATH, _INTERFACE, _MEMBER, _ERROR_NAME, _REPLY_TO, _DESTINATION, _SIGNATURE = 1, 2, 3, 4, 5, 6, 8
_TYPES = {_PATH: "o", _INTERFACE: "s", _MEMBER: "s", _DESTINATION: "s", _SIGNATURE: "g"}
_BUS = ("org.freedesktop.DBus", "/org/freedesktop/DBus")
_SCREEN = ("org.freedesktop.ScreenSaver", "/org/freedesktop/ScreenSaver")
_HEAD = 16

#: Gives exactly so many bytes; fewer raise BusError.
Take = Callable[[int], bytes]


class BusError(Exception):
    """The bus, or whom it was asked for, cannot be talked to; the message says why."""


class Message(NamedTuple):
    """What came: its kind, its number, the header's fields by number, its body."""

    kind: int
    serial: int
    fields: Mapping[int, str | int]
    body: bytes
    order: str


def encoded(kind: int, serial: int, fields: Mapping[int, str | int], body: bytes = b"") -> bytes:
    """A message as it is sent."""
    header = b""
    for number, value in fields.items():
        type_ = "u" if isinstance(value, int) else _TYPES[number]
        header += bytes(-len(header) % 8) + bytes((number, 1)) + type_.encode() + b"\0"
        if isinstance(value, int):
            header += struct.pack("<I", value)
        else:
            header += struct.pack("<B" if type_ == "g" else "<I", len(value.encode())) + value.encode() + b"\0"
    begin = struct.pack("<cBBBIII", b"l", kind, _NO_AUTO_START, 1, len(body), serial, len(header))
    return begin + header + bytes(-len(header) % 8) + body


def text(*words: str) -> bytes:
    """Strings as the body of a message."""
    body = b""
    for word in words:
        body += bytes(-len(body) % 4) + struct.pack("<I", len(word.encode())) + word.encode() + b"\0"
    return body


def read_message(take: Take) -> Message:
    """The next message. Raises BusError for what is none."""
    head = take(_HEAD)
    order = {b"l": "<", b"B": ">"}.get(head[:1])
    if order is None or head[3] != 1:
        raise BusError("the bus sent what is no message of D-Bus")
    length, serial, fields_length = struct.unpack(f"{order}III", head[4:])
    if length > _MOST_BYTES or fields_length > _MOST_BYTES:
        raise BusError(f"the bus sent a message of {length + fields_length} bytes")
    fields = take(fields_length + -fields_length % 8)[:fields_length]
    body = take(length)
    try:
        return Message(head[1], serial, _fields(fields, order), body, order)
    except (struct.error, IndexError, UnicodeDecodeError):
        raise BusError("the bus sent a message with a header that cannot be read") from None


def _fields(data: bytes, order: str) -> dict[int, str | int]:
    found: dict[int, str | int] = {}
    at = 0
    while at < len(data):
        at += -at % 8
        number, type_ = data[at], data[at + 2 : at + 3]
        at += 4
        if type_ == b"u":
            (found[number],) = struct.unpack_from(f"{order}I", data, at)
            at += 4
            continue
        if type_ not in {b"s", b"o", b"g"}:
            raise BusError(f"the bus sent a header with a field of type {type_!r}")
        width, size = (1, "B") if type_ == b"g" else (4, f"{order}I")
        (length,) = struct.unpack_from(size, data, at)
        found[number] = data[at + width : at + width + length].decode()
        at += width + length + 1
    return found


class Bus:
    """A connection of the user's to a bus."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_LIMIT_S)
        self._serial = 0
        try:
            self._socket.connect(address)
            self._socket.sendall(b"\0AUTH EXTERNAL " + str(os.geteuid()).encode().hex().encode() + b"\r\n")
            said = b""
            while not said.endswith(b"\r\n") and len(said) < _MOST_BYTES:
                said += self.take(1)
            if not said.startswith(b"OK "):
                raise BusError("the session bus does not let this user in")
            self._socket.sendall(b"BEGIN\r\n")
            self.call(*_BUS, "Hello")
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise BusError(f"session bus: {error.strerror or error}") from None
            raise

    def take(self, count: int) -> bytes:
        """So many bytes."""
        found = b""
        while len(found) < count:
            more = self._socket.recv(count - len(found))
            if not more:
                raise BusError("the session bus ended the connection")
            found += more
        return found

    def send(self, kind: int, fields: Mapping[int, str | int], body: bytes = b"") -> int:
        """Send a message: its number."""
        self._serial += 1
        self._socket.sendall(encoded(kind, self._serial, fields, body))
        return self._serial

    def call(self, name: str, path: str, member: str, signature: str = "", body: bytes = b"") -> Message:
        """Call a method: its reply. Raises BusError with the name of the error that came instead."""
        fields: dict[int, str | int] = {_PATH: path, _INTERFACE: name, _MEMBER: member, _DESTINATION: name}
        if signature:
            fields[_SIGNATURE] = signature
        try:
            serial = self.send(_CALL, fields, body)
            while True:
                message = read_message(self.take)
                if message.kind in {_REPLY, _ERROR} and message.fields.get(_REPLY_TO) == serial:
                    break
        except OSError as error:
            raise BusError(f"{name} did not answer: {error.strerror or error}") from None
        if message.kind == _ERROR:
            raise BusError(f"{name}: {message.fields.get(_ERROR_NAME, 'an error without a name')}")
        return message

    def close(self) -> None:
        """End the connection, and what was asked for over it."""
        self._socket.close()


class SessionDesktop:
    """Implements `bench.run.ports.Desktop` for the desktop on a session bus."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._bus: Bus | None = None
        self._cookie = b""

    def keep_awake(self, why: str) -> str | None:
        """Ask the desktop not to blank or lock the screen: None, or why it does not."""
        try:
            self._bus = Bus(self._address)
            reply = self._bus.call(*_SCREEN, "Inhibit", "ss", text("ktrial", why))
            if len(reply.body) != struct.calcsize("I"):
                raise BusError(f"{_SCREEN[0]} answered without a cookie")
            self._cookie = struct.pack("<I", *struct.unpack(f"{reply.order}I", reply.body))
        except BusError as error:
            self.release()
            return str(error)
        return None

    def release(self) -> None:
        """It may do as it likes again."""
        bus, self._bus = self._bus, None
        cookie, self._cookie = self._cookie, b""
        if bus is None:
            return
        with suppress(BusError):
            if cookie:
                bus.call(*_SCREEN, "UnInhibit", "u", cookie)
        bus.close()


def session_desktop(environment: Mapping[str, str], runtime: Path = Path("/run/user")) -> SessionDesktop | None:
    """The desktop of this user; None where there is no session bus."""
    given = environment.get("DBUS_SESSION_BUS_ADDRESS", "")
    found = re.search(r"(?:^|;)unix:(?:[^;]*,)?(path|abstract)=([^,;]+)", given)
    if found is not None:
        return SessionDesktop(found[2] if found[1] == "path" else f"\0{found[2]}")
    usual = runtime / str(os.geteuid()) / "bus"
    return SessionDesktop(str(usual)) if usual.exists() else None

# SPDX-License-Identifier: Apache-2.0
"""The device end of adb: does what adbd does on a phone, for the real adb client.

It speaks the transport (CNXN, AUTH, OPEN, OKAY, WRTE, CLSE), checks RSA signatures, and serves shells (`shell,v2`, with
separate standard error and exit status) and files (`sync:`) in the folder that stands for the phone's `/`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

VERSION, MOST_BYTES = 0x01000001, 1 << 20
TOKEN, SIGNATURE, PUBLIC_KEY = 1, 2, 3
STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = range(5)
#: The bytes that PKCS#1 puts before a SHA-1 digest.
_SHA1_PREFIX = bytes.fromhex("3021300906052b0e03021a05000414")
_HEADER = struct.Struct("<4sIIIII")
_KEY_BYTES = 256
SHELL_UID = 2000
ENVIRONMENT = {
    "PATH": "/product/bin:/system/bin:/system/xbin:/vendor/bin",
    "HOME": "/",
    "USER": "shell",
    "SHELL": "/system/bin/sh",
    "TMPDIR": "/data/local/tmp",
    "ANDROID_DATA": "/data",
    "ANDROID_ROOT": "/system",
}


class Closed(Exception):
    """The connection or the stream has ended."""


class Device:
    """The state that all connections share. Its options are read from a file for every connection."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "root"
        self._wire = (folder / "wire").open("a", buffering=1)
        self._lock = threading.Lock()

    def option(self, name: str) -> Any:
        return json.loads((self.folder / "adbd.json").read_text())[name]

    def note(self, way: str, command: bytes, one: int, other: int, length: int) -> None:
        with self._lock:
            self._wire.write(f"{way} {command.decode()} {one} {other} {length}\n")

    def known_keys(self) -> list[str]:
        file = self.folder / "adb_keys"
        return file.read_text().splitlines() if file.exists() else []


class Connection:
    """One transport to a host."""

    def __init__(self, device: Device, connected: socket.socket) -> None:
        self.device = device
        self._socket = connected
        self._sending = threading.Lock()
        self._streams: dict[int, Stream] = {}
        self._last = 0

    def serve(self) -> None:
        try:
            while True:
                self._take(*self._receive())
        except (Closed, OSError):
            pass
        finally:
            for stream in list(self._streams.values()):
                stream.end()
            self._socket.close()

    def send(self, command: bytes, one: int, other: int, data: bytes = b"") -> None:
        self.device.note("device", command, one, other, len(data))
        magic = int.from_bytes(command, "little") ^ 0xFFFFFFFF
        with self._sending:
            self._socket.sendall(_HEADER.pack(command, one, other, len(data), sum(data) & 0xFFFFFFFF, magic) + data)

    def forget(self, number: int) -> None:
        self._streams.pop(number, None)

    def _receive(self) -> tuple[bytes, int, int, bytes]:
        command, one, other, length, _, magic = _HEADER.unpack(_exactly(self._socket, _HEADER.size))
        assert magic == int.from_bytes(command, "little") ^ 0xFFFFFFFF
        assert length <= MOST_BYTES
        self.device.note("host", command, one, other, length)
        return command, one, other, _exactly(self._socket, length)

    def _take(self, command: bytes, one: int, other: int, data: bytes) -> None:
        stream = self._streams.get(other)
        if command == b"CNXN":
            self._greet(data)
        elif command == b"OPEN":
            self._open(one, data.rstrip(b"\0").decode())
        elif stream is None:
            if command == b"WRTE":
                self.send(b"CLSE", 0, one)
        elif command == b"OKAY":
            stream.acknowledged.release()
        elif command == b"WRTE":
            stream.incoming.put(data)
        elif command == b"CLSE":
            stream.end()

    def _greet(self, data: bytes) -> None:
        assert data.startswith(b"host::")
        kind = self.device.option("auth")
        if kind == "silent":
            while True:
                self._receive()
        if kind != "none":
            self._authorise(kind)
        names = {f"ro.product.{name}": "oriole" for name in ("name", "device")} | {"ro.product.model": "Pixel 6"}
        told = "".join(f"{name}={value};" for name, value in names.items())
        features = self.device.option("features")
        self.send(b"CNXN", VERSION, MOST_BYTES, f"device::{told}features={features}".encode())

    def _authorise(self, kind: str) -> None:
        """Ask for signatures until one is from a known key; for a new key, ask the person at the phone."""
        while True:
            token = os.urandom(20)
            self.send(b"AUTH", TOKEN, 0, token)
            command, what, _, data = self._receive()
            assert command == b"AUTH"
            if what == SIGNATURE and any(is_signed(key, token, data) for key in self.device.known_keys()):
                return
            if what == PUBLIC_KEY:
                if kind != "accept":
                    while True:
                        self._receive()
                with (self.device.folder / "adb_keys").open("a") as file:
                    file.write(data.rstrip(b"\0").decode() + "\n")
                return

    def _open(self, remote: int, service: str) -> None:
        name, _, argument = service.partition(":")
        words = name.split(",")
        serve: Callable[[Stream], None]
        if words[0] == "shell" and "v2" in words:
            serve = lambda stream: Shell(stream).serve(argument)  # noqa: E731
        elif words[0] in {"shell", "exec"}:
            serve = lambda stream: plain_shell(stream, argument)  # noqa: E731
        elif service == "sync:":
            serve = sync
        else:
            self.send(b"CLSE", 0, remote)
            return
        self._last += 1
        stream = self._streams[self._last] = Stream(self, self._last, remote)
        self.send(b"OKAY", stream.number, remote)
        threading.Thread(target=stream.run, args=(serve,), daemon=True).start()


class Stream:
    """One service on a connection. Each side sends one piece and waits for its receipt."""

    def __init__(self, connection: Connection, number: int, remote: int) -> None:
        self.connection, self.number, self.remote = connection, number, remote
        self.acknowledged = threading.Semaphore(0)
        self.incoming: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.ended = threading.Event()
        self._writing = threading.Lock()
        self._rest = b""

    def run(self, serve: Callable[[Stream], None]) -> None:
        with contextlib.suppress(Closed, OSError):
            serve(self)
        self.end()
        with contextlib.suppress(OSError):
            self.connection.send(b"CLSE", self.number, self.remote)

    def end(self) -> None:
        self.ended.set()
        self.acknowledged.release()
        self.incoming.put(None)
        self.connection.forget(self.number)

    def write(self, data: bytes) -> None:
        with self._writing:
            for begin in range(0, len(data), MOST_BYTES):
                if self.ended.is_set():
                    raise Closed
                self.connection.send(b"WRTE", self.number, self.remote, data[begin : begin + MOST_BYTES])
                self.acknowledged.acquire()
        if self.ended.is_set():
            raise Closed

    def read(self, count: int) -> bytes:
        while len(self._rest) < count:
            piece = self.incoming.get()
            if piece is None:
                raise Closed
            self._rest += piece
            self.connection.send(b"OKAY", self.number, self.remote)
        data, self._rest = self._rest[:count], self._rest[count:]
        return data


class Shell:
    """`shell,v2,raw:`: input, output, errors and the exit status in separate packets."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def serve(self, command: str) -> None:
        process = start(self._stream.connection.device, command, subprocess.PIPE)
        threading.Thread(target=self._feed, args=(process,), daemon=True).start()
        readers = [
            threading.Thread(target=self._pass_on, args=(pipe, kind), daemon=True)
            for pipe, kind in ((process.stdout, STDOUT), (process.stderr, STDERR))
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        status = process.wait()
        self._stream.write(packet(EXIT, bytes([status if status >= 0 else 128 - status])))

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        """Pass the host's input on. When the stream ends, close the input; the process is not killed."""
        assert process.stdin is not None
        with process.stdin, contextlib.suppress(Closed, OSError):
            while True:
                kind, length = struct.unpack("<BI", self._stream.read(5))
                data = self._stream.read(length)
                if kind == STDIN:
                    process.stdin.write(data)
                    process.stdin.flush()
                elif kind == CLOSE_STDIN:
                    return

    def _pass_on(self, pipe: Any, kind: int) -> None:
        with pipe, contextlib.suppress(Closed, OSError):
            while data := os.read(pipe.fileno(), 1 << 15):
                self._stream.write(packet(kind, data))


def packet(kind: int, data: bytes) -> bytes:
    return struct.pack("<BI", kind, len(data)) + data


def plain_shell(stream: Stream, command: str) -> None:
    """Serve the old shell protocol: one stream for output and errors, and no exit status."""
    process = start(stream.connection.device, command, subprocess.STDOUT)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    while data := os.read(process.stdout.fileno(), 1 << 15):
        stream.write(data)
    process.wait()


def sync(stream: Stream) -> None:
    """Serve the files of `adb push` and `adb pull`."""
    root = stream.connection.device.root
    while True:
        what, length = struct.unpack("<4sI", stream.read(8))
        if what == b"QUIT":
            return
        path = stream.read(length).decode()
        try:
            if what == b"STAT":
                stream.write(b"STAT" + _status(_inside(root, path)))
            elif what == b"SEND":
                _receive_file(stream, _inside(root, path.rpartition(",")[0]), int(path.rpartition(",")[2]))
                stream.write(struct.pack("<4sI", b"OKAY", 0))
            elif what == b"RECV":
                data = _inside(root, path).read_bytes()
                for begin in range(0, len(data), 1 << 16):
                    piece = data[begin : begin + (1 << 16)]
                    stream.write(struct.pack("<4sI", b"DATA", len(piece)) + piece)
                stream.write(struct.pack("<4sI", b"DONE", 0))
            else:
                raise OSError(0, f"unknown request {what!r}")
        except OSError as error:
            why = (error.strerror or str(error)).encode()
            stream.write(struct.pack("<4sI", b"FAIL", len(why)) + why)


def _inside(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _status(path: Path) -> bytes:
    try:
        found = path.stat()
    except OSError:
        return struct.pack("<III", 0, 0, 0)
    return struct.pack("<III", found.st_mode, found.st_size, int(found.st_mtime))


def _receive_file(stream: Stream, path: Path, mode: int) -> None:
    """Write a file as the shell's user. Data after an error is read and dropped."""
    failed: OSError | None = None
    try:
        if path.is_dir() or path.parent.stat().st_uid != SHELL_UID:
            raise PermissionError(13, "Permission denied")
        file = path.open("wb")
    except OSError as error:
        failed, file = error, Path(os.devnull).open("wb")  # noqa: SIM115 closed below
    with file:
        while True:
            what, length = struct.unpack("<4sI", stream.read(8))
            if what == b"DONE":
                break
            assert what == b"DATA"
            file.write(stream.read(length))
    if failed is not None:
        raise failed
    path.chmod(mode & 0o777)
    os.chown(path, SHELL_UID, SHELL_UID)


def start(device: Device, command: str, errors: int) -> subprocess.Popen[bytes]:
    """Start a shell in the phone's root as the phone's user."""
    uid = int(device.option("uid"))

    def enter() -> None:
        os.chroot(device.root)
        os.chdir("/")
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)

    return subprocess.Popen(
        ["/system/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**ENVIRONMENT, **device.option("environment")},
        preexec_fn=enter,  # noqa: PLW1509 it makes three system calls and touches no lock
        start_new_session=True,
    )


def is_signed(key: str, token: bytes, signature: bytes) -> bool:
    """Return whether the token was signed with this key of the `adb_keys` file."""
    words, _, modulus, _, exponent = struct.unpack("<II256s256sI", base64.b64decode(key.split(maxsplit=1)[0]))
    assert words * 4 == _KEY_BYTES == len(signature)
    number = pow(int.from_bytes(signature, "big"), exponent, int.from_bytes(modulus, "little"))
    digest = _SHA1_PREFIX + token  # the token takes the place of a digest
    filler = b"\xff" * (_KEY_BYTES - 3 - len(digest))
    return number.to_bytes(_KEY_BYTES, "big") == b"\x00\x01" + filler + b"\x00" + digest


def _exactly(connected: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connected.recv(count - len(data))
        if not piece:
            raise Closed
        data += piece
    return data


def main(folder: Path) -> None:
    device = Device(folder)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / "socket"))
    listening.listen()
    while True:
        connected, _ = listening.accept()
        threading.Thread(target=Connection(device, connected).serve, daemon=True).start()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

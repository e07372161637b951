# SPDX-License-Identifier: Apache-2.0
"""Disks of a guest that are in the test's memory: an NBD server on a Unix socket, and sparse images."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Protocol

#: A disk writes a block of this size either completely or not at all.
BLOCK_BYTES = 4096

_HELLO, _OPTION, _OPTION_REPLY = b"NBDMAGIC", 0x49484156454F5054, 0x3E889045565A9
_REQUEST, _REPLY = 0x25609513, 0x67446698
_OPT_ABORT, _OPT_GO = 2, 7
_REP_ACK, _REP_INFO, _REP_UNSUPPORTED = 1, 3, (1 << 31) + 1
_READ, _WRITE, _DISCONNECT, _FLUSH = 0, 1, 2, 3
#: The disk has flags and supports flushes.
_DISK_FLAGS = 1 | 4


class Disk(Protocol):
    """A disk that is served. The guest's kernel gets an OSError as an error of the disk."""

    size: int

    def read(self, offset: int, length: int) -> bytes: ...

    def write(self, offset: int, data: bytes) -> None: ...

    def flush(self) -> None: ...


class Image:
    """The content of a disk: blocks by number; a missing block is zeros."""

    def __init__(self, size: int, blocks: Mapping[int, bytes] | None = None) -> None:
        self.size = size
        self.blocks = dict(blocks or {})

    @classmethod
    def of(cls, file: Path) -> Image:
        """Return the content of a file as an image."""
        image = cls(file.stat().st_size)
        with file.open("rb") as opened:
            for number in range(image.size // BLOCK_BYTES):
                block = opened.read(BLOCK_BYTES)
                if block.count(0) != len(block):
                    image.blocks[number] = block
        return image

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the image."""
        first, last = offset // BLOCK_BYTES, -(-(offset + length) // BLOCK_BYTES)
        zeros = bytes(BLOCK_BYTES)
        whole = b"".join(self.blocks.get(number, zeros) for number in range(first, last))
        begin = offset - first * BLOCK_BYTES
        return whole[begin : begin + length]

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes into the image."""
        for at, part in pieces(offset, data):
            number, begin = divmod(at, BLOCK_BYTES)
            old = self.blocks.get(number, bytes(BLOCK_BYTES))
            self.blocks[number] = old[:begin] + part + old[begin + len(part) :]

    def flush(self) -> None:
        """Do nothing: all data is already in place."""


def pieces(offset: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a write by block."""
    while data:
        room = BLOCK_BYTES - offset % BLOCK_BYTES
        yield offset, data[:room]
        offset, data = offset + room, data[room:]


@contextmanager
def served(disks: Mapping[str, Disk]) -> Iterator[list[str]]:
    """Yield QEMU options that give a guest these disks, in order.

    Requests of all disks are carried out one at a time.
    """
    lock = Lock()
    with TemporaryDirectory(prefix="nbd-") as folder, socket.socket(socket.AF_UNIX) as listening:
        place = Path(folder) / "socket"
        listening.bind(str(place))
        listening.listen()
        accepting = Thread(target=_accept, args=(listening, disks, lock), daemon=True)
        accepting.start()
        options = "format=raw,if=virtio,cache=writeback,werror=report,rerror=report"
        yield [word for name in disks for word in ("-drive", f"file=nbd+unix:///{name}?socket={place},{options}")]
        listening.shutdown(socket.SHUT_RDWR)
        accepting.join()


def _accept(listening: socket.socket, disks: Mapping[str, Disk], lock: Lock) -> None:
    serving = []
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            break
        serving.append(Thread(target=_talk, args=(connection, disks, lock), daemon=True))
        serving[-1].start()
    for thread in serving:
        thread.join()


def _talk(connection: socket.socket, disks: Mapping[str, Disk], lock: Lock) -> None:
    with connection:
        try:
            disk = _chosen(connection, disks)
            while disk is not None and _answer(connection, disk, lock):
                pass
        except (ConnectionError, BrokenPipeError):
            return


def _take(connection: socket.socket, length: int) -> bytes:
    taken = bytearray()
    while len(taken) < length:
        part = connection.recv(length - len(taken))
        if not part:
            raise ConnectionResetError
        taken += part
    return bytes(taken)


def _chosen(connection: socket.socket, disks: Mapping[str, Disk]) -> Disk | None:
    """Return the disk that the client names; None if the client disconnects."""
    connection.sendall(struct.pack(">8sQH", _HELLO, _OPTION, 3))
    _take(connection, 4)
    while True:
        _, option, length = struct.unpack(">QII", _take(connection, 16))
        data = _take(connection, length)

        def reply(kind: int, content: bytes = b"", option: int = option) -> None:
            connection.sendall(struct.pack(">QIII", _OPTION_REPLY, option, kind, len(content)) + content)

        if option == _OPT_ABORT:
            reply(_REP_ACK)
            return None
        if option != _OPT_GO:
            reply(_REP_UNSUPPORTED)
            continue
        (name_length,) = struct.unpack_from(">I", data)
        disk = disks[data[4 : 4 + name_length].decode()]
        reply(_REP_INFO, struct.pack(">HQH", 0, disk.size, _DISK_FLAGS))
        reply(_REP_ACK)
        return disk


def _answer(connection: socket.socket, disk: Disk, lock: Lock) -> bool:
    """Carry out one request; return whether another one may follow."""
    magic, _, kind, handle, offset, length = struct.unpack(">IHHQQI", _take(connection, 28))
    if magic != _REQUEST or kind == _DISCONNECT:
        return False
    data = _take(connection, length) if kind == _WRITE else b""
    error, content = 0, b""
    try:
        with lock:
            if kind == _READ:
                content = disk.read(offset, length)
            elif kind == _WRITE:
                disk.write(offset, data)
            elif kind == _FLUSH:
                disk.flush()
            else:
                error = errno.EINVAL
    except OSError as failure:
        error = failure.errno or errno.EIO
    connection.sendall(struct.pack(">IIQ", _REPLY, error, handle) + content)
    return True

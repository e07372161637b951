# SPDX-License-Identifier: Apache-2.0
"""Files of a kernel that clamp, refuse, ignore and change each other.

FUSE serves them, so that any program can use them. The protocol is in include/uapi/linux/fuse.h, version 7.31. Contents
are made at each read, as in sysfs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

Write = Callable[["FakeKernel", str], str]
"""What a file makes of a text: the value that it holds then. Raises OSError if the kernel refuses."""


def refused(number: int = errno.EINVAL) -> OSError:
    return OSError(number, os.strerror(number))


def number(low: int, high: int) -> Write:
    """Return a file that accepts a number in a range."""

    def write(kernel: FakeKernel, text: str) -> str:
        if not text.lstrip("-").isdigit() or not low <= int(text) <= high:
            raise refused()
        return text

    return write


def clamped(low: int, high: int) -> Write:
    return lambda kernel, text: str(min(max(int(text), low), high))


def numbers(count: int) -> Write:
    """Return a file that accepts one number for each pair of clusters."""

    def write(kernel: FakeKernel, text: str) -> str:
        if len(text.split()) != count or not all(word.isdigit() for word in text.split()):
            raise refused()
        return "\t".join(text.split())

    return write


def truth(kernel: FakeKernel, text: str) -> str:
    if text not in {"0", "1", "Y", "N"}:
        raise refused()
    return "Y" if text in "1Y" else "N"


def ignored(kernel: FakeKernel, text: str) -> str:
    raise NoEffect


def read_only(kernel: FakeKernel, text: str) -> str:
    raise refused(errno.EACCES)


def boosts(kernel: FakeKernel, text: str) -> str:
    """Write the list of CAF's cpu_boost: each read ends with a space, and a write that ends with a space is refused."""
    words = text.replace(":", " : ").split()
    if text != text.strip() or len(words) % 3:
        raise refused()
    shown = kernel.files["/sys/module/cpu_boost/parameters/input_boost_freq"].value
    found = dict(pair.split(":") for pair in shown.split())
    found |= {words[at]: words[at + 2] for at in range(0, len(words), 3)}
    return "".join(f"{cpu}:{clock} " for cpu, clock in found.items())


class NoEffect(Exception):
    """The kernel accepts the value and does nothing."""


def word(*offered: str) -> Write:
    """Return a file that accepts one of the words that the kernel offers."""

    def write(kernel: FakeKernel, text: str) -> str:
        if text not in offered:
            raise refused()
        return text

    return write


@dataclass
class KernelFile:
    value: str
    write: Write = read_only
    shown: Callable[[str], str] = lambda value: f"{value}\n"
    then: Callable[[FakeKernel], None] = lambda kernel: None
    unreadable: bool = False


def chooser(offered: str, then: Callable[[FakeKernel], None] = lambda kernel: None) -> KernelFile:
    """Return a file like `noop deadline [cfq]`; a single word without brackets is not a choice."""
    words = offered.replace("[", "").replace("]", "").split()
    chosen = next((one.strip("[]") for one in offered.split() if one.startswith("[")), words[0])

    def shown(value: str) -> str:
        if offered == words[0]:
            return f"{offered}\n"
        return " ".join(f"[{one}]" if one == value else one for one in words) + " \n"

    return KernelFile(chosen, word(*words), shown, then)


@dataclass
class FakeKernel:
    """Files by path. `written` logs all writes."""

    files: dict[str, KernelFile] = field(default_factory=dict)
    written: list[tuple[str, str]] = field(default_factory=list)

    def add(self, path: str, value: str | int, write: Write = read_only) -> None:
        self.files[path] = KernelFile(str(value), write)

    def contents(self) -> dict[str, str]:
        return {path: file.shown(file.value) for path, file in self.files.items() if not file.unreadable}

    def read(self, path: str) -> bytes:
        file = self.files[path]
        if file.unreadable:
            raise refused(errno.EACCES)
        return file.shown(file.value).encode()

    def take(self, path: str, data: bytes) -> None:
        file, text = self.files[path], data.decode().rstrip("\n")
        self.written.append((path, text))
        try:
            file.value = file.write(self, text)
        except NoEffect:
            return
        file.then(self)


_HEADER, _REPLY = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")
_DIRECTORY, _FILE = 0o40755, 0o100644


class Served:
    """A kernel's files while a program uses them: `with Served(kernel) as served`, then `served.run`."""

    _MOUNT = "fd={},rootmode=40000,user_id=0,group_id=0,allow_other"

    def __init__(self, kernel: FakeKernel) -> None:
        self._kernel = kernel
        self._ids = {"/": 1}
        self._paths = {1: "/"}
        self._errors: list[BaseException] = []

    def run(self, root: Path, *argv: str, mount: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program in the root, whose /proc, /sys and /dev/stune are the fake kernel's.

        `mount` contains the arguments of one more mount, with {root} for the root.
        """
        device = os.open("/dev/fuse", os.O_RDWR)
        server = threading.Thread(target=self._serve, args=(device,), daemon=True)
        mounts = [f"mount -i -t fuse -o {self._MOUNT.format(device)} kernel '{root}/mnt'"]
        for place in ("/proc", "/sys", "/dev/stune"):
            if self._children(place):
                mounts.append(f"mkdir -p '{root}{place}' && mount --bind '{root}/mnt{place}' '{root}{place}'")
        mounts.append(f"mount --bind /dev/null '{root}/dev/null'")
        if mount is not None:
            mounts.append(f"mount {mount.format(root=root)}")
        enter = "chroot=$(command -v chroot) && export PATH=/system/bin LC_ALL=de_DE.UTF-8"
        script = " && ".join((*mounts, enter, f'exec "$chroot" \'{root}\' "$@"'))
        server.start()
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script, "sh", *argv],
            pass_fds=(device,),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        server.join(timeout=30)
        os.close(device)
        assert self._errors == []
        assert not server.is_alive()
        return done

    def _serve(self, device: int) -> None:
        while True:
            try:
                request = os.read(device, 1 << 18)
            except PermissionError:  # not mounted yet
                time.sleep(0.002)
                continue
            except OSError as error:
                if error.errno != errno.ENODEV:  # unmounted
                    self._errors.append(error)
                return
            _, operation, unique, node, *_ = _HEADER.unpack_from(request)
            if operation in {2, 42}:  # forget
                continue
            try:
                answer, status = self._answer(operation, node, request[_HEADER.size :]), 0
            except OSError as error:
                answer, status = b"", -(error.errno or errno.EIO)
            except Exception as error:  # noqa: BLE001 (the test must see it, not the thread)
                self._errors.append(error)
                answer, status = b"", -errno.EIO
            with contextlib.suppress(FileNotFoundError):  # the mount may end before the answer, as in a late close
                os.write(device, _REPLY.pack(_REPLY.size + len(answer), status, unique) + answer)

    def _answer(self, operation: int, node: int, body: bytes) -> bytes:
        if operation == 26:
            return struct.pack("<IIIIHHIII", 7, 31, 65536, 0, 16, 16, 65536, 1, 0).ljust(64, b"\0")
        act = self._ACTS.get(operation)
        if act is None:
            raise refused(errno.ENOSYS)
        return act(self, self._paths[node], body)

    def _children(self, path: str) -> list[str]:
        start = path.rstrip("/") + "/"
        found = {one[len(start) :].partition("/")[0] for one in self._kernel.files if one.startswith(start)}
        return sorted(found)

    def _attributes(self, path: str) -> bytes:
        is_file = path in self._kernel.files
        if not is_file and not self._children(path):
            raise refused(errno.ENOENT)
        mode, size = (_FILE, 4096) if is_file else (_DIRECTORY, 0)
        return struct.pack("<QQQQQQIIIIIIIIII", self._ids[path], size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _lookup(self, path: str, body: bytes) -> bytes:
        child = f"{path.rstrip('/')}/{body.rstrip(bytes(1)).decode()}"
        number = self._ids.setdefault(child, len(self._ids) + 1)
        self._paths[number] = child
        return struct.pack("<QQQQII", number, 0, 0, 0, 0, 0) + self._attributes(child)

    def _get_attributes(self, path: str, body: bytes) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + self._attributes(path)

    def _open(self, path: str, body: bytes) -> bytes:
        (flags,) = struct.unpack_from("<I", body)
        if path in self._kernel.files and self._kernel.files[path].write is read_only and flags & os.O_ACCMODE:
            raise refused(errno.EACCES)
        return struct.pack("<QII", 0, 1, 0)  # direct I/O, so that each read asks the kernel

    def _read(self, path: str, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        return self._kernel.read(path)[offset : offset + size]

    def _write(self, path: str, body: bytes) -> bytes:
        _, _, size = struct.unpack_from("<QQI", body)
        self._kernel.take(path, body[40 : 40 + size])
        return struct.pack("<II", size, 0)

    def _list(self, path: str, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        answer = b""
        for at, name in enumerate(self._children(path)[offset:], start=offset + 1):
            text = name.encode()
            entry = struct.pack("<QQII", at + 1000, at, len(text), 0) + text
            entry = entry.ljust(-(-len(entry) // 8) * 8, b"\0")
            if len(answer) + len(entry) > size:
                break
            answer += entry
        return answer

    def _nothing(self, path: str, body: bytes) -> bytes:
        return b""

    #: The function for each operation number.
    _ACTS: ClassVar[dict[int, Callable[[Served, str, bytes], bytes]]] = {
        1: _lookup,
        3: _get_attributes,
        4: _get_attributes,
        14: _open,
        15: _read,
        16: _write,
        18: _nothing,
        25: _nothing,
        27: _open,
        28: _list,
        29: _nothing,
        38: _nothing,
    }

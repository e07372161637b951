# SPDX-License-Identifier: Apache-2.0
"""The initial RAM file system of a guest: a cpio archive. The same content always gives the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

_REGULAR, _FOLDER, _LINK, _DEVICE = 0o100000, 0o040000, 0o120000, 0o020000
#: Merged folders of programs and libraries. A guest always merges them, even if the host does not.
_MERGED = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64", "lib32": "usr/lib32"}
#: Mount points, and folders that programs expect.
_FOLDERS = ("dev", "etc", "ktrial", "proc", "root", "run", "sys", "tmp", "usr", "var", *_MERGED.values())
#: Devices that the first process needs before /dev is mounted: name, major and minor number.
_DEVICES = (("dev/console", 5, 1), ("dev/null", 1, 3))
_USERS = b"root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n"
_GROUPS = b"root:x:0:\nuser:x:1000:\n"


class Archive:
    """A cpio archive in the "newc" format, built in memory. Everything belongs to root and has time zero."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0
        self._names: set[str] = set()

    def _add(self, name: str, mode: int, content: bytes, device: tuple[int, int] = (0, 0)) -> None:
        self._count += 1
        self._names.add(name)
        encoded = name.encode(errors="surrogateescape") + b"\0"
        fields = [self._count, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0]
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        for part in (header + encoded, content):
            self._parts += [part, b"\0" * (-len(part) % 4)]

    def folder(self, name: str, mode: int = 0o755) -> None:
        """Add a folder and its missing parents, which get mode 0755."""
        for path in reversed(PurePosixPath(name).parents):
            if str(path) not in (".", *self._names):
                self._add(str(path), _FOLDER | 0o755, b"")
        if name not in (".", *self._names):
            self._add(name, _FOLDER | mode, b"")

    def file(self, name: str, content: bytes, mode: int = 0o755) -> None:
        self.folder(str(PurePosixPath(name).parent))
        self._add(name, _REGULAR | mode, content)

    def link(self, name: str, target: str) -> None:
        self._add(name, _LINK | 0o777, target.encode())

    def device(self, name: str, major: int, minor: int) -> None:
        self._add(name, _DEVICE | 0o600, b"", (major, minor))

    def bytes(self) -> bytes:
        trailer = Archive()
        trailer._add("TRAILER!!!", 0, b"")
        return b"".join(self._parts + trailer._parts)


def place(path: str) -> str:
    """Return the archive's name for a path in the guest, without the leading slash: `usr/bin/sh` for `/bin/sh`."""
    first, _, rest = path.lstrip("/").partition("/")
    return f"{_MERGED.get(first, first)}/{rest}" if rest else first


def build(agent: bytes, job: bytes, files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> bytes:
    """Return the archive: the agent as first process, its job, and `files` and `links` by their paths in the guest.

    A path that ends in a slash becomes a folder that everybody may write to.
    """
    archive = Archive()
    for name in _FOLDERS:
        archive.folder(name)
    for name, target in _MERGED.items():
        archive.link(name, target)
    for name, major, minor in _DEVICES:
        archive.device(name, major, minor)
    archive.file("init", agent)
    archive.link("usr/bin/ktrial-agent", "/init")
    archive.file("ktrial/job.json", job, 0o600)
    archive.file("etc/passwd", _USERS, 0o644)
    archive.file("etc/group", _GROUPS, 0o644)
    for name, content in sorted(files.items()):
        if name.endswith("/"):
            archive.folder(place(name.rstrip("/")), 0o777)
        else:
            archive.file(place(name), content)
    for name, target in sorted((links or {}).items()):
        archive.folder(str(PurePosixPath(place(name)).parent))
        archive.link(place(name), target)
    return archive.bytes()

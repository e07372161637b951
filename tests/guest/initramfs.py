# SPDX-License-Identifier: Apache-2.0
"""An initial RAM file system made of busybox, some kernel modules and a script, as a cpio archive."""

from __future__ import annotations

import lzma
from collections.abc import Mapping
from pathlib import Path

REGULAR, DIRECTORY, LINK = 0o100000, 0o040000, 0o120000
BUSYBOX = Path("/bin/busybox")


class Archive:
    """A cpio archive in the "newc" form, built in memory."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0

    def _add(self, name: str, mode: int, content: bytes) -> None:
        self._count += 1
        encoded = name.encode() + b"\0"
        fields = [self._count, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0]
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        for part in (header + encoded, content):
            self._parts += [part, b"\0" * (-len(part) % 4)]

    def folder(self, name: str) -> None:
        """Adds a folder, mode 0755."""
        self._add(name, DIRECTORY | 0o755, b"")

    def file(self, name: str, content: bytes, mode: int = 0o755) -> None:
        """Adds a regular file."""
        self._add(name, REGULAR | mode, content)

    def link(self, name: str, target: str) -> None:
        """Adds a symbolic link."""
        self._add(name, LINK | 0o777, target.encode())

    def bytes(self) -> bytes:
        """The whole archive with its trailer."""
        trailer = Archive()
        trailer._add("TRAILER!!!", 0, b"")
        return b"".join(self._parts + trailer._parts)


def plain(module: Path) -> bytes:
    """The module's object file, unpacked when it is compressed."""
    content = module.read_bytes()
    return lzma.decompress(content) if module.suffix == ".xz" else content


def build(modules: list[Path], script: str, files: Mapping[str, bytes]) -> bytes:
    """The archive: busybox with its commands, the modules, `files` by path, and `script` as /init."""
    archive = Archive()
    parents = {str(parent)[1:] for path in files for parent in Path(path).parents}
    for name in sorted({"bin", "dev", "etc", "modules", "proc", "sys", "tmp"} | parents - {""}):
        archive.folder(name)
    for path, content in files.items():
        archive.file(path[1:], content)
    archive.file("bin/busybox", BUSYBOX.read_bytes())
    archive.link("bin/sh", "busybox")
    loading: list[str] = []
    for index, module in enumerate(modules):
        name = f"modules/{index:02}-{module.name.removesuffix('.xz')}"
        archive.file(name, plain(module), 0o644)
        loading.append(f"insmod /{name} || echo 'cannot load {name}'")
    archive.file("init", script.replace("@MODULES@", "\n".join(loading)).encode())
    return archive.bytes()

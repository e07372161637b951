# SPDX-License-Identifier: Apache-2.0
"""An initial RAM file system made of busybox, some kernel modules and a script, as a cpio archive."""

from __future__ import annotations

import lzma
from collections.abc import Mapping
from pathlib import Path

from ktrial.guests.initramfs import Archive

BUSYBOX = Path("/bin/busybox")


def plain(module: Path) -> bytes:
    """The module's object file, unpacked when it is compressed."""
    content = module.read_bytes()
    return lzma.decompress(content) if module.suffix == ".xz" else content


def build(modules: list[Path], script: str, files: Mapping[str, bytes]) -> bytes:
    """The archive: busybox with its commands, the modules, `files` by path, and `script` as /init."""
    archive = Archive()
    for name in ("bin", "dev", "etc", "modules", "proc", "sys", "tmp"):
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

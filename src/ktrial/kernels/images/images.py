# SPDX-License-Identifier: Apache-2.0
"""Finds kernels on this machine by path, by version or inside a package, with their configuration."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ktrial.kernels.build.objects import built_objects, is_built_tree
from ktrial.kernels.identity import KernelFound
from ktrial.kernels.images.packages import is_package, kernel_of
from ktrial.kernels.images.read_identity import identify, identify_running
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.kit.files import why_unread

RUNNING = "running"
_BTF = "/sys/kernel/btf/vmlinux"
_LIMIT_BYTES = 256 << 20
_CONFIG_LIMIT_BYTES = 16 << 20
#: Folders with one kernel per version, and the name of its file.
_INSTALLED = (("boot", "vmlinuz-{}"), ("usr/lib/modules", "{}/vmlinuz"), ("lib/modules", "{}/vmlinuz"))
#: Where a built tree puts its image.
_BUILT = (
    *("arch/x86/boot/bzImage", "arch/x86_64/boot/bzImage"),
    *("arch/arm64/boot/Image", "arch/arm64/boot/Image.gz", "arch/arm64/boot/vmlinuz.efi"),
    "vmlinux",
)
_ANY = f"expected boot/vmlinuz-…, lib/modules/…/vmlinuz, {', '.join(_BUILT)}"
#: Folders of a built tree that hold an architecture's images.
_BOOT_FOLDERS = (("arch", "x86"), ("arch", "x86_64"), ("arch", "arm64"))


class KernelFiles(NamedTuple):
    """A kernel that ktrial found: the word that named it, its image, and its configuration, if any."""

    name: str
    image_path: str
    image: bytes
    config: bytes | None = None
    config_path: str | None = None


class Images:
    """Finds kernels below `root`."""

    def __init__(self, root: Path = Path("/"), release: str | None = None) -> None:
        self._root = root
        self._release = release or os.uname().release

    def find(self, word: str) -> KernelFiles:
        """Return the kernel that `word` names: `running`, a path, or an installed version."""
        path = Path(word)
        if word == RUNNING and self._release not in self.installed():
            raise BadInput(
                f"cannot find the image of the running kernel ({self._release}) in /boot or /lib/modules",
                hint="name an installed kernel (see `ktrial kernel list`), or the path of an image or a kernel package",
            )
        if word == RUNNING:
            return self._installed(self._release)
        if path.is_dir():
            return self._in_folder(path, word)
        if "/" in word and not path.exists():
            raise BadInput(
                "no such file", file=word, hint="check the path, or run `ktrial kernel list` to list installed kernels"
            )
        if path.is_file() or "/" in word:
            return _package(path, word) if is_package(path) else _image(path, word)
        return self._installed(word)

    def installed(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for folder, pattern in _INSTALLED:
            before, after = pattern.split("{}")
            for path in sorted((self._root / folder).glob(pattern.format("*"))):
                version = str(path.relative_to(self._root / folder)).removeprefix(before).removesuffix(after)
                found.setdefault(version, path)
        return found

    def _installed(self, version: str) -> KernelFiles:
        found = self.installed()
        if version not in found:
            hint = "run `ktrial kernel list` to list installed kernels, or use the path of an image or a kernel package"
            raise UnknownName("installed kernel", version, found, hint=hint)
        return _image(found[version], version)

    def _in_folder(self, folder: Path, word: str) -> KernelFiles:
        inside = list(Images(folder).installed().values())
        inside += [path for path in (folder / name for name in _BUILT) if path.is_file()][:1]
        if not inside:
            raise BadInput(
                f"no kernel in this folder: {_ANY}", file=word, hint="name a kernel image, or a build folder"
            )
        if len(inside) > 1:
            raise BadInput(
                f"this folder holds {len(inside)} kernels", file=word, hint=f"name one kernel, for example  {inside[0]}"
            )
        return _image(inside[0], word)


def _image(path: Path, word: str) -> KernelFiles:
    data = _whole(path, _LIMIT_BYTES)
    for config in _config_places(path):
        if config.is_file():
            return KernelFiles(word, str(path), data, _whole(config, _CONFIG_LIMIT_BYTES), str(config))
    return KernelFiles(word, str(path), data)


def _whole(path: Path, limit_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(limit_bytes + 1)
    except OSError as error:
        raise BadInput(why_unread(error), file=str(path), hint="check the path and its permissions") from None
    if len(data) > limit_bytes:
        raise BadInput(f"too large (maximum {limit_bytes >> 20} MiB)", file=str(path), hint="name another kernel")
    return data


def _config_places(path: Path) -> Iterator[Path]:
    """Yield where an image's configuration may be: beside the image under its version, or in its build tree."""
    name = path.name
    for word in ("vmlinuz-", "vmlinux-", "bzImage-", "Image-"):
        if name.startswith(word):
            yield path.with_name(f"config-{name.removeprefix(word)}")
    if name == "vmlinuz":
        yield path.with_name("config")
    if path.parts[-4:-2] in _BOOT_FOLDERS:
        yield path.parents[3] / ".config"
    if name == "vmlinux":
        yield path.with_name(".config")


def _package(path: Path, word: str) -> KernelFiles:
    image, config = kernel_of(path, word)
    if config is None:
        return KernelFiles(word, f"{word}:{image.name}", image.content)
    return KernelFiles(word, f"{word}:{image.name}", image.content, config.content, f"{word}:{config.name}")


def read_kernel(images: Images, word: str) -> KernelFound:
    """Identify the kernel that `word` names; `running` means the kernel in memory, not the file it was booted from."""
    if word == RUNNING:
        return _read_running()
    files = images.find(word)
    identity, symbols = identify(files.image, files.image_path, files.config, files.config_path)
    folder = Path(word)
    objects = built_objects(folder) if is_built_tree(folder) else None
    return KernelFound(name=word, place=files.image_path, identity=identity, symbols=symbols, objects=objects)


def _read_running() -> KernelFound:
    name = os.uname()
    identity, symbols = identify_running(
        Path("/proc/version").read_bytes(),
        architecture=name.machine,
        words=(_read_bytes("/proc/kallsyms") or b"") + (_read_bytes(_BTF) or b""),
        notes=_read_bytes("/sys/kernel/notes") or b"",
        btf=Path(_BTF).exists(),
        config=_running_config(name.release),
    )
    return KernelFound(name=RUNNING, place="/proc", identity=identity, symbols=symbols)


def _running_config(release: str) -> tuple[bytes | None, str | None]:
    packed = _read_bytes("/proc/config.gz")
    if packed is not None:
        return gzip.decompress(packed), "/proc/config.gz"
    for place in (f"/boot/config-{release}", f"/lib/modules/{release}/config"):
        if (text := _read_bytes(place)) is not None:
            return text, place
    return None, None


def _read_bytes(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None

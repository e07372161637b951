# SPDX-License-Identifier: Apache-2.0
"""Kernels of this machine: by path, by version, out of a package of Debian, with their configuration."""

from __future__ import annotations

import gzip
import lzma
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from ktrial.domain.errors import BadInput, UnknownName
from ktrial.domain.kernel_identity import KernelFound
from ktrial.formats import debian_package
from ktrial.formats.kernel_identity import identify, identify_running
from ktrial.kernels.built_objects import built_objects, is_built_tree

RUNNING = "running"
_BTF = "/sys/kernel/btf/vmlinux"
_LIMIT_BYTES = 256 << 20
_CONFIG_LIMIT_BYTES = 16 << 20
#: Folders with a kernel per version, and what the file is called there.
_INSTALLED = (("boot", "vmlinuz-{}"), ("usr/lib/modules", "{}/vmlinuz"), ("lib/modules", "{}/vmlinuz"))
#: Where a built tree has its image.
_BUILT = (
    *("arch/x86/boot/bzImage", "arch/x86_64/boot/bzImage"),
    *("arch/arm64/boot/Image", "arch/arm64/boot/Image.gz", "arch/arm64/boot/vmlinuz.efi"),
    "vmlinux",
)
_ANY = f"it has none of boot/vmlinuz-…, lib/modules/…/vmlinuz, {', '.join(_BUILT)}"
#: Folders of a built tree in which the images of an architecture lie.
_BOOT_FOLDERS = (("arch", "x86"), ("arch", "x86_64"), ("arch", "arm64"))


class KernelFiles(NamedTuple):
    """A kernel that was found: what it was asked for as, its image, and its configuration where there is one."""

    name: str
    image_path: str
    image: bytes
    config: bytes | None = None
    config_path: str | None = None


class Images:
    """Finds kernels. `root` stands for `/`."""

    def __init__(self, root: Path = Path("/"), release: str | None = None) -> None:
        self._root = root
        self._release = release or os.uname().release

    def find(self, word: str) -> KernelFiles:
        """The kernel that a word names: `running`, a path, or an installed version."""
        path = Path(word)
        if word == RUNNING:
            return self._installed(self._release)
        if path.is_dir():
            return self._in_folder(path, word)
        if path.is_file() or "/" in word:
            return _package(path, word) if _begins(path, debian_package.MAGIC) else _image(path, word)
        return self._installed(word)

    def installed(self) -> dict[str, Path]:
        """The images installed here, by version."""
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
            hint = "give the path of a vmlinuz, a bzImage or a linux-image package of Debian"
            raise UnknownName("installed kernel", version, found, hint=hint)
        return _image(found[version], version)

    def _in_folder(self, folder: Path, word: str) -> KernelFiles:
        inside = list(Images(folder).installed().values())
        inside += [path for path in (folder / name for name in _BUILT) if path.is_file()][:1]
        if not inside:
            raise BadInput(f"there is no kernel in it: {_ANY}", file=word)
        if len(inside) > 1:
            raise BadInput(f"there are {len(inside)} kernels in it", file=word, hint=f"name one: {inside[0]}")
        return _image(inside[0], word)


def _begins(path: Path, magic: bytes) -> bool:
    with _opened(path) as file:
        return file.read(len(magic)) == magic


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise BadInput(f"it cannot be read: {error.strerror}", file=str(path)) from None


def _image(path: Path, word: str) -> KernelFiles:
    data = _whole(path, _LIMIT_BYTES)
    for config in _config_places(path):
        if config.is_file():
            return KernelFiles(word, str(path), data, _whole(config, _CONFIG_LIMIT_BYTES), str(config))
    return KernelFiles(word, str(path), data)


def _whole(path: Path, limit_bytes: int) -> bytes:
    with _opened(path) as file:
        data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise BadInput(f"it has more than {limit_bytes >> 20} MiB", file=str(path))
    return data


def _config_places(path: Path) -> Iterator[Path]:
    """Where the configuration of an image lies: beside it under its version, or in the tree that it was built in."""
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
    """The kernel of a Debian package. It is read only as far as the folder `boot` goes."""
    image: tuple[str, bytes] | None = None
    config: tuple[str, bytes] | None = None
    try:
        for name, content in _boot_files(path):
            if name.startswith(("vmlinuz-", "vmlinux-")):
                image = name, content
            if name.startswith("config-"):
                config = name, content
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError) as error:
        raise BadInput(f"its files cannot be read: {error}", file=word, hint="download it anew") from None
    if image is None:
        raise BadInput("there is no boot/vmlinuz-… in this package", file=word, hint="take a linux-image package")
    data, text = config if config is not None else (None, None)
    return KernelFiles(word, f"{word}:boot/{image[0]}", image[1], text, data and f"{word}:boot/{data}")


def _boot_files(path: Path) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as file, package_files(file, path) as archive:
        seen = False
        for entry in archive:
            name = entry.name.removeprefix("./")
            if name.startswith("boot/") and entry.isfile():
                seen = True
                if entry.size > _LIMIT_BYTES:
                    raise BadInput(f"{name} has more than {_LIMIT_BYTES >> 20} MiB", file=str(path))
                content = archive.extractfile(entry)
                yield name.removeprefix("boot/"), content.read() if content is not None else b""
            elif seen and not name.startswith("boot"):
                return


def package_files(file: IO[bytes], path: Path) -> tarfile.TarFile:
    """The archive of the files within a package of Debian, which `file` was opened from."""
    at = len(debian_package.MAGIC)
    while True:
        file.seek(at)
        member = debian_package.member(file.read(debian_package.HEADER_BYTES), at, str(path))
        if member.name.startswith("data.tar"):
            break
        at = member.next
    file.seek(member.offset)
    if member.name.endswith(".zst"):
        import zstandard

        return tarfile.open(fileobj=zstandard.ZstdDecompressor().stream_reader(file), mode="r|")
    return tarfile.open(fileobj=file, mode="r|*")


def read_kernel(images: Images, word: str) -> KernelFound:
    """What a kernel is that a word names; `running` is the one that runs, whatever lies in its place by now."""
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
        words=(_shown("/proc/kallsyms") or b"") + (_shown(_BTF) or b""),
        notes=_shown("/sys/kernel/notes") or b"",
        btf=Path(_BTF).exists(),
        config=_running_config(name.release),
    )
    return KernelFound(name=RUNNING, place="/proc", identity=identity, symbols=symbols)


def _running_config(release: str) -> tuple[bytes | None, str | None]:
    packed = _shown("/proc/config.gz")
    if packed is not None:
        return gzip.decompress(packed), "/proc/config.gz"
    for place in (f"/boot/config-{release}", f"/lib/modules/{release}/config"):
        if (text := _shown(place)) is not None:
            return text, place
    return None, None


def _shown(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None

# SPDX-License-Identifier: Apache-2.0
"""Finds kernel modules for a guest: selected by name, with their dependencies, in loading order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ktrial.kernels.images.kernel_module import module_name, read_module
from ktrial.kit.errors import BadInput, UnknownName

#: The folder of modules in a guest.
_GUEST_FOLDER = "/ktrial/modules"


def modules_folder(image: Path) -> Path | None:
    """Return the folder of an image's modules; None if the image is not where packages install kernels."""
    if image.name == "vmlinuz" and image.parent.parent.name == "modules":
        return image.parent
    version = image.name.removeprefix("vmlinuz-")
    for folder in ("lib/modules", "usr/lib/modules"):
        place = image.parent.parent / folder / version
        if place.is_dir():
            return place
    return None


def take_modules(names: Sequence[str], image: str, wanted: Sequence[str] = ()) -> dict[str, bytes]:
    """Return the content of each module by its path in the guest, in loading order. Skip built-in modules.

    Modules in `wanted` are optional: they come first, if this kernel has them.
    """
    folder = modules_folder(Path(image)) if names or wanted else None
    if folder is None and not names:
        return {}
    if folder is None:
        raise BadInput(
            "no modules beside this kernel",
            file=image,
            hint="use an installed kernel, or the image in a package unpacked with `dpkg -x`",
        )
    return _Loading(folder).of(names, wanted)


class _Loading:
    def __init__(self, folder: Path) -> None:
        self._files: dict[str, Path] = {}
        for path in sorted(folder.rglob("*.ko*")):
            name = module_name(path.name)
            if name is not None:
                self._files.setdefault(name, path)
        listed = folder / "modules.builtin"
        text = listed.read_text(encoding="utf-8", errors="replace") if listed.is_file() else ""
        self._built_in = {name for line in text.splitlines() if (name := module_name(line)) is not None}
        self._found: dict[str, bytes] = {}

    def of(self, names: Sequence[str], wanted: Sequence[str]) -> dict[str, bytes]:
        for name in wanted:
            self._add(name, needed=False, on_the_way=())
        for name in names:
            self._add(name.replace("-", "_"), needed=True, on_the_way=())
        order = enumerate(self._found.items())
        return {f"{_GUEST_FOLDER}/{index:03}-{name}.ko": content for index, (name, content) in order}

    def _on_every_cpu(self, name: str) -> str:
        """Return the generic module of a crypto algorithm, which runs on every CPU; other names stay unchanged."""
        generic = f"{name.removeprefix('crypto_')}_generic"
        return generic if name.startswith("crypto_") and generic in self._files else name

    def _add(self, name: str, *, needed: bool, on_the_way: tuple[str, ...]) -> None:
        if name in self._found or name in self._built_in or name in on_the_way:
            return
        if name not in self._files:
            if needed:
                raise UnknownName("module of this kernel", name, self._files, hint="use a kernel that has the module")
            return
        path = self._files[name]
        module = read_module(path.read_bytes(), str(path))
        for other in module.before:
            self._add(self._on_every_cpu(other), needed=False, on_the_way=(*on_the_way, name))
        for other in module.depends:
            self._add(other, needed=True, on_the_way=(*on_the_way, name))
        self._found[name] = module.object

# SPDX-License-Identifier: Apache-2.0
"""Configures a kernel tree in a separate folder. ktrial makes a base; the tree's own script merges the requests."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from ktrial.kernels.build.make import MakeFolder, run
from ktrial.kernels.images import debian_package
from ktrial.kernels.images.images import RUNNING, Images, read_kernel
from ktrial.kit.errors import BadInput, KtrialError, UnreadableOutput
from ktrial.kit.formats.kernel_config import read_fragment, read_symbols

#: Bases that a make target of the tree creates.
MADE = ("defconfig", "tinyconfig", "allnoconfig")
LOCAL, DISTRO = "localmodconfig", "distro"
BASES = (RUNNING, DISTRO, LOCAL, *MADE)
_MERGE = "scripts/kconfig/merge_config.sh"
#: Empty answers to Kconfig, which asks about each new symbol and then takes the default.
_ENTER = b"\n" * 50_000
_DEBIAN = "usr/src/linux-config-{}/config.{}_none_{}*"
_RELEASE = re.compile(r"(?<!\d)(\d++)\.(\d+)")


class Configuring(MakeFolder):
    """Makes a base configuration, and merges requested symbols into it; `root` stands for `/`."""

    def __init__(
        self, tree: Path, variables: Mapping[str, str], images: Images, work: Path, root: Path = Path("/")
    ) -> None:
        super().__init__(tree, variables, work)
        self._images = images
        self._root = root

    def base(self, word: str, version: str) -> tuple[str, Mapping[str, str]]:
        place = word
        if word in MADE:
            self._make.run(word)
        else:
            place, text = self._text(word, version)
            (self._out / ".config").write_text(text, encoding="utf-8")
            if word == LOCAL:
                self._make.run(LOCAL, stdin=_ENTER)
        self._make.run("olddefconfig")
        shutil.copyfile(self._out / ".config", self._out / "base")
        return place, self._symbols()

    def merged(self, fragment: str) -> Mapping[str, str]:
        (self._out / "fragment").write_text(fragment, encoding="utf-8")
        script = self._tree / _MERGE
        argv = ["sh", str(script), "-m", "-O", str(self._out), str(self._out / "base"), str(self._out / "fragment")]
        run(argv, {**self._make.environment(), "KCONFIG_CONFIG": str(self._out / ".config")}, None, _MERGE)
        self._make.run("olddefconfig")
        return self._symbols()

    @property
    def text(self) -> bytes:
        return (self._out / ".config").read_bytes()

    def _symbols(self) -> Mapping[str, str]:
        return read_symbols(self.text)

    def _text(self, word: str, version: str) -> tuple[str, str]:
        if word in (RUNNING, LOCAL):
            return self._of_kernel(RUNNING, "the running kernel")
        if word == DISTRO:
            return self._of_distribution(version)
        path = Path(word)
        if not path.is_file():
            hint = f"use {', '.join(BASES)}, a .config, or a kernel image or package with a configuration"
            raise BadInput("no such configuration", file=word, hint=hint)
        data = path.read_bytes()
        if data.startswith(debian_package.MAGIC) or b"\0" in data[:65536]:
            return self._of_kernel(word, word)
        text = data.decode("utf-8", "replace")
        try:
            read_fragment(data, word)
        except UnreadableOutput as error:
            raise BadInput(error.message, hint="use a .config, or a kernel image or package") from None
        return str(path.resolve()), text

    def _of_kernel(self, word: str, shown: str) -> tuple[str, str]:
        found = read_kernel(self._images, word)
        if found.symbols is None:
            raise KtrialError(
                f"cannot find the configuration of {shown} in the image, beside the image or in /boot",
                hint="use --config defconfig, or --config FILE with a .config",
            )
        place = found.identity.config_from or word
        return place, "".join(f"CONFIG_{name}={value}\n" for name, value in found.symbols.items())

    def _of_distribution(self, version: str) -> tuple[str, str]:
        """Return place and text of the distribution configuration whose version is nearest to `version`."""
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
        found = sorted(self._root.glob(_DEBIAN.format("*", machine, machine)))
        found += sorted((self._root / "boot").glob("config-*"))
        found += sorted((self._root / "lib" / "modules").glob("*/config"))
        if not found:
            raise KtrialError(
                "no distribution configuration in /boot, /lib/modules or /usr/src/linux-config-*",
                hint="install Debian's package linux-config-X.Y, or give a linux-image package with --config",
            )
        nearest = min(found, key=lambda path: _distance(str(path), version))
        if nearest.suffix != ".xz":
            return str(nearest), nearest.read_text(encoding="utf-8", errors="replace")
        import lzma

        return str(nearest), lzma.decompress(nearest.read_bytes()).decode("utf-8", "replace")


def _distance(path: str, version: str) -> tuple[int, int]:
    here, wanted = _RELEASE.search(path), _RELEASE.search(version)
    if here is None or wanted is None:
        return 1 << 30, 0
    first, second = ((int(match[1]), int(match[2])) for match in (here, wanted))
    return abs(first[0] - second[0]), abs(first[1] - second[1])
